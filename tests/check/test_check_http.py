"""Checks over HTTP of servers with ways of their own: each is asked as it wants to be, and the file is told how.

The clock stands still, so that a busy machine does not look like a server that holds its answers back.
"""

import json
import random
from typing import Any

import pytest
from trio.testing import MockClock

from agents.errors import Refused, Unavailable
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.secret import Secret
from orchestrator.check.models import NoModelList, list_models
from orchestrator.check.run import Check, Subject
from orchestrator.check.sender import Step
from tests.backends import payloads
from tests.backends.upstream import upstream
from tests.check.asked import WELL, answering, checked, dumped, finding, said, states

LIMITED = {
    "x-ratelimit-limit-requests": "500",
    "x-ratelimit-remaining-requests": "499",
    "x-ratelimit-reset-requests": "120ms",
    "x-ratelimit-limit-tokens": "30000",
    "x-ratelimit-remaining-tokens": "29976",
    "x-ratelimit-reset-tokens": "48ms",
}


def refusing(name: str, field: str, value: Any = None, status: int = 400) -> Any:
    """Answers the ask `name` well, unless its body has the field (with that value)."""

    def answer(body: Any) -> bytes:
        found = field in body and (value is None or body[field] == value)
        refusal = payloads.failure(status, {"message": f"unsupported: {field}", "code": "unsupported_parameter"})
        well = WELL[name]
        return refusal if found else well if isinstance(well, bytes) else well(body)

    return answer


async def test_a_good_server_is_usable(mock_clock: MockClock) -> None:
    """Nine requests, each once, every setting already as it should be but the one for cached tokens."""
    async with answering() as script:
        report = await checked(script)
    assert report.verdict == "usable"
    assert set(script.names) == set(WELL)
    assert len(script.asked) == report.requests == 9
    assert {state for name, state in states(report).items() if name != "two at once"} <= {"ok", "unclear"}
    assert [setting.line for setting in report.settings] == ["reports_cached = true"]


async def test_limit_headers_become_lines(mock_clock: MockClock) -> None:
    """A minute's limits are told from a day's by how slowly they fill up again."""
    day = {"x-ratelimit-limit-requests": "14400", "x-ratelimit-remaining-requests": "14370"}
    groq = {**LIMITED, **day, "x-ratelimit-reset-requests": "179.56s"}
    lines = []
    for headers in (LIMITED, groq):
        named = {name.replace("-", "_"): value for name, value in headers.items()}
        last = payloads.failure(404, {"message": "no", "code": "model_not_found"}, **named)
        async with answering(unknown_model=last) as script:
            lines.append([limit.line for limit in (await checked(script)).limits])
    assert lines == [["rpm = 500", "tpm = 30000"], ["rpd = 14400", "tpm = 30000"]]


async def test_max_tokens_under_its_other_name(mock_clock: MockClock) -> None:
    """A server that refuses `max_tokens` is asked with `max_completion_tokens`, and the setting is told."""
    async with answering(**{name: refusing(name, "max_tokens") for name in WELL if name != "unknown_model"}) as script:
        report = await checked(script)
    assert report.verdict == "usable"
    assert report.settings[0].line == 'max_tokens_field = "max_completion_tokens"'
    assert report.requests == 10
    assert all("max_completion_tokens" in body for name, body in script.asked[1:])


async def test_stream_options_refused(mock_clock: MockClock) -> None:
    """A server that refuses `stream_options` is asked without, which is a setting."""
    async with answering(greeting=refusing("greeting", "stream_options")) as script:
        report = await checked(script)
    assert "include_usage = false" in [setting.line for setting in report.settings]
    assert "stream_options" not in script.asked[-1][1]


async def test_max_tokens_ignored(mock_clock: MockClock) -> None:
    """Where `max_tokens` bounds nothing, the answer is cut off here and its other name is tried."""

    def story(body: Any) -> bytes:
        bounded = "max_completion_tokens" in body
        return said(*("word ",) * (48 if bounded else 2_000), finish="length" if bounded else "stop", output=48)

    async with answering(story=story) as script:
        report = await checked(script)
    assert finding(report, "max_tokens").state == "no"
    assert 'max_tokens_field = "max_completion_tokens"' in [setting.line for setting in report.settings]
    assert (script.names.count("story"), report.requests) == (3, 10)


async def test_nothing_bounds_the_answer(mock_clock: MockClock) -> None:
    """Where neither name bounds an answer, no setting is suggested, and the verdict names it."""
    async with answering(story=said(*("word ",) * 2_000, output=2_000)) as script:
        report = await checked(script)
    assert (report.verdict, finding(report, "max_tokens").state) == ("incomplete", "no")
    assert not any("max_tokens" in setting.line for setting in report.settings)


async def test_sampling_refused(mock_clock: MockClock) -> None:
    """A server that takes no temperature is asked without from then on; only sameness is lost."""
    asks = ("story", "tool", "tool_result", "schema", "long", "long_again")
    async with answering(**{name: refusing(name, "temperature") for name in asks}) as script:
        report = await checked(script)
    assert [finding(report, name).state for name in ("max_tokens", "tool call", "JSON schema")] == ["ok", "ok", "ok"]
    assert "refused" in finding(report, "same again").says
    assert report.requests <= 10


async def test_empty_text_beside_tool_calls_refused(mock_clock: MockClock) -> None:
    """A server that wants null there gets it, and the setting is told."""

    def result(body: Any) -> bytes:
        null = body["messages"][1]["content"] is None
        return said("118 cm") if null else payloads.failure(400, {"message": "content", "code": "bad"})

    async with answering(tool_result=result) as script:
        report = await checked(script)
    assert finding(report, "tool result").state == "ok"
    assert 'null_content = "keep"' in [setting.line for setting in report.settings]


async def test_tools_and_schemas_refused(mock_clock: MockClock) -> None:
    """A server without tools or schemas is usable with something important missing."""
    no = payloads.failure(400, {"message": "not supported", "code": "unsupported"})
    async with answering(tool=no, tool_result=no, schema=no) as script:
        report = await checked(script)
    assert report.verdict == "incomplete"
    assert report.message.endswith("missing: tool call, tool result, JSON schema")
    assert finding(report, "long input").state == "ok"


async def test_an_answer_in_one_piece_is_no_stream(mock_clock: MockClock) -> None:
    """A server that ignores `stream` is found out."""
    body = {
        "object": "chat.completion",
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "A story"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 48},
    }
    async with answering(story=payloads.whole(200, json.dumps(body).encode())) as script:
        report = await checked(script)
    assert finding(report, "streaming").state == "no"
    assert report.verdict == "incomplete"


@pytest.mark.parametrize("status", [401, 403, 402])
async def test_a_refused_key_ends_it(status: int, mock_clock: MockClock) -> None:
    """A key that is not accepted costs one request, and is printed nowhere."""
    key = "sk-secret-0123456789abcdef"
    refusal = payloads.failure(status, {"message": f"Incorrect API key provided: {key}", "code": "invalid_api_key"})
    steps: list[Step] = []
    async with answering(greeting=refusal) as script:
        report = await checked(script, steps=steps, api_key=Secret(key))
    assert (report.verdict, report.requests) == ("unusable", 1)
    assert str(status) in report.message
    assert key not in dumped(report) + repr(steps)


async def test_a_quota_that_ends_midway_ends_the_check(mock_clock: MockClock) -> None:
    """Out of quota after some answers: nothing more is sent, what was found stays."""
    quota = payloads.failure(429, {"message": "quota", "code": "insufficient_quota"})
    async with answering(tool=quota) as script:
        report = await checked(script)
    assert (report.verdict, script.names[-1]) == ("unusable", "tool")
    assert finding(report, "max_tokens").state == "ok"
    assert "JSON schema" not in states(report)


async def test_a_wrong_path_is_hinted_at(mock_clock: MockClock) -> None:
    """A 404 at an address without /v1 says what may be wrong with it."""
    async with answering(greeting=payloads.failure(404, {"message": "Not Found"})) as script:
        url = script.server.base_url.removesuffix("/v1")
        backend = OpenAIBackend(OpenAIConfig(name="test", base_url=url))
        report = await Check(Subject(backend="test", model="m-1", endpoints=(backend,))).run()
    assert report.message.endswith("may lack /v1 at its end")


async def test_a_tool_call_is_handed_back_as_it_came(mock_clock: MockClock) -> None:
    """The second half of the round trip carries the model's own call."""
    async with answering() as script:
        await checked(script)
    (body,) = [body for name, body in script.asked if name == "tool_result"]
    assert body["messages"][1]["tool_calls"][0]["id"] == body["messages"][2]["tool_call_id"] == "call_1"


def models(*names: str) -> bytes:
    return payloads.whole(200, json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())


async def test_a_list_of_models(mock_clock: MockClock) -> None:
    """The names come in the server's order, asked for with the key."""
    async with upstream(models("b", "a")) as server:
        names = await list_models(server.backend(api_key=Secret("k-1")), 5.0)
        assert names == ["b", "a"]
        assert server.received[0].header("authorization") == "Bearer k-1"
        assert server.received[0].head.startswith(b"GET /v1/models ")


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (payloads.failure(404, {"message": "no"}), NoModelList),
        (payloads.whole(200, b"<html>"), NoModelList),
        (payloads.failure(401, {"message": "no"}), Refused),
        (payloads.failure(500, {"message": "no"}), Unavailable),
        (b"nonsense\r\n\r\n", Unavailable),
    ],
)
async def test_no_list_of_models(script: bytes, error: type[Exception]) -> None:
    """A missing list is told apart from a server that cannot be used."""
    async with upstream(script) as server:
        with pytest.raises(error):
            await list_models(server.backend(), 5.0)


async def test_never_more_than_ten(mock_clock: MockClock) -> None:
    """Whatever is refused, throttled or broken, in whatever mixture: at most ten are sent, as many as are told."""
    rng = random.Random(1)
    ways: list[Any] = [
        payloads.failure(400, {"message": "no", "code": "no"}),
        payloads.failure(429, {"message": "no", "code": "rate_limit_exceeded"}, retry_after="0"),
        payloads.failure(500, {"message": "no"}),
        said("something", output=3_000),
        payloads.stream(payloads.text("broken off")),
    ]
    for _ in range(40):
        answers: dict[str, Any] = {name: rng.choice([well, well, *ways]) for name, well in WELL.items()}
        answers["greeting"] = rng.choice([WELL["greeting"], refusing("greeting", "stream_options")])
        spent = rng.randrange(3)
        async with answering(**answers) as script:
            report = await checked(script, spent=spent)
        assert len(script.asked) + spent == report.requests <= 10
