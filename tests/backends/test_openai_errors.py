"""How failures of an OpenAI-compatible server are split by blame: from status and structured code alone."""

from email.utils import formatdate

import pytest

from agents.errors import ModelError, Overloaded, Refused, Throttled, Unavailable
from agents.messages import Message, ModelRequest, ToolCall
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.policy.feedback import Reading
from tests.backends.payloads import HELLO, REQUEST, failure, frame, head, stream_head, whole
from tests.backends.recorder import Recorder
from tests.backends.upstream import Script, Talk, ask, fail, upstream

NOW = 1_700_000_000.0
KEY = "sk-very-secret-0123456789"


async def throttled(script: Script, **options: object) -> Throttled:
    caught, _ = await fail(script, **options)
    assert type(caught) is Throttled
    return caught


@pytest.mark.parametrize(
    ("status", "kind", "endpoint_fault"),
    [
        (400, Refused, False),
        (404, Refused, False),
        (405, Refused, False),
        (413, Refused, False),
        (422, Refused, False),
        (401, Refused, True),
        (402, Refused, True),
        (403, Refused, True),
        (301, Refused, True),
        (408, Unavailable, None),
        (409, Unavailable, None),
        (429, Throttled, None),
        (500, Unavailable, None),
        (501, Refused, False),
        (502, Unavailable, None),
        (503, Overloaded, None),
        (504, Unavailable, None),
        (529, Overloaded, None),
    ],
)
async def test_R26_each_status_has_its_error(status: int, kind: type[ModelError], endpoint_fault: bool | None) -> None:
    """529 and 503 are overload, 413 is permanent, and so on; the host and status are named and the body quoted."""
    caught, recorder = await fail(failure(status, {"message": "because"}))
    assert type(caught) is kind
    assert caught.status == status
    assert getattr(caught, "endpoint_fault", None) is endpoint_fault
    assert caught.message.startswith("127.0.0.1:")
    assert f"answered {status}: because" in caught.message
    assert recorder.order[:3] == ["connected", "written", "headers"]


async def test_R26_overload_keeps_the_wait_that_the_server_asks_for() -> None:
    """A retry-after on a 529 is passed on."""
    caught, _ = await fail(failure(529, {"type": "overloaded_error"}, retry_after="7"))
    assert isinstance(caught, Overloaded)
    assert (caught.retry_after, caught.code) == (7.0, "overloaded_error")


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"x_ratelimit_reset_requests": "500ms"}, 0.5),
        ({"x_ratelimit_reset_tokens": "1m30s"}, 90.0),
        ({"retry_after": "garbage"}, None),
        ({"retry_after": "garbage", "x_ratelimit_reset_tokens": "also"}, None),
        ({"retry_after_ms": "1500"}, 1.5),
        ({"retry_after": "3", "x_ratelimit_reset_requests": "6m0s"}, 3.0),
    ],
)
async def test_R22_waits_of_a_429(headers: dict[str, str], wait: float | None) -> None:
    """Durations are read as durations, and garbage as no information."""
    assert (await throttled(failure(429, {}, **headers))).retry_after == wait


@pytest.mark.parametrize(("ahead", "wait"), [(20, 20.0), (-20, 0.0)])
async def test_R22_a_retry_after_date_is_counted_from_the_wall_clock(ahead: float, wait: float) -> None:
    """A date ahead is that many seconds; one that has passed is 0."""
    async with upstream(failure(429, {}, retry_after=formatdate(NOW + ahead, usegmt=True))) as server:
        config = OpenAIConfig(name="test", base_url=server.base_url)
        connection = OpenAIBackend(config, wall=lambda: NOW).connect()
        with pytest.raises(Throttled) as caught:
            await connection.send(REQUEST, Recorder())
        await connection.aclose()
    assert caught.value.retry_after == wait


async def test_R23_the_exhausted_limit_decides_the_wait() -> None:
    """Without retry-after: the reset of what is used up; if nothing is known to be, the later reset."""
    resets = {"x_ratelimit_reset_requests": "6m0s", "x_ratelimit_reset_tokens": "88ms"}
    unknown = await throttled(failure(429, {}, **resets))
    assert (unknown.retry_after, unknown.exhausted) == (360.0, frozenset())
    tokens = await throttled(failure(429, {}, **resets, x_ratelimit_remaining_tokens="0"))
    assert (tokens.retry_after, tokens.exhausted) == (0.088, {"total_tokens"})
    alone = await throttled(failure(429, {}, x_ratelimit_remaining_tokens="0"))
    assert (alone.retry_after, alone.exhausted) == (None, {"total_tokens"})


async def test_R23_the_error_type_names_the_exhausted_limit_too() -> None:
    """OpenAI leaves a rest in the headers when a request is larger than it, but says `tokens` in the error."""
    error = {"type": "tokens", "code": "rate_limit_exceeded", "message": "Rate limit reached"}
    headers = {
        "x_ratelimit_remaining_tokens": "120",
        "x_ratelimit_reset_tokens": "2s",
        "x_ratelimit_reset_requests": "9s",
    }
    caught = await throttled(failure(429, error, **headers))
    assert (caught.retry_after, caught.exhausted, caught.code) == (2.0, {"total_tokens"}, "rate_limit_exceeded")


async def test_readings_are_reported_before_the_error_and_with_an_answer() -> None:
    """What the headers say of the limits reaches the attempt either way."""
    script = failure(429, {}, x_ratelimit_limit_requests="5", x_ratelimit_remaining_requests="0")
    _, recorder = await fail(script)
    assert recorder.readings == (Reading("requests", 5, 0),)
    _, recorder = await ask(HELLO.replace(b"\r\n\r\n", b"\r\nX-RateLimit-Remaining-Tokens: 9\r\n\r\n", 1))
    assert recorder.readings == (Reading("total_tokens", None, 9),)


async def test_R25_only_a_structured_code_means_quota() -> None:
    """Prose about quota on a bare 429 is too much concurrency; the code is a refusal of the whole endpoint."""
    prose = await throttled(failure(429, {"message": "insufficient quota for concurrent requests, check billing"}))
    assert (prose.retry_after, prose.exhausted, prose.retryable) == (None, frozenset(), True)
    code, _ = await fail(failure(429, {"message": "x", "type": "insufficient_quota", "code": "insufficient_quota"}))
    assert isinstance(code, Refused)
    assert (code.endpoint_fault, code.code, code.retryable) == (True, "insufficient_quota", False)


@pytest.mark.parametrize(
    "error",
    [
        {"code": 400, "type": "exceed_context_size_error", "message": "too long", "n_ctx": 2048},
        {"code": "context_length_exceeded", "type": "invalid_request_error", "message": "too long"},
    ],
)
async def test_a_context_overflow_has_one_code_whoever_says_it(error: dict[str, object]) -> None:
    """llama.cpp's type and OpenAI's code both become `context_length_exceeded`."""
    caught, _ = await fail(failure(400, error))
    assert isinstance(caught, Refused)
    assert (caught.code, caught.endpoint_fault, caught.status) == ("context_length_exceeded", False, 400)


async def test_a_wrong_key_is_one_clear_sentence_without_the_key() -> None:
    """The server quotes the key back; the message, the repr and the traceback's arguments don't."""
    caught, _ = await fail(
        failure(401, {"message": f"Incorrect API key provided: {KEY}. Find yours at ...", "code": "invalid_api_key"}),
        api_key_env="K",
        environ={"K": KEY},
    )
    assert isinstance(caught, Refused)
    assert caught.endpoint_fault
    assert "answered 401 (invalid_api_key): Incorrect API key provided: ***" in caught.message
    assert KEY not in repr(caught) + str(caught.args)


@pytest.mark.parametrize(
    ("body", "content_type", "quoted"),
    [
        (b'{"error": "just words"}', "application/json", "just words"),
        (b'{"object": "error", "message": "old form", "code": 400}', "application/json", "old form"),
        (b'{"detail": "Not Found"}', "application/json", "Not Found"),
        (b"<html>\n<h1>Bad Gateway</h1>\n</html>", "text/html", "<html> <h1>Bad Gateway</h1> </html>"),
        (b'{"error": {"message": 7, "code": [1]}}', "application/json", "answered 502"),
        (b'{"error": {"message": "half \\ud83d"}}', "application/json", "half \ufffd"),
        (b"\xff\x00\x1b[31m", "text/plain", "answered 502: \ufffd [31m"),
        (b"", "text/plain", "answered 502"),
        (b"[" * 100_000, "application/json", "[[[["),
    ],
)
async def test_error_bodies_of_any_shape_are_quoted_in_one_short_line(
    body: bytes, content_type: str, quoted: str
) -> None:
    """Whatever the body, the message is one line of bounded length that can be written anywhere."""
    caught, _ = await fail(whole(502, body, content_type))
    assert isinstance(caught, Unavailable)
    assert quoted in caught.message
    assert len(caught.message) < 300
    assert caught.message.isprintable()
    caught.message.encode()


async def test_an_endless_error_body_is_cut_and_one_that_hangs_is_not_waited_for() -> None:
    """The status decides; a body without end costs at most the grace."""

    async def endless(talk: Talk) -> None:
        await talk.send(stream_head().replace(b"200", b"500"))
        while True:
            await talk.send(frame(b"x" * 10_000))

    async def hanging(talk: Talk) -> None:
        await talk.send(head(429, "application/json", content_length="100", retry_after="3") + b'{"err')
        await talk.client_left()

    caught, _ = await fail(endless)
    assert isinstance(caught, Unavailable)
    late = await throttled(hanging, grace_seconds=0.01)
    assert late.retry_after == 3.0


async def test_an_error_leaves_the_connection_usable() -> None:
    """A 429 with its body read whole doesn't cost a new connection."""
    async with upstream(failure(429, {}), HELLO) as server, server.connection() as connection:
        with pytest.raises(Throttled):
            await connection.send(REQUEST, Recorder())
        reply = await connection.send(REQUEST, Recorder())
    assert reply.message.content == "hello"
    assert server.accepted == 1


async def test_a_success_without_a_body_is_no_answer() -> None:
    """A 204 is not a reply."""
    caught, _ = await fail(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert isinstance(caught, Unavailable)
    assert "204" in caught.message


async def test_R18_a_400_is_refused_once_and_null_content_follows_the_configuration() -> None:
    """A stub that answers 400 to null content is content with the default; told to keep null, it refuses for good."""

    async def strict(talk: Talk) -> None:
        null = b'"content":null' in server.received[-1].body
        await talk.send(failure(400, {"message": "content must be a string"}) if null else HELLO)

    history = (
        Message("user", "hi"),
        Message("assistant", "", (ToolCall("c", "f", "{}"),)),
        Message("tool", "1", tool_call_id="c"),
    )
    async with upstream(strict) as server:
        async with server.connection() as connection:
            reply = await connection.send(ModelRequest("m", history), Recorder())
        assert reply.message.content == "hello"
        async with server.connection(null_content="keep") as connection:
            with pytest.raises(Refused) as caught:
                await connection.send(ModelRequest("m", history), Recorder())
    assert caught.value.retryable is False
    assert caught.value.endpoint_fault is False
    sent = server.received[0].json["messages"]
    assert sent[1] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    assert sent[2] == {"role": "tool", "content": "1", "tool_call_id": "c"}
