"""Known misbehaviour of providers and clients, end to end: the very bytes upstream, and what a program then sees."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.backends.payloads import chunk, event, failure, stream, stream_head, whole
from tests.backends.upstream import Talk
from tests.daemon.serving import until
from tests.gateway_sdk.cases_rig import ASK, ONCE, QUICK, Answer, between, post
from tests.gateway_sdk.sdk_rig import SDK_LEAVES_GENERATORS

pytestmark = SDK_LEAVES_GENERATORS

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
USAGE_ASKED = {"stream": True, "stream_options": {"include_usage": True}}
GOOD = stream(event(chunk("fine")), event(chunk("", finish="stop")), DONE)


def usage_of(answer: Answer) -> list[Any]:
    return [chunk["usage"] for chunk in answer.chunks() if chunk.get("usage")]


def tool(index: int, **call: Any) -> dict[str, Any]:
    return chunk(tool_calls=[{"index": index, **call}])


async def test_R01_null_choices_end_well_end_to_end(tmp_path: Path) -> None:
    """A chunk whose choices are null adds nothing, its usage arrives once, and the SDK reads the stream to its end."""
    nothing = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1", "choices": None}
    script = stream(event(chunk("hello", finish="stop")), event({**nothing, "usage": USAGE}), DONE)
    async with between(tmp_path, script) as there:
        streamed = await there.chat(**USAGE_ASKED)
        document = (await there.chat()).document
        async with there.sdk() as client:
            seen = await client.chat.completions.create(**ASK, **USAGE_ASKED)
            usages = [part.usage async for part in seen if part.usage]
    assert streamed.deltas() == "hello"
    assert [usage["total_tokens"] for usage in usage_of(streamed)] == [7]
    assert streamed.data()[-1] == b"[DONE]"
    assert document["choices"][0]["message"]["content"] == "hello"
    assert document["usage"]["total_tokens"] == 7
    assert len(usages) == 1


@pytest.mark.parametrize("asked", [True, False], ids=["asked for", "not asked for"])
@pytest.mark.parametrize("where", ["on the finish chunk", "in a chunk of its own", "in both"])
async def test_R02_usage_comes_in_one_trailing_chunk_or_none(tmp_path: Path, asked: bool, where: str) -> None:
    """Wherever the provider puts its usage, a program gets one last chunk without choices if it asked, else none."""
    finish = chunk("", finish="stop")
    if where != "in a chunk of its own":
        finish["usage"] = USAGE
    own = event({**chunk(), "choices": [], "usage": USAGE}) if where != "on the finish chunk" else b""
    script = stream(event(chunk("hello")), event(finish), *([own] if own else []), DONE)
    async with between(tmp_path, script) as there:
        answer = await there.chat(**(USAGE_ASKED if asked else {"stream": True}))
    assert answer.deltas() == "hello"
    assert answer.finishes() == ["stop"]
    if asked:
        assert answer.chunks()[-1]["choices"] == []
        assert answer.chunks()[-1]["usage"]["total_tokens"] == 7
    trailing = [chunk for chunk in answer.chunks() if not chunk["choices"]]
    assert len(trailing) == (1 if asked else 0)
    assert len(usage_of(answer)) == (1 if asked else 0)


@pytest.mark.parametrize("before", [b"", event(chunk("hal"))], ids=["at once", "after text"])
async def test_R04_an_error_in_a_200_stream_is_an_error_downstream(tmp_path: Path, before: bytes) -> None:
    """A program sees an error, as a status or as an event, and never an answer that ended by itself."""
    error = event({"error": {"message": "queue full", "type": "server_error", "code": 503}})
    script = stream(*([before] if before else []), error, DONE)
    async with between(tmp_path, script, backend=ONCE) as there:
        streamed = await there.chat(stream=True)
        plain = await there.chat()
        assert there.held() == 0
    if streamed.status == 200:
        assert streamed.finishes() == []
        assert "error" in streamed.chunks()[-1]
    else:
        assert streamed.document["error"]["message"]
    assert plain.status >= 500
    assert plain.document["error"]["message"]


async def test_R05_a_clean_end_without_a_finish_is_an_error_downstream(tmp_path: Path) -> None:
    """A stream that just ends gives its text, then an error event and no end marker; in one piece it is an error."""
    script = stream(event(chunk("half an")), event(chunk(" answer")))
    async with between(tmp_path, script, backend=ONCE) as there:
        streamed = await there.chat(stream=True)
        plain = await there.chat()
        assert there.held() == 0
    assert streamed.finishes() == []
    assert "error" in streamed.chunks()[-1]
    assert b"[DONE]" not in streamed.data()
    assert plain.status == 502
    assert plain.document["error"]["code"] == "truncated"


async def test_R08_separators_inside_json_arrive_intact(tmp_path: Path) -> None:
    """Raw U+2028, U+0085 and form feed inside a chunk's JSON cut no event on either side of the daemon."""
    text = "a\u2028b\u0085c\u2029d"
    raw = b"data: " + json.dumps(chunk(text), ensure_ascii=False).encode() + b"\n\n"
    async with between(tmp_path, stream(raw, event(chunk("", finish="stop")), DONE)) as there:
        assert (await there.chat(stream=True)).deltas() == text
        assert (await there.chat()).document["choices"][0]["message"]["content"] == text


async def test_R09_lines_without_the_space_give_the_same_answer(tmp_path: Path) -> None:
    """An upstream that writes no space behind `data:` gets its answers through, streamed and whole."""
    tight = [part.replace(b"data: ", b"data:", 1) for part in (event(chunk("fine")), event(chunk(finish="stop")), DONE)]
    async with between(tmp_path, stream(*tight)) as there:
        streamed, plain = await there.chat(stream=True), await there.chat()
    assert (streamed.deltas(), streamed.finishes(), streamed.data()[-1]) == ("fine", ["stop"], b"[DONE]")
    assert plain.document["choices"][0]["message"]["content"] == "fine"


async def test_R10_bare_colons_reach_nobody(tmp_path: Path) -> None:
    """Heartbeats of a bare colon neither end the call nor become data."""
    script = stream(b":\n", b":\n\n", event(chunk("fine")), b":\n\n", event(chunk("", finish="stop")), DONE)
    async with between(tmp_path, script) as there:
        answer = await there.chat(stream=True)
    assert answer.deltas() == "fine"
    assert len(answer.data()) == 3


async def test_R11_a_comment_is_never_wrapped_in_data(tmp_path: Path) -> None:
    """A provider's comment before the first chunk does not come out as an event."""
    script = stream(b": PROCESSING\n\n", event(chunk("fine")), event(chunk("", finish="stop")), DONE)
    async with between(tmp_path, script) as there:
        answer = await there.chat(stream=True)
    assert not any(b"PROCESSING" in data for data in answer.data())
    assert all(line.startswith((b"data:", b":", b"event:")) for line in answer.body.splitlines() if line)
    assert answer.deltas() == "fine"


async def test_R13_three_calls_at_one_index_are_three_calls(tmp_path: Path) -> None:
    """Ids that differ make calls that differ, for a raw reader, in one piece and to the SDK's own accumulator."""
    calls = [
        event(tool(0, id=f"call_{n}", type="function", function={"name": "add", "arguments": f'{{"n":{n}}}'}))
        for n in range(3)
    ]
    async with between(tmp_path, stream(*calls, event(chunk(finish="tool_calls")), DONE)) as there:
        plain = (await there.chat()).document["choices"][0]["message"]["tool_calls"]
        async with there.sdk() as client, client.chat.completions.stream(**ASK) as events:
            final = await events.get_final_completion()
    assert [call["id"] for call in plain] == ["call_0", "call_1", "call_2"]
    assert [json.loads(call["function"]["arguments"])["n"] for call in plain] == [0, 1, 2]
    streamed = final.choices[0].message.tool_calls
    assert streamed is not None
    assert [call.id for call in streamed] == ["call_0", "call_1", "call_2"]
    assert [json.loads(call.function.arguments)["n"] for call in streamed] == [0, 1, 2]


@pytest.mark.parametrize("missing", [{}, {"id": None}], ids=["absent", "null"])
async def test_R15_a_missing_id_is_one_id_in_both_modes(tmp_path: Path, missing: dict[str, None]) -> None:
    """A tool call without an id gets one, which the whole answer and the stream both have, once."""
    script = stream(
        event(tool(0, type="function", function={"name": "add", "arguments": ""}, **missing)),
        event(tool(0, function={"arguments": '{"n":1}'}, **missing)),
        event(chunk(finish="tool_calls")),
        DONE,
    )
    async with between(tmp_path, script) as there:
        (plain,) = (await there.chat()).document["choices"][0]["message"]["tool_calls"]
        async with there.sdk() as client, client.chat.completions.stream(**ASK) as events:
            final = await events.get_final_completion()
    assert plain["id"]
    assert plain["function"] == {"name": "add", "arguments": '{"n":1}'}
    assert final.choices[0].message.tool_calls is not None
    (call,) = final.choices[0].message.tool_calls
    assert call.id
    assert call.function.arguments == '{"n":1}'


@pytest.mark.parametrize("arguments", ["", '{"n":1}""'], ids=["empty", "stray quotes"])
async def test_R17_odd_arguments_are_relayed(tmp_path: Path, arguments: str) -> None:
    """Arguments that are no JSON object reach the program, who asked for them, and harm nothing here."""
    opening = tool(0, id="call_1", type="function", function={"name": "add", "arguments": arguments})
    async with between(tmp_path, stream(event(opening), event(chunk(finish="tool_calls")), DONE)) as there:
        answer = await there.chat()
        streamed = await there.chat(stream=True)
        assert there.held() == 0
    (call,) = answer.document["choices"][0]["message"]["tool_calls"]
    assert call["function"]["arguments"] in ({arguments, "{}"} if not arguments else {arguments})
    assert streamed.finishes() == ["tool_calls"]


async def test_R18_null_content_is_made_empty_and_a_400_is_told_once(tmp_path: Path) -> None:
    """An assistant's turn of tool calls alone reaches the backend with empty content; a 400 is not tried again."""
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    turns = [
        *ASK["messages"],
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "2"},
    ]
    async with between(tmp_path, GOOD, failure(400, {"message": "no", "param": "messages"}), GOOD) as there:
        assert (await there.chat(messages=turns)).status == 200
        assert (await there.chat(messages=turns)).status == 400
        assert (await there.chat(messages=turns)).status == 200, "a 400 does not open the breaker"
        assert len(there.upstream.received) == 3
        assert there.upstream.received[0].json["messages"][1]["content"] == ""


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_R19_reasoning_reaches_the_program(tmp_path: Path, field: str) -> None:
    """Reasoning under either name passes untouched, streamed and whole."""
    script = stream(event(chunk(**{field: "think"})), event(chunk(**{field: "ing"})), event(chunk("so", finish="stop")))
    script = script.replace(b"0\r\n\r\n", b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    async with between(tmp_path, script) as there:
        streamed, plain = await there.chat(stream=True), await there.chat()
    assert streamed.deltas(field) == "thinking"
    assert plain.document["choices"][0]["message"][field] == "thinking"


@pytest.mark.parametrize(
    "usage",
    [
        {**USAGE, "prompt_tokens_details": {"cached_tokens": None}},
        {**USAGE, "prompt_tokens_details": None},
        None,
    ],
    ids=["cached null", "details null", "usage null"],
)
async def test_R20_odd_usage_crashes_nothing(tmp_path: Path, usage: Any) -> None:
    """Usage with nulls in it is read as far as it goes, and the program gets its answer."""
    script = stream(event(chunk("fine", finish="stop")), event({**chunk(), "choices": [], "usage": usage}), DONE)
    async with between(tmp_path, script) as there:
        streamed, plain = await there.chat(**USAGE_ASKED), await there.chat()
    assert streamed.deltas() == "fine"
    assert plain.document["choices"][0]["message"]["content"] == "fine"
    if usage is not None:
        assert plain.document["usage"]["total_tokens"] == 7


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"x_ratelimit_remaining_requests": "0", "x_ratelimit_reset_requests": "300ms"}, 0.3),
        ({"retry_after_ms": "300"}, 0.3),
        ({"retry_after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, 0.0),
    ],
    ids=["reset in ms", "retry-after-ms", "date in the past", "garbage"],
)
async def test_R22_the_wait_of_a_429_is_kept_end_to_end(tmp_path: Path, headers: Any, least: float) -> None:
    """A program never sees the provider's 429: its call waits as long as was asked, and is answered."""
    async with between(tmp_path, failure(429, {"message": "slow down"}, **headers), GOOD) as there:
        began = trio.current_time()
        answer = await there.chat()
        took = trio.current_time() - began
        assert len(there.upstream.received) == 2
    assert answer.status == 200
    assert least <= took < least + 5


async def test_R23_the_exhausted_limit_decides_end_to_end(tmp_path: Path) -> None:
    """With tokens used up the wait is that of tokens, not the six minutes of the requests that are left."""
    headers = {
        "x_ratelimit_reset_requests": "6m0s",
        "x_ratelimit_reset_tokens": "88ms",
        "x_ratelimit_remaining_requests": "10",
        "x_ratelimit_remaining_tokens": "0",
    }
    async with between(tmp_path, failure(429, {"message": "slow down"}, **headers), GOOD) as there:
        with trio.fail_after(10):
            assert (await there.chat()).status == 200


async def test_R25_only_a_structured_code_is_a_billing_stop(tmp_path: Path) -> None:
    """A bare 429 that merely talks of quota is waited out; the code for it ends the call after one try.

    It is the account of whoever runs the daemon, so the program is told that, and not what the provider said.
    """
    talk = failure(429, {"message": "insufficient quota of concurrent requests"})
    async with between(tmp_path, talk, GOOD) as there:
        assert (await there.chat()).status == 200
    code = failure(429, {"message": "no money", "code": "insufficient_quota", "type": "insufficient_quota"})
    async with between(tmp_path, code) as there:
        answer = await there.chat()
        assert len(there.upstream.received) == 1
    assert answer.status == 502
    assert answer.document["error"]["code"] == "provider_refuses"
    assert "no money" not in answer.document["error"]["message"]


async def test_R26_an_overload_is_waited_out_and_a_413_is_not(tmp_path: Path) -> None:
    """529 is tried again; 413 is the program's own error after one try."""
    overloaded = failure(529, {"type": "overloaded_error", "message": "overloaded"})
    async with between(tmp_path, overloaded, GOOD) as there:
        assert (await there.chat()).status == 200
    async with between(tmp_path, failure(413, {"message": "too large"})) as there:
        assert (await there.chat()).status == 413
        assert len(there.upstream.received) == 1


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_R28_who_leaves_takes_the_call_along_end_to_end(tmp_path: Path, streamed: bool) -> None:
    """A client that closes while it waits never reaches the upstream; one in flight is aborted there."""
    left = trio.Event()

    async def endless(talk: Talk) -> None:
        await talk.send(stream_head())
        await talk.client_left()
        left.set()

    body = json.dumps({**ASK, "stream": streamed}).encode()
    async with between(tmp_path, endless, backend="concurrency = 1\n") as there:
        first, second = await there.connect(), await there.connect()
        await first.send_all(post("/v1/chat/completions", body))
        await until(lambda: len(there.upstream.received) == 1)
        await second.send_all(post("/v1/chat/completions", body))
        await until(lambda: there.held() == 2)
        await second.aclose()
        await until(lambda: there.held() == 1)
        await first.aclose()
        with trio.fail_after(5):
            await left.wait()
        await until(lambda: there.held() == 0)
        assert len(there.upstream.received) == 1


@pytest.mark.parametrize("length", ["9" * 10_000, "1" + "0" * 21], ids=["10,000 digits", "1e21"])
async def test_S07_an_absurd_length_is_refused_and_others_are_served(tmp_path: Path, length: str) -> None:
    """A body of absurd length is refused before anything is read of it, and the next client is served."""
    request = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {length}\r\n\r\n"
    async with between(tmp_path, GOOD) as there:
        async with await there.connect() as stream_:
            await stream_.send_all(request.encode())
            with trio.fail_after(5):
                answer = await stream_.receive_some()
        assert answer[9:12] in (b"400", b"413", b"431")
        assert (await there.chat()).status == 200
        assert len(there.upstream.received) == 1


async def test_S10_the_next_free_slot_goes_to_the_urgent_request(tmp_path: Path) -> None:
    """With the one slot taken and a batch request waiting, an interactive one that comes later is sent first."""
    go_on = trio.Event()

    async def held(talk: Talk) -> None:
        await go_on.wait()
        await talk.send(GOOD)

    async with between(tmp_path, held, GOOD, backend="concurrency = 1\n") as there, trio.open_nursery() as nursery:

        async def ask(name: str, priority: str) -> None:
            body = json.dumps({**ASK, "user": name}).encode()
            answer = await there.post("/v1/chat/completions", body, f"x-headrace-priority: {priority}\r\n")
            assert answer.status == 200

        for count, (name, priority) in enumerate([("a", "batch"), ("b", "batch"), ("c", "interactive")], 1):
            nursery.start_soon(ask, name, priority)
            await until(lambda count=count: there.held() == count)  # type: ignore[misc]
        go_on.set()
        await until(lambda: len(there.upstream.received) == 3)
        assert [request.json["user"] for request in there.upstream.received] == ["a", "c", "b"]


async def test_a_whole_answer_of_an_upstream_that_does_not_stream(tmp_path: Path) -> None:
    """A server that answers in one piece although a stream was asked for is read too, in both modes."""
    document = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m-1",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    async with between(tmp_path, whole(200, json.dumps(document).encode()), backend=QUICK) as there:
        plain, streamed = await there.chat(), await there.chat(stream=True)
    assert plain.document["choices"][0]["message"]["content"] == "fine"
    assert streamed.deltas() == "fine"
