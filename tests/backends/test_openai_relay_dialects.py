"""Programs' requests in the other dialects, through the adapter over a real socket: native, translated, refused."""

import json
import re

import msgspec
import pytest

from agents.errors import ModelError, Refused, Throttled, Truncated, Unavailable
from agents.messages import Usage
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.dialects.assemblers import assembler
from tests.backends.payloads import (
    COUNTED,
    DONE,
    HELLO,
    chunk,
    event,
    head,
    stream,
    text,
    tool,
    whole,
)
from tests.backends.recorder import Recorder
from tests.backends.relay import (
    HI,
    HI_EMBEDDINGS,
    HI_MESSAGES,
    HI_RESPONSES,
    data_of,
    events_of,
    relay,
    tokens_of,
    wired,
)
from tests.backends.upstream import Talk, upstream

ALL = ("chat", "responses", "embeddings")


def named(name: str, **said: object) -> bytes:
    """One event as OpenAI's responses have them."""
    return f"event: {name}\ndata: ".encode() + json.dumps({"type": name, **said}).encode() + b"\n\n"


RESPONSE = {"id": "resp_1", "object": "response", "model": "m-1", "status": "in_progress", "output": []}
ITEM = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hello", "annotations": []}],
}
REPORT = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 3},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 14,
}
WHOLE = {**RESPONSE, "status": "completed", "output": [ITEM], "usage": REPORT, "x_vendor": 1}
OPENING = [named("response.created", response=RESPONSE), named("response.in_progress", response=RESPONSE)]
TEXT = [
    named("response.output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta="hel"),
    named("response.output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta="lo"),
]
COMPLETED = named("response.completed", response=WHOLE)


async def broken(script: bytes, body: bytes = HI_RESPONSES) -> tuple[ModelError, Recorder]:
    recorder = Recorder()
    async with upstream(script) as server, server.connection(dialects=ALL) as connection:
        with pytest.raises(ModelError) as caught:
            await connection.send(wired(body, "responses"), recorder)
    return caught.value, recorder


# Which dialects.


@pytest.mark.parametrize(
    ("url", "said", "spoken"),
    [
        ("https://api.openai.com/v1", None, {"chat", "embeddings", "responses"}),
        ("https://api.openai.com.evil.example/v1", None, {"chat", "embeddings"}),
        ("http://127.0.0.1:1/v1", None, {"chat", "embeddings"}),
        ("http://127.0.0.1:1/v1", ("chat", "responses"), {"chat", "responses"}),
        ("https://api.openai.com/v1", ("chat",), {"chat"}),
    ],
)
def test_what_a_server_speaks_is_said_or_usual(url: str, said: tuple[str, ...] | None, spoken: set[str]) -> None:
    """OpenAI's own address has responses; others have them where the configuration says so."""
    config = msgspec.convert({"name": "b", "base_url": url, "dialects": said}, OpenAIConfig)
    assert OpenAIBackend(config).capabilities().dialects == spoken


# Responses.


async def test_responses_pass_as_they_are() -> None:
    """Path, body and events are the program's own; unknown members stay; usage and the end are read."""
    body = b'{"model":"m","input":"hi","store":false,"x":1.0,"stream":false}'
    recorder = Recorder()
    options = {"dialects": ALL, "models": {"m": "real"}}
    async with upstream(stream(*OPENING, *TEXT, COMPLETED)) as server, server.connection(**options) as connection:
        reply = await connection.send(wired(body, "responses"), recorder)
    (received,) = server.received
    assert received.head.startswith(b"POST /v1/responses ")
    assert received.body == b'{"model":"real","input":"hi","store":false,"x":1.0,"stream":true}'
    assert [event.event for event in events_of(recorder)] == [
        "response.created",
        "response.in_progress",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.completed",
    ]
    assert b'"x_vendor": 1' in data_of(recorder)[-1]
    assert (reply.finish_reason, reply.usage) == ("stop", COUNTED)
    assert recorder.usages == [COUNTED]
    assert tokens_of(recorder) == 2


async def test_a_programs_beta_features_go_with_its_own_dialect_only() -> None:
    """The header is passed on as it is, beside the endpoint's own, and never with a translated request."""
    async with upstream(stream(*OPENING, COMPLETED), HELLO) as server:
        for options in ({"dialects": ALL}, {}):
            async with server.connection(headers={"x-project": "blue"}, **options) as connection:
                request = wired(HI_RESPONSES, "responses")
                assert request.wire is not None
                wire = msgspec.structs.replace(request.wire, headers={"openai-beta": "a=v1", "anthropic-beta": "b"})
                await connection.send(msgspec.structs.replace(request, wire=wire), Recorder())
    native, translated = server.received
    assert native.header("openai-beta") == "a=v1"
    assert [found.header("x-project") for found in server.received] == ["blue", "blue"]
    assert translated.header("openai-beta") is None
    assert native.header("anthropic-beta") is None


async def test_responses_that_end_early_are_truncated() -> None:
    """Without its completing event an answer is not whole; its text is kept."""
    caught, recorder = await broken(stream(*OPENING, *TEXT))
    assert type(caught) is Truncated
    assert caught.partial == "hello"
    assert tokens_of(recorder) == 2


@pytest.mark.parametrize(
    "failed",
    [
        named(
            "response.failed",
            response={**RESPONSE, "status": "failed", "error": {"code": "rate_limit_exceeded", "message": "slow"}},
        ),
        named("error", code="rate_limit_exceeded", message="slow", param=None),
        b'data: {"error": {"code": "rate_limit_exceeded", "message": "slow"}}\n\n',
    ],
)
async def test_responses_that_fail_are_errors_by_blame(failed: bytes) -> None:
    """However a server says so; before the first token the program has seen nothing."""
    caught, recorder = await broken(stream(*OPENING, failed))
    assert isinstance(caught, Throttled)
    assert "127.0.0.1" in caught.message
    assert recorder.batches == []


async def test_a_server_that_ignores_streaming_of_responses_is_understood() -> None:
    """Its document comes as the events that hold it whole."""
    reply, recorder = await relay(whole(200, json.dumps(WHOLE).encode()), HI_RESPONSES, "responses", dialects=ALL)
    names = [event.event for event in events_of(recorder)]
    assert (names[0], names[-1]) == ("response.created", "response.completed")
    assert json.loads(data_of(recorder)[-1])["response"] == WHOLE
    assert (reply.finish_reason, reply.usage) == ("stop", COUNTED)


async def test_responses_are_translated_for_a_server_without_them() -> None:
    """The server gets a chat request and never knows; the program gets events of its own dialect, and one document."""
    recorder = Recorder()
    async with upstream(HELLO) as server, server.connection() as connection:
        reply = await connection.send(wired(HI_RESPONSES, "responses"), recorder)
    (received,) = server.received
    assert received.head.startswith(b"POST /v1/chat/completions ")
    assert received.json["messages"] == [{"role": "user", "content": "hi"}]
    assert received.json["stream_options"] == {"include_usage": True}
    found = document("responses", recorder)
    assert found["object"] == "response"
    assert found["output"][0]["content"][0]["text"] == "hello"
    assert found["usage"]["input_tokens"] == 10
    assert reply.usage == COUNTED
    assert tokens_of(recorder) == 2


# Messages.


async def test_messages_are_translated() -> None:
    """A program of the other provider gets its own events, in their order, from a chat server."""
    recorder = Recorder()
    async with upstream(HELLO) as server, server.connection() as connection:
        reply = await connection.send(wired(HI_MESSAGES, "messages"), recorder)
    assert server.received[0].head.startswith(b"POST /v1/chat/completions ")
    names = [event.event for event in events_of(recorder) if event.event != "ping"]
    assert (names[0], names[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert all(name != "[DONE]" for name in data_of(recorder))
    found = document("messages", recorder)
    assert found["content"] == [{"type": "text", "text": "hello"}]
    assert found["stop_reason"] == "end_turn"
    assert found["usage"]["output_tokens"] == 4
    assert reply.usage == COUNTED
    assert recorder.order[-2:] == ["deltas", "usage"]


async def test_R13_calls_at_one_index_are_three_calls() -> None:
    """Three ids at index 0 are three tool calls for a program of any dialect."""
    calls = [tool(0, id=f"c{n}", name="f", arguments=f'{{"n": {n}}}') for n in range(3)]
    script = stream(*calls, event(chunk(finish="tool_calls")), DONE)
    _, recorder = await relay(script, HI_MESSAGES, "messages")
    found = document("messages", recorder)["content"]
    assert [(block["id"], block["input"]) for block in found] == [(f"c{n}", {"n": n}) for n in range(3)]
    _, recorder = await relay(script, HI)
    found = document("chat", recorder)["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in found] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_R05_a_translated_answer_that_ends_early_gets_no_end(dialect: str) -> None:
    """Nothing that looks like a whole answer is said to a program whose answer is not."""
    body = HI_MESSAGES if dialect == "messages" else HI_RESPONSES
    recorder = Recorder()
    async with upstream(stream(text("one"), text("two"))) as server, server.connection() as connection:
        with pytest.raises(Truncated) as caught:
            await connection.send(wired(body, dialect), recorder)  # type: ignore[arg-type]
    assert caught.value.partial == "onetwo"
    said = b"".join([event.event.encode() + event.data for event in events_of(recorder)])
    assert b"message_stop" not in said
    assert b"response.completed" not in said


async def test_what_cannot_be_said_is_refused_before_it_is_sent() -> None:
    """A server-side tool of the other provider has no words in chat: the message names the member."""
    body = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
    }
    async with upstream(HELLO) as server, server.connection() as connection:
        with pytest.raises(Refused, match=re.escape("tools[0]")):
            await connection.send(wired(body, "messages"), Recorder())
    assert server.received == []


# Embeddings.

VECTORS = (
    b'{"object":"list", "data":[{"object":"embedding","index":0,"embedding":[1.0,-1e-3,0.10]}],'
    b'"model":"e","x":{},"usage":{"prompt_tokens":5,"total_tokens":5}}'
)


async def test_embeddings_pass_as_they_are() -> None:
    """Path and members are the program's, nothing about streams is added, and the document comes back byte for byte."""
    recorder = Recorder()
    async with upstream(whole(200, VECTORS)) as server, server.connection(models={"m": "e"}) as connection:
        reply = await connection.send(wired(HI_EMBEDDINGS, "embeddings"), recorder)
    (received,) = server.received
    assert received.head.startswith(b"POST /v1/embeddings ")
    assert received.body == b'{"model":"e","input":["hi","there"]}'
    assert reply.wire == VECTORS
    assert reply.usage == Usage(input=5, output=0)
    assert recorder.order == ["connected", "written", "headers", "usage"]


async def test_embeddings_without_usage_are_unknown_and_not_free() -> None:
    """What a server does not report is not 0."""
    reply, _ = await relay(whole(200, b'{"data":[]}'), HI_EMBEDDINGS, "embeddings")
    assert reply.usage == Usage()


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (whole(200, b'{"error":{"code":429,"message":"slow"}}'), Throttled, "slow"),
        (whole(200, b'{"id":1}'), Unavailable, "no list of embeddings"),
        (whole(200, b'{"data":'), Unavailable, "no JSON"),
        (whole(404, b'{"error":{"message":"no such route"}}'), Refused, "no such route"),
        (HELLO, Unavailable, "no list of embeddings"),
    ],
)
async def test_embeddings_that_are_none_are_errors_by_blame(script: bytes, kind: type[ModelError], words: str) -> None:
    """Errors, other documents, half a document and a stream each get their own."""
    async with upstream(script) as server, server.connection() as connection:
        with pytest.raises(ModelError, match=re.escape(words)) as caught:
            await connection.send(wired(HI_EMBEDDINGS, "embeddings"), Recorder())
    assert type(caught.value) is kind


async def test_half_a_list_of_embeddings_is_truncated() -> None:
    """A document that ends before its content length is not handed on in part."""

    async def script(talk: Talk) -> None:
        await talk.send(head(content_type="application/json", content_length="900") + b'{"data":[')
        await talk.close()

    async with upstream(script) as server, server.connection() as connection:
        with pytest.raises(Truncated, match="incomplete"):
            await connection.send(wired(HI_EMBEDDINGS, "embeddings"), Recorder())


async def test_embeddings_are_bounded_by_a_bound_of_their_own() -> None:
    """A document beyond it is refused, one beyond a chunk's bound is not."""
    large = b'{"data":[' + b"1," * 50_000 + b"1]}"
    reply, _ = await relay(whole(200, large), HI_EMBEDDINGS, "embeddings", max_line_bytes=1000)
    assert reply.wire == large
    async with upstream(whole(200, large)) as server, server.connection(max_document_bytes=1000) as connection:
        with pytest.raises(Unavailable, match="longer than 1000 bytes"):
            await connection.send(wired(HI_EMBEDDINGS, "embeddings"), Recorder())


async def test_embeddings_are_refused_by_a_server_without_them() -> None:
    """The message names what the server has, and nothing was sent."""
    async with upstream(HELLO) as server, server.connection(dialects=("chat",)) as connection:
        with pytest.raises(Refused, match="serves no embeddings: it serves chat completions"):
            await connection.send(wired(HI_EMBEDDINGS, "embeddings"), Recorder())
    assert server.received == []


def document(dialect: str, recorder: Recorder) -> dict[str, object]:
    """What a program gets that did not ask for a stream."""
    whole_answer = assembler(dialect)  # type: ignore[arg-type]
    for found in events_of(recorder):
        whole_answer.feed(found)
    answer: dict[str, object] = json.loads(whole_answer.document())
    return answer
