"""Programs' chat requests through the adapter over a real socket: the very bytes, and what is read on the way."""

import json

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Overloaded, Refused, Throttled, Truncated, Unavailable
from tests.backends.payloads import (
    CALLS,
    COUNTED,
    DONE,
    END,
    HELLO,
    STOP,
    USAGE,
    chunk,
    event,
    failure,
    frame,
    stream,
    stream_head,
    text,
    tool,
    trailing,
    whole,
)
from tests.backends.recorder import Recorder
from tests.backends.relay import HI, data_of, events_of, relay, tokens_of, wired
from tests.backends.upstream import Script, Talk, in_two_reads, upstream

STRANGE = r"""{
 "model":"m","temperature":1.0, "top_p":1e-1,"logit_bias":{"50256":-1E2},
 "messages":[{"role":"user","content":"\u00fc\ud83d\ude00 and ü \/"}],"seed":12345678901234567890,
 "x_unknown":{"b":[1.50,{}],"a":null}, "n":2, "logprobs":true, "max_tokens":7,
 "stream":false}""".encode()

VERBATIM = [
    rb'{"id":"c1","object":"chat.completion.chunk","created":1e3,"x":1.0,"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}',
    rb'{"choices":[{"delta":{"content":"\u00fc\ud83d\ude00"},"logprobs":{"content":[{"token":"a","logprob":-0.10}]},"index":0}],"zz":[1E2],"id":"c1"}',
    '{ "choices" : [ {"index":0, "delta":{"content":"\u2028 ü \u0085"}} ], "x_vendor": {"k": null} }'.encode(),
    rb'{"choices":[{"index":1,"delta":{"content":"second","reasoning_content":"hm"}}]}',
    rb'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{},"finish_reason":"length"}]}',
]


def lines(*data: bytes, form: bytes = b"data: %b\n\n") -> Script:
    return stream(*(form % item for item in data), form % b"[DONE]")


async def refused(script: Script, body: bytes = HI, **options: object) -> tuple[ModelError, Recorder]:
    """The error of a program's request to an upstream with that script."""
    recorder = Recorder()
    async with upstream(script) as server, server.connection(**options) as connection:
        with pytest.raises(ModelError) as caught:
            await connection.send(wired(body), recorder)
    return caught.value, recorder


# The request.


async def test_a_request_reaches_the_server_verbatim_but_for_what_must_change() -> None:
    """Unknown members, number formats, escapes and their order stay; model and streaming are ours."""
    async with upstream(HELLO) as server, server.connection(models={"m": "real"}, max_tokens=5) as connection:
        await connection.send(wired(STRANGE), Recorder())
    (received,) = server.received
    assert received.head.startswith(b"POST /v1/chat/completions ")
    for piece in (
        rb'"temperature":1.0,"top_p":1e-1,"logit_bias":{"50256":-1E2},"messages":[{"role":"user",',
        rb'"\u00fc\ud83d\ude00 and ' + "ü".encode() + rb' \/"',
        rb'"seed":12345678901234567890,"x_unknown":{"b":[1.50,{}],"a":null},"n":2,"logprobs":true,"max_tokens":7,',
    ):
        assert piece in received.body
    changed = received.json
    assert changed["model"] == "real"
    assert changed["stream"] is True
    assert changed["stream_options"] == {"include_usage": True}


async def test_a_servers_dislike_of_usage_is_kept_to() -> None:
    """Where the configuration says that usage must not be asked for, nothing of the kind is sent."""
    async with upstream(HELLO) as server, server.connection(include_usage=False) as connection:
        await connection.send(wired(b'{"model":"m","stream_options":{"include_usage":true},"messages":[]}'), Recorder())
    assert server.received[0].json == {"model": "m", "messages": [], "stream": True}


# The answer.


async def test_events_pass_untouched() -> None:
    """Every byte of every event's data goes on: unknown members, number formats, escapes, spaces and key order."""
    _, recorder = await relay(lines(*VERBATIM), STRANGE)
    assert data_of(recorder) == VERBATIM
    assert {event.event for event in events_of(recorder)} == {""}


async def test_what_it_costs_is_read_on_the_way() -> None:
    """Usage, the reason and the progress are those of a canonical request; usage is reported once."""
    reply, recorder = await relay(HELLO)
    assert recorder.order == ["connected", "written", "headers", "deltas", "usage"]
    assert (reply.finish_reason, reply.usage, reply.model) == ("stop", COUNTED, "m")
    assert recorder.usages == [COUNTED]
    assert tokens_of(recorder) == 2


async def test_all_events_of_one_read_go_on_together() -> None:
    """Two reads are two batches, however many events they hold."""
    pieces = [text(str(n)) for n in range(10)]
    script = in_two_reads(
        stream_head() + b"".join(map(frame, pieces[:4])), b"".join(map(frame, [*pieces[4:], STOP])) + END
    )
    _, recorder = await relay(script)
    assert [sum(len(delta.wire) for delta in batch) for _, batch in recorder.batches] == [4, 7]
    assert tokens_of(recorder) == 10


async def test_the_first_batch_is_the_first_token() -> None:
    """A role alone is a sign of life; it goes on with the first token, and both are one batch."""
    role = event(chunk("", role="assistant"))
    _, recorder = await relay(in_two_reads(stream_head() + frame(role), frame(text("a")) + frame(STOP) + END))
    assert recorder.order == ["connected", "written", "headers", "alive", "deltas"]
    assert len(events_of(recorder)) == 3


async def test_an_answer_without_a_token_is_still_an_answer() -> None:
    """A role and an end come whole, and count for no token."""
    reply, recorder = await relay(stream(event(chunk("", role="assistant")), STOP, DONE))
    assert reply.finish_reason == "stop"
    assert len(events_of(recorder)) == 2
    assert tokens_of(recorder) == 0


async def test_a_server_that_opens_for_ever_is_not_kept_for_ever() -> None:
    """Beyond a bound events go on although no token has come, and the answer counts as begun."""
    role = event(chunk("", role="assistant"))
    _, recorder = await relay(in_two_reads(stream_head() + frame(role * 100), frame(text("a")) + frame(STOP) + END))
    assert [sum(len(delta.wire) for delta in batch) for _, batch in recorder.batches] == [100, 2]
    assert [delta.tokens for _, batch in recorder.batches for delta in batch] == [1, 1]


# Cases.


async def test_R01_null_choices_are_relayed_as_an_empty_list_and_carry_usage() -> None:
    """Usage counts, the program gets no null to fall over, and the stream ends as usual."""
    null = event({"choices": None, "usage": USAGE})
    body = b'{"model":"m","messages":[],"stream_options":{"include_usage":true}}'
    reply, recorder = await relay(stream(text("a"), STOP, null, DONE), body)
    assert reply.usage == COUNTED
    assert recorder.usages == [COUNTED]
    assert json.loads(data_of(recorder)[-1])["choices"] == []


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("events", [[event(chunk(finish="stop", usage=USAGE)), DONE], [STOP, trailing(), DONE]])
async def test_R02_a_program_gets_one_usage_chunk_exactly_if_it_asked(asked: bool, events: list[bytes]) -> None:
    """Wherever the server reports usage, the program gets it in a last chunk without choices, or not at all."""
    body = {"model": "m", "messages": [], "stream": True, "stream_options": {"include_usage": asked}}
    reply, recorder = await relay(stream(text("a"), *events), body)
    reports = [found for found in map(json.loads, data_of(recorder)) if found.get("usage")]
    assert [found["choices"] for found in reports] == ([[]] if asked else [])
    assert reply.usage == COUNTED


async def test_R04_an_error_inside_a_200_is_that_error() -> None:
    """A full queue, told in the stream, is an overload; nothing of it reached the program."""
    error = event({"error": {"message": "queue full, try later", "type": "queue_full", "code": None}})
    caught, recorder = await refused(stream(error, DONE))
    assert type(caught) is Overloaded
    assert "queue full, try later" in caught.message
    assert recorder.batches == []


@pytest.mark.parametrize("name", [b"", b"event: error\n"])
async def test_R04_an_error_after_text_keeps_what_had_come(name: bytes) -> None:
    """Usage and text so far stand in the error, and what came before it in the same read went on or not at all."""
    error = name + event({"error": {"message": "slow down", "code": "rate_limit_exceeded"}})
    caught, recorder = await refused(in_two_reads(stream_head() + frame(text("par") + text("tial")), frame(error)))
    assert isinstance(caught, Throttled)
    assert caught.partial == "partial"
    assert tokens_of(recorder) == 2


async def test_R05_an_end_without_a_reason_is_truncated() -> None:
    """Two chunks and an orderly end are no answer; the text is kept for accounting."""
    caught, recorder = await refused(stream(text("one "), text("two")))
    assert type(caught) is Truncated
    assert caught.partial == "one two"
    assert tokens_of(recorder) == 2


async def test_R05_an_end_before_the_first_token_leaves_nothing_behind() -> None:
    """A role alone, then an orderly end: the program has seen nothing, so another attempt can begin anew."""
    caught, recorder = await refused(stream(event(chunk("", role="assistant"))))
    assert type(caught) is Truncated
    assert recorder.batches == []


async def test_R05_a_broken_connection_after_the_reason_is_a_whole_answer() -> None:
    """Only the closing bytes of HTTP are missing."""

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("a")) + frame(STOP))
        await talk.close()

    reply, recorder = await relay(script)
    assert reply.finish_reason == "stop"
    assert len(events_of(recorder)) == 2


async def test_R08_unicode_line_separators_stay_inside_their_event() -> None:
    """U+2028, U+0085 and a form feed in a JSON string are text, and arrive as they were."""
    data = json.dumps(chunk("a\u2028b\u0085c"), ensure_ascii=False).encode()
    _, recorder = await relay(lines(data, json.dumps(chunk(finish="stop")).encode()))
    assert data_of(recorder)[0] == data


async def test_R09_no_space_after_the_colon_is_the_same() -> None:
    """Exactly one optional space is taken away, on the data as on the end marker."""
    _, recorder = await relay(lines(*VERBATIM, form=b"data:%b\n\n"))
    assert data_of(recorder) == VERBATIM


async def test_R10_R11_comments_are_life_and_never_data() -> None:
    """A bare colon and a comment keep the attempt alive; a program sees neither, and no first token."""
    beats = b":\n\n" + b": OPENROUTER PROCESSING\n\n"
    _, recorder = await relay(in_two_reads(stream_head() + frame(beats), frame(text("a")) + frame(STOP) + END))
    assert recorder.order == ["connected", "written", "headers", "alive", "deltas"]
    assert b"PROCESSING" not in b"".join(data_of(recorder))


# Servers and networks.


async def test_a_server_that_ignores_streaming_is_understood() -> None:
    """One document becomes a chunk with the text and one with usage; unknown members and number formats stay."""
    document = (
        rb'{"id":"c1","object":"chat.completion","x":1.0,"choices":[{"index":0,"message":{"role":"assistant",'
        rb'"content":"h\u00fc","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},'
        rb'{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}],"y":1e2},"finish_reason":"tool_calls"}],'
        rb'"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}'
    )
    body = b'{"model":"m","messages":[],"stream_options":{"include_usage":true}}'
    reply, recorder = await relay(whole(200, document), body)
    first, last = data_of(recorder)
    found = json.loads(first)
    assert found["object"] == "chat.completion.chunk"
    assert [call["index"] for call in found["choices"][0]["delta"]["tool_calls"]] == [0, 1]
    assert rb'"x":1.0' in first
    assert rb'"content":"h\u00fc"' in first
    assert rb'"y":1e2' in first
    assert json.loads(last)["choices"] == []
    assert (reply.finish_reason, reply.usage) == ("tool_calls", COUNTED)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (whole(200, b"<html>Sign in</html>", "text/html"), "Sign in"),
        (whole(200, b'{"id": 1}'), "no chat completion"),
        (whole(200, b'{"choices": ['), "no JSON"),
        (whole(200, b'{"choices": 7}'), "no chat completion"),
    ],
)
async def test_a_200_that_is_no_answer_is_unavailable(script: bytes, words: str) -> None:
    """The message shows the start of what came instead."""
    caught, recorder = await refused(script)
    assert type(caught) is Unavailable
    assert words in caught.message
    assert recorder.batches == []


async def test_a_document_with_an_error_is_that_error() -> None:
    """An error object outside of a stream is judged the same way."""
    caught, _ = await refused(whole(200, b'{"error":{"code":429,"message":"slow down"}}'))
    assert isinstance(caught, Throttled)


async def test_half_a_chunk_is_truncated() -> None:
    """A chunk that is no JSON ends the answer, and is not passed on."""
    caught, recorder = await refused(in_two_reads(stream_head() + frame(text("a")), frame(b'data: {"choices": [\n\n')))
    assert type(caught) is Truncated
    assert len(events_of(recorder)) == 1


async def test_a_refusal_is_the_canonical_one() -> None:
    """An error status is judged by the same table, and quotes no key."""
    key = "sk-very-secret-0123456789"
    caught, recorder = await refused(
        failure(400, {"message": f"bad {key}", "code": "bad"}), api_key_env="K", environ={"K": key}
    )
    assert type(caught) is Refused
    assert caught.status == 400
    assert key not in caught.message
    assert recorder.batches == []


async def test_an_error_in_a_stream_quotes_no_key() -> None:
    """What a server repeats of our key stays out of the message."""
    key = "sk-very-secret-0123456789"
    error = event({"error": {"message": f"bad {key}", "code": "server_error"}})
    caught, _ = await refused(stream(error), api_key_env="K", environ={"K": key})
    assert type(caught) is Unavailable
    assert key not in caught.message


async def test_a_count_of_tokens_is_estimated_without_the_server() -> None:
    """About four bytes to a token, at no cost; nothing was sent."""
    async with upstream(HELLO) as server, server.connection() as connection:
        reply = await connection.send(wired(HI, "count_tokens"), Recorder())
    assert json.loads(reply.wire) == {"input_tokens": -(-len(HI) // 4)}
    assert reply.usage.total == 0
    assert server.received == []


async def test_a_slow_reader_stops_the_read() -> None:
    """While a batch is not taken nothing more is read, so that the server feels it."""
    gate, waiting = trio.Event(), trio.Event()
    sent: list[int] = []

    async def script(talk: Talk) -> None:
        await talk.send(stream_head())
        piece = frame(text("x" * 65536))
        for number in range(400):
            await talk.send(piece)
            sent.append(number)
        await talk.send(frame(STOP) + END)

    async def slow() -> None:
        waiting.set()
        await gate.wait()

    recorder = Recorder(slow)
    async with upstream(script) as server, server.connection() as connection, trio.open_nursery() as nursery:
        nursery.start_soon(connection.send, wired(HI), recorder)
        with trio.fail_after(5):
            await waiting.wait()
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(recorder.batches) == 1
        assert len(sent) < 300
        gate.set()
    assert len(sent) == 400
    assert len(events_of(recorder)) == 401


async def test_cancelling_aborts_the_request() -> None:
    """The server sees the stream closed at once, and the connection serves the next request."""
    left = trio.Event()

    async def script(talk: Talk) -> None:
        await talk.send(stream_head() + frame(text("a")))
        await talk.client_left()
        left.set()

    scope = trio.CancelScope()

    async def leave() -> None:
        scope.cancel()
        await trio.lowlevel.checkpoint()

    async with upstream(script, HELLO) as server, server.connection() as connection:
        with scope:
            await connection.send(wired(HI), Recorder(leave))
        assert scope.cancelled_caught
        with trio.fail_after(5):
            await left.wait()
        recorder = Recorder()
        await connection.send(wired(HI), recorder)
        assert len(events_of(recorder)) == 4


def calls_of(recorder: Recorder) -> list[tuple[int, str | None]]:
    """The index and id of every tool-call fragment, as a program sees them."""
    deltas = [choice["delta"] for data in data_of(recorder) for choice in json.loads(data)["choices"]]
    return [(call["index"], call.get("id")) for delta in deltas for call in delta.get("tool_calls") or ()]


async def test_R13_a_new_id_at_an_occupied_index_is_a_new_call() -> None:
    """Three ids at index 0 are relayed at three indices; what follows without an id stays with the last of them."""
    calls = [tool(0, id=f"c{n}", name="f", arguments="{}") for n in range(3)]
    _, recorder = await relay(stream(*calls, tool(0, arguments=" "), CALLS, DONE))
    assert calls_of(recorder) == [(0, "c0"), (1, "c1"), (2, "c2"), (2, None)]


async def test_R15_a_call_without_an_id_gets_one() -> None:
    """Each call one of its own, in its first fragment; the rest of the event stays as it was."""
    first = [tool(n, name="f", arguments="{", x_vendor=1.0) for n in range(2)]
    _, recorder = await relay(stream(*first, tool(0, id=None, arguments="}"), tool(1, arguments="}"), CALLS, DONE))
    found = calls_of(recorder)
    assert [index for index, _ in found] == [0, 1, 0, 1]
    assert found[0][1]
    assert found[1][1]
    assert found[0][1] != found[1][1]
    assert [call_id for _, call_id in found[2:]] == [None, None]
    assert all(b'"x_vendor":1.0' in data for data in data_of(recorder)[:2])


async def test_calls_by_the_rule_pass_untouched() -> None:
    """Parallel calls with indices and ids of their own are the server's very bytes, in every choice."""
    data = [
        rb'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]}}]}',
        rb'{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":""}}]}}]}',
        rb'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c","function":{"name":"f","arguments":""}}]}}]}',
        rb'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\u007d"}}]}}], "x":1e3}',
        rb'{"choices":[{"index":0,"delta":{"content":"\"tool_calls\" is a word"},"finish_reason":"tool_calls"}]}',
        rb'{"choices":[{"index":1,"delta":{"tool_calls":null},"finish_reason":"tool_calls"}]}',
    ]
    _, recorder = await relay(lines(*data))
    assert data_of(recorder) == data


async def test_R19_reasoning_under_either_name_is_a_token() -> None:
    """Both names go on as they are, count as output and as the first token."""
    data = [
        rb'{"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}',
        rb'{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}',
        rb'{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    ]
    _, recorder = await relay(lines(*data))
    assert data_of(recorder) == data
    assert tokens_of(recorder) == 2
