"""How failures of Anthropic's API are split by blame: from status and structured words alone."""

import json
from typing import Any

import pytest
import trio

from agents.errors import ModelError, Overloaded, Refused, Throttled, Unavailable
from agents.messages import Message, ModelRequest
from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.backends.anthropic.errors import exhausted_limits
from orchestrator.policy.feedback import LimitKind, Reading
from tests.backends.anthropic_payloads import HELLO, REQUEST, connection_to, fail
from tests.backends.payloads import frame, stream_head, whole
from tests.backends.recorder import Recorder
from tests.backends.upstream import Script, Talk, upstream

KEY = "sk-ant-very-secret-0123456789"
NOW = 1_700_000_000.0
IN_20_SECONDS = "2023-11-14T22:13:40Z"
IN_50_SECONDS = "2023-11-14T22:14:10+00:00"


def failure(status: int, kind: str = "api_error", message: str = "because", **options: Any) -> bytes:
    """An error as the API answers it; `code` is the error code of its details, the rest are headers."""
    error: dict[str, Any] = {"type": kind, "message": message}
    if "code" in options:
        error["details"] = {"error_code": options.pop("code")}
    body = {"type": "error", "error": error, "request_id": "req_1"}
    return whole(status, json.dumps(body).encode(), **options)


def limit(kind: str, **members: object) -> dict[str, str]:
    """Headers of one group, for `failure`."""
    return {f"anthropic_ratelimit_{kind}_{name}": str(value) for name, value in members.items()}


async def throttled(script: Script) -> Throttled:
    """A 429, at a known time of day."""
    async with upstream(script) as server:
        backend = AnthropicBackend(AnthropicConfig(name="test", base_url=server.base_url), wall=lambda: NOW)
        connection = backend.connect()
        with pytest.raises(ModelError) as caught:
            await connection.send(REQUEST, Recorder())
        await connection.aclose()
    assert type(caught.value) is Throttled
    return caught.value


@pytest.mark.parametrize(
    ("status", "word", "kind", "endpoint_fault"),
    [
        (400, "invalid_request_error", Refused, False),
        (401, "authentication_error", Refused, True),
        (402, "billing_error", Refused, True),
        (403, "permission_error", Refused, True),
        (404, "not_found_error", Refused, False),
        (409, "conflict_error", Unavailable, None),
        (413, "request_too_large", Refused, False),
        (429, "rate_limit_error", Throttled, None),
        (500, "api_error", Unavailable, None),
        (503, "api_error", Overloaded, None),
        (504, "timeout_error", Unavailable, None),
        (529, "overloaded_error", Overloaded, None),
    ],
)
async def test_R26_each_status_has_its_error(
    status: int, word: str, kind: type[ModelError], endpoint_fault: bool | None
) -> None:
    """Overload is retried, too large a request never; host, status, type and text are in the message."""
    caught, recorder = await fail(failure(status, word))
    assert type(caught) is kind
    assert (caught.status, caught.code) == (status, word)
    assert getattr(caught, "endpoint_fault", None) is endpoint_fault
    assert caught.message.startswith("127.0.0.1:")
    assert f"answered {status} ({word}): because" in caught.message
    assert recorder.order[:3] == ["connected", "written", "headers"]


async def test_R26_overload_keeps_the_wait_that_the_server_asks_for() -> None:
    """A retry-after on a 529 is passed on."""
    caught, _ = await fail(failure(529, "overloaded_error", retry_after="7"))
    assert isinstance(caught, Overloaded)
    assert caught.retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "word", "code", "endpoint_fault"),
    [
        (429, "rate_limit_error", "enforced_spend_limit_reached", True),
        (429, "rate_limit_error", "contract_spend_limit_reached", True),
        (402, "billing_error", "linked_organization_billing_unavailable", True),
        (400, "invalid_request_error", "organization_on_hold", True),
        (400, "invalid_request_error", "request_body_encoding_invalid", False),
        (413, "request_too_large", "request_body_too_large_after_decoding", False),
    ],
)
async def test_R25_an_error_code_says_more_than_its_type(
    status: int, word: str, code: str, endpoint_fault: bool
) -> None:
    """A spend limit is no rate limit although it comes as a 429: waiting for it would help nobody."""
    caught, _ = await fail(failure(status, word, code=code))
    assert type(caught) is Refused
    assert (caught.code, caught.endpoint_fault) == (code, endpoint_fault)


async def test_R25_prose_decides_nothing() -> None:
    """Words about credit or quota in a text change neither a 400 nor a 429."""
    poor, _ = await fail(failure(400, "invalid_request_error", "Your credit balance is too low to access the API"))
    assert type(poor) is Refused
    assert not poor.endpoint_fault
    busy = await throttled(failure(429, "rate_limit_error", "quota: too many concurrent requests, see billing"))
    assert (busy.exhausted, busy.retry_after) == (frozenset(), None)


async def test_a_ramp_limit_is_a_429_like_any_other() -> None:
    """Usage that grows too fast is waited out, and is about no limit that is known here."""
    left = limit("input-tokens", limit=30000, remaining=0, reset=IN_20_SECONDS)
    caught = await throttled(failure(429, "rate_limit_error", code="ramp_limit_exceeded", retry_after="12", **left))
    assert (caught.code, caught.retry_after, caught.exhausted) == ("ramp_limit_exceeded", 12.0, frozenset())


async def test_R23_a_429_names_the_limits_of_which_nothing_is_left() -> None:
    """Without retry-after the wait is until those have room again; without any at 0, none is named."""
    requests = limit("requests", limit=50, remaining=3, reset=IN_50_SECONDS)
    tokens = limit("input-tokens", limit=30000, remaining=0, reset=IN_20_SECONDS)
    caught = await throttled(failure(429, "rate_limit_error", **requests, **tokens))
    assert (caught.exhausted, caught.retry_after) == ({"input_tokens"}, pytest.approx(20.0))
    caught = await throttled(failure(429, "rate_limit_error", **requests, **tokens, retry_after="33"))
    assert (caught.exhausted, caught.retry_after) == ({"input_tokens"}, 33.0)
    both = await throttled(
        failure(
            429,
            **limit("output-tokens", remaining=0, reset=IN_50_SECONDS),
            **limit("requests", remaining=0, reset=IN_20_SECONDS),
        )
    )
    assert (both.exhausted, both.retry_after) == ({"output_tokens", "requests"}, pytest.approx(50.0))
    none = await throttled(failure(429, "rate_limit_error", **requests))
    assert (none.exhausted, none.retry_after) == (frozenset(), pytest.approx(50.0))


async def test_R23_the_tightest_limit_is_named_where_no_other_is() -> None:
    """A workspace's token limit shows in the group that names none, and is taken as tokens in all."""
    tightest = limit("tokens", limit=1000, remaining=0, reset=IN_20_SECONDS)
    caught = await throttled(failure(429, **limit("requests", remaining=4, reset=IN_50_SECONDS), **tightest))
    assert (caught.exhausted, caught.retry_after) == ({"total_tokens"}, pytest.approx(20.0))
    caught = await throttled(failure(429, **limit("output-tokens", remaining=0, reset=IN_50_SECONDS), **tightest))
    assert caught.exhausted == {"output_tokens"}


@pytest.mark.parametrize(
    ("left", "needed", "named"),
    [
        ({"input_tokens": 30}, 31, {"input_tokens"}),
        ({"input_tokens": 31}, 30, set()),
        ({"input_tokens": 2000}, 1600, {"input_tokens"}),
        ({"input_tokens": 2000}, 1400, set()),
        ({"input_tokens": 0, "requests": 0}, 5, {"input_tokens", "requests"}),
        ({"input_tokens": 9, "requests": 0}, 50, {"requests"}),
        ({"output_tokens": 9, "requests": 1}, 50, set()),
        ({"total_tokens": 9, "input_tokens": 90}, 50, {"total_tokens"}),
        ({"total_tokens": 9, "input_tokens": 8}, 50, {"input_tokens"}),
        ({"total_tokens": None, "input_tokens": None}, 50, set()),
    ],
)
def test_R23_a_request_larger_than_what_is_left_names_the_input_limit(
    left: dict[LimitKind, float | None], needed: float, named: set[str]
) -> None:
    """What is at 0 comes first, then input that would not have fitted; what is left is rounded to thousands."""
    assert exhausted_limits([Reading(kind, remaining=rest) for kind, rest in left.items()], needed) == named


async def test_R23_a_large_request_is_known_to_be_one() -> None:
    """A 429 to a request of 40,000 bytes with 9,000 input tokens left is about those; to a small one it is not."""
    script = failure(429, "rate_limit_error", **limit("input-tokens", limit=30000, remaining=9000, reset=IN_20_SECONDS))
    large, _ = await fail(script, ModelRequest("m", (Message("user", "x" * 40_000),)))
    assert isinstance(large, Throttled)
    assert large.exhausted == {"input_tokens"}
    small, _ = await fail(script)
    assert isinstance(small, Throttled)
    assert small.exhausted == frozenset()


async def test_readings_are_reported_with_an_answer() -> None:
    """Every limit that the headers tell of reaches the attempt, the group that names none does not."""
    groups = {
        **limit("requests", limit=50, remaining=49, reset=IN_20_SECONDS),
        **limit("input-tokens", limit=30000, remaining=29000, reset=IN_20_SECONDS),
        **limit("output-tokens", limit=8000, remaining=7000, reset=IN_50_SECONDS),
        **limit("tokens", limit=38000, remaining=36000, reset=IN_50_SECONDS),
    }
    lines = b"".join(b"\r\n%s: %s" % (k.replace("_", "-").encode(), v.encode()) for k, v in groups.items())
    recorder = Recorder()
    async with upstream(HELLO.replace(b"\r\n\r\n", lines + b"\r\n\r\n", 1)) as server:
        backend = AnthropicBackend(AnthropicConfig(name="test", base_url=server.base_url), wall=lambda: NOW)
        connection = backend.connect()
        await connection.send(REQUEST, recorder)
        await connection.aclose()
    assert recorder.readings == (
        Reading("requests", 50, 49, pytest.approx(20.0)),
        Reading("input_tokens", 30000, 29000, pytest.approx(20.0)),
        Reading("output_tokens", 8000, 7000, pytest.approx(50.0)),
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b"", "answered 502"),
        (b'{"type": "error", "error": null}', "answered 502"),
        (b'{"type": "error", "error": {"details": 5, "message": ["x"]}}', "answered 502"),
        (b'{"error": "upstream gone"}', "upstream gone"),
        (b"[" * 100_000, "answered 502"),
    ],
)
async def test_error_bodies_of_any_shape_are_understood(body: bytes, words: str) -> None:
    """A proxy's page, or an error with odd members, is still the status's error."""
    caught, _ = await fail(whole(502, body))
    assert type(caught) is Unavailable
    assert words in caught.message
    assert len(caught.message) < 400


async def test_a_key_is_in_no_message() -> None:
    """A server that quotes the key back does not bring it into the message, nor does the code."""
    caught, _ = await fail(
        failure(401, "authentication_error", f"invalid x-api-key {KEY}", code=KEY),
        api_key_env="K",
        environ={"K": KEY},
    )
    assert KEY not in caught.message
    assert "***" in caught.message


async def test_an_error_leaves_the_connection_usable() -> None:
    """A refusal is read to its end, and the next request goes out on the same socket."""
    async with upstream(failure(400, "invalid_request_error"), HELLO) as server, connection_to(server) as connection:
        with pytest.raises(Refused):
            await connection.send(REQUEST, Recorder())
        assert (await connection.send(REQUEST, Recorder())).message.content == "hello"
    assert server.accepted == 1


async def test_a_second_request_at_the_same_time_is_refused() -> None:
    """A connection sends one request at a time, and says so."""

    async def slow(talk: Talk) -> None:
        await talk.send(stream_head() + frame(b": wait\n\n"))
        await talk.client_left()

    async with upstream(slow) as server, connection_to(server) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.send, REQUEST, Recorder())
        await server.until(lambda: bool(server.received))
        with pytest.raises(trio.BusyResourceError):
            await connection.send(REQUEST, Recorder())
        nursery.cancel_scope.cancel()
