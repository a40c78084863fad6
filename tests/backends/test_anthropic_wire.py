"""Programs' own requests to Anthropic's API: verbatim in its dialect, translated in others, and their answers."""

import json

import pytest

from agents.errors import Overloaded, Refused, Truncated, Unavailable
from agents.messages import Usage
from orchestrator.dialects.assemblers import assembler
from tests.backends.anthropic_payloads import (
    COUNTED,
    ENDING,
    HELLO,
    MESSAGES,
    OPENING,
    PING,
    STOP,
    block,
    block_stop,
    delta,
    document,
    error,
    event,
    events_of,
    fail,
    fragment,
    relay,
    start,
    text,
    tool,
    wire,
)
from tests.backends.payloads import END, failure, frame, stream, stream_head, whole
from tests.backends.upstream import Talk, in_two_reads


async def test_a_request_in_anthropics_dialect_goes_on_as_it_is() -> None:
    """Only the model's name and the stream flag change; unknown members keep their bytes."""
    _, _, received = await relay(HELLO, wire(), models={"opus": "claude-opus"}, api_key_env="K", environ={"K": "key-1"})
    assert received.json == {
        "model": "claude-opus",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 100,
        "odd": 1.5,
        "stream": True,
    }
    assert b'"odd":1.50' in received.body.replace(b" ", b"")
    assert received.head.startswith(b"POST /v1/messages HTTP/1.1")
    assert received.header("x-api-key") == "key-1"
    assert received.header("anthropic-version") == "2023-06-01"


async def test_its_answer_is_relayed_byte_for_byte() -> None:
    """Each event's name and data come out as they came in, pings and unknown ones too; usage is read on the way."""
    odd = b'event: sparkle\ndata: {"type":  "sparkle", "x": 1.50}\n\n'
    sent = [*OPENING, odd, text("hel"), text("lo"), PING, *ENDING]
    reply, recorder, _ = await relay(stream(*sent), wire())
    whole_stream = b"".join(b"event: %s\ndata: %s\n\n" % (e.event.encode(), e.data) for e in events_of(recorder))
    assert whole_stream == b"".join(sent)
    assert (reply.finish_reason, reply.usage) == ("stop", COUNTED)
    assert recorder.text == ""
    assert sum(one.tokens for _, batch in recorder.batches for one in batch) == 2


async def test_nothing_is_handed_on_before_the_first_token() -> None:
    """An opening and its pings wait for the first token, so that a failure before it can be tried again unseen."""
    first, second = stream_head() + frame(b"".join(OPENING)), frame(text("a") + b"".join(ENDING)) + END
    _, recorder, _ = await relay(in_two_reads(first, second), wire())
    assert recorder.order[:4] == ["connected", "written", "headers", "alive"]
    assert len(recorder.batches) == 1
    caught, recorder = await fail(stream(*OPENING, error("overloaded_error")), wire())
    assert isinstance(caught, Overloaded)
    assert recorder.batches == []


async def test_headers_of_the_program_reach_the_provider_and_no_others() -> None:
    """Beta features are added to the configured ones, the version replaces the configured one, keys stay behind."""
    request = wire(anthropic_beta="b-2, b-1", anthropic_version="2099-01-01", x_api_key="the program's", cookie="c")
    _, _, received = await relay(HELLO, request, beta=("b-1", "b-0"))
    assert received.header("anthropic-beta") == "b-1,b-0,b-2"
    assert received.header("anthropic-version") == "2099-01-01"
    assert received.header("x-api-key") is None
    assert received.header("cookie") is None


async def test_headers_that_are_none_are_refused() -> None:
    """A line break in a header is refused with its name, before anything is sent."""
    caught, recorder = await fail(HELLO, wire(anthropic_beta="a\r\nx-evil: 1"))
    assert isinstance(caught, Refused)
    assert "anthropic-beta" in caught.message
    assert recorder.order == []


async def test_a_stream_without_its_last_event_is_truncated() -> None:
    """Also where the stop reason had come: the program would wait for the rest."""
    for events in ((*OPENING, text("half")), (*OPENING, text("half"), *ENDING[:-1])):
        caught, _ = await fail(stream(*events), wire())
        assert isinstance(caught, Truncated)
        assert caught.partial == "half"


async def test_what_follows_the_last_event_is_not_waited_for() -> None:
    """The answer is whole at `message_stop`, however long the server keeps the body open."""

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(b"".join([*OPENING, text("a"), *ENDING])))
        await talk.client_left()

    reply, _, _ = await relay(script, wire(), grace_seconds=0.01)
    assert reply.finish_reason == "stop"


async def test_an_error_event_is_raised_and_not_relayed() -> None:
    """What came before it has gone out; the error is the gateway's to tell."""
    caught, recorder = await fail(stream(*OPENING, text("half"), error("api_error", error_code="x_y")), wire())
    assert isinstance(caught, Unavailable)
    assert (caught.code, caught.partial, caught.usage) == ("x_y", "half", Usage(input=7, cached=3, cache_write=2))
    assert "error" not in {e.event for e in events_of(recorder)}


async def test_an_answer_in_one_piece_becomes_a_stream() -> None:
    """A server that ignores `stream` is relayed as events that add up to its very document."""
    content = (
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "toolu_a", "name": "look", "input": {"at": 1.5}},
        {"type": "odd_block", "odd": [1]},
    )
    sent = document(*content, stop_reason="tool_use")
    reply, recorder, _ = await relay(whole(200, json.dumps(sent).encode()), wire())
    put_together = assembler("messages")
    for one in events_of(recorder):
        put_together.feed(one)
    assert json.loads(put_together.document()) == sent
    assert (reply.finish_reason, reply.usage) == ("tool_calls", COUNTED)


@pytest.mark.parametrize("body", [b'{"choices": []}', b'{"type": "message", "content": 5}', b"{oops", b"[1]"])
async def test_a_document_that_is_no_message_is_unavailable(body: bytes) -> None:
    """Another dialect's document, or half a one, is never relayed."""
    caught, recorder = await fail(whole(200, body), wire())
    assert isinstance(caught, Unavailable)
    assert recorder.batches == []


async def test_a_count_of_tokens_is_a_document() -> None:
    """It goes to its own path without a stream, and its document comes back as it is."""
    answer = b'{"input_tokens": 2095, "odd": 1.50}'
    body = b'{"model": "opus", "messages": [{"role": "user", "content": "hi"}]}'
    reply, recorder, received = await relay(
        whole(200, answer), wire(body, "count_tokens", anthropic_beta="b"), models={"*": "claude"}
    )
    assert reply.wire == answer
    assert received.json == {"model": "claude", "messages": [{"role": "user", "content": "hi"}]}
    assert received.head.startswith(b"POST /v1/messages/count_tokens HTTP/1.1")
    assert received.header("anthropic-beta") == "b"
    assert recorder.order == ["connected", "written", "headers"]


@pytest.mark.parametrize("body", [b"{}", b'{"input_tokens": "many"}', b"{oops", b"data: {}\n\n"])
async def test_a_count_that_is_none_is_unavailable(body: bytes) -> None:
    """A document without a count is no answer."""
    caught, _ = await fail(whole(200, body), wire(MESSAGES, "count_tokens"))
    assert isinstance(caught, Unavailable)


async def test_a_refused_count_is_that_error() -> None:
    """Errors of a count are split like any others."""
    caught, _ = await fail(failure(404, {"type": "not_found_error", "message": "no"}), wire(MESSAGES, "count_tokens"))
    assert isinstance(caught, Refused)
    assert caught.status == 404


async def test_embeddings_are_refused() -> None:
    """Anthropic has none, and nothing is sent to find out."""
    caught, recorder = await fail(HELLO, wire(b'{"model": "m", "input": "hi"}', "embeddings"))
    assert isinstance(caught, Refused)
    assert not caught.endpoint_fault
    assert recorder.order == []


async def test_tool_calls_are_relayed_in_their_fragments() -> None:
    """Fragments of a tool's input stay fragments, and the reply says that a tool is called."""
    sent = [start(), tool(0), fragment('{"at": '), fragment("1}"), block_stop(), delta("tool_use"), STOP]
    reply, recorder, _ = await relay(stream(*sent), wire())
    assert [json.loads(e.data) for e in events_of(recorder)] == [json.loads(one.split(b"data: ")[1]) for one in sent]
    assert reply.finish_reason == "tool_calls"


async def test_server_tools_and_unknown_blocks_pass() -> None:
    """What a canonical reply has no place for goes through untouched for a program."""
    sent = [
        start(),
        block(0, "server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        fragment('{"query": "mills"}'),
        block_stop(0),
        block(1, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[{"url": "https://mill.example"}]),
        block_stop(1),
        block(2, text=""),
        event("content_block_delta", index=2, delta={"type": "citations_delta", "citation": {"cited_text": "x"}}),
        text("yes", 2),
        block_stop(2),
        delta("pause_turn"),
        STOP,
    ]
    reply, recorder, _ = await relay(stream(*sent), wire())
    assert len(events_of(recorder)) == len(sent)
    assert reply.finish_reason == "length"
