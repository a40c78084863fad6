"""The simulated provider over HTTP, at the level of bytes and status lines; adapters are held against it elsewhere."""

import json
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from orchestrator.backends.sim_server import run_simulator, serve_simulated
from orchestrator.backends.sim_wire import duration
from orchestrator.backends.simulated import FaultRule, SimConfig, SimLatency, SimLength, SimLimit, SimProvider

FAST = SimLatency(first_token=0.0, input_rate=1e9, output_rate=1e6, spread=0.0)
ENDLESS = SimLatency(first_token=0.0, input_rate=1e9, output_rate=200.0, spread=0.0, chunk_tokens=1)


@asynccontextmanager
async def served(config: SimConfig | None = None) -> AsyncIterator[tuple[SimProvider, httpx2.AsyncClient]]:
    """A provider over a socket, and a client that goes to it."""
    start = trio.current_time()
    provider = SimProvider(config or SimConfig(latency=FAST), clock=lambda: trio.current_time() - start)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            url = await nursery.start(serve_simulated, provider)
            async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
                yield provider, client
            nursery.cancel_scope.cancel()


def body(**more: Any) -> dict[str, Any]:
    return {"model": "sim", "messages": [{"role": "user", "content": "Grüße an 日本 🎉"}], "max_tokens": 12, **more}


def chunks(text: str) -> list[Any]:
    """The decoded events of a stream; it has to end with DONE."""
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


@asynccontextmanager
async def raw(client: httpx2.AsyncClient, data: bytes = b"") -> AsyncIterator[trio.SocketStream]:
    """A bare connection, with a small buffer for what comes, on which `data` has been sent."""
    sock = trio.socket.socket()
    sock.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 16_384)
    await sock.connect((client.base_url.host, client.base_url.port))
    async with trio.SocketStream(sock) as stream:
        await stream.send_all(data)
        yield stream


def post(**more: Any) -> bytes:
    """A chat request as bytes."""
    content = json.dumps(body(**more)).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(content) + content


async def read_all(stream: trio.SocketStream) -> bytes:
    return b"".join([data async for data in stream])


async def until(condition: Callable[[], bool]) -> None:
    """Gives the server the moment it needs to notice something that happened on a socket."""
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.005)


async def test_an_answer_in_one_piece() -> None:
    """Without `stream` the answer is one document in OpenAI's shape, unicode intact, with the rate-limit headers."""
    limits = (SimLimit(kind="requests", amount=10), SimLimit(kind="output_tokens", amount=1000))
    async with served(SimConfig(latency=FAST, limits=limits)) as (_, client):
        answer = await client.post("chat/completions", json=body())
    found = answer.json()
    assert answer.status_code == 200
    assert found["object"] == "chat.completion"
    assert found["choices"][0]["finish_reason"] == "length"
    assert "Grüße an 日本 🎉" in found["choices"][0]["message"]["content"]
    assert found["usage"]["completion_tokens"] == 12
    assert answer.headers["x-ratelimit-remaining-requests"] == "9"
    assert answer.headers["anthropic-ratelimit-output-tokens-limit"] == "1000"


@pytest.mark.parametrize("asked", [True, False])
async def test_a_stream_gives_usage_when_asked(asked: bool) -> None:
    """A streamed answer ends with one usage chunk without choices where `include_usage` asks for it, else with none."""
    options = {"stream_options": {"include_usage": True}} if asked else {}
    async with served() as (_, client):
        whole = await client.post("chat/completions", json=body())
        answer = await client.post("chat/completions", json=body(stream=True, **options))
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = chunks(answer.text)
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in found if c["choices"])
    assert text == whole.json()["choices"][0]["message"]["content"]
    usages = [c["usage"] for c in found if c.get("usage")]
    assert usages == ([whole.json()["usage"]] if asked else [])
    assert [c["choices"] for c in found if c.get("usage")] == ([[]] if asked else [])
    assert len({c["id"] for c in found}) == 1


async def test_tools_streamed_and_whole_agree() -> None:
    """A tool call in pieces adds up to the one in a document, and its result comes back in the next answer."""
    schema = {"type": "object", "properties": {"city": {"enum": ["Köln", "Łódź"]}}, "required": ["city"]}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    async with served(SimConfig(latency=FAST)) as (_, client):
        whole = (await client.post("chat/completions", json=body(tools=tools, max_tokens=None))).json()
        streamed = await client.post("chat/completions", json=body(tools=tools, max_tokens=None, stream=True))
        message = whole["choices"][0]["message"]
        told = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "Nieselregen, 4 °C"}
        messages = [*body()["messages"], message, told]
        last = await client.post("chat/completions", json={"model": "sim", "messages": messages, "tools": tools})
    (call,) = message["tool_calls"]
    assert json.loads(call["function"]["arguments"])["city"] in ("Köln", "Łódź")
    pieces = [p for c in chunks(streamed.text) for p in c["choices"][0]["delta"].get("tool_calls", ())]
    assert "".join(p["function"]["arguments"] for p in pieces) == call["function"]["arguments"]
    assert [p["id"] for p in pieces if "id" in p] == [call["id"]]
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    assert told["content"] in last.json()["choices"][0]["message"]["content"]


async def test_a_429_has_every_header() -> None:
    """A refused call gets OpenAI's error object, `retry-after` in seconds and milliseconds, and honest limits."""
    async with served(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=1),))) as (provider, client):
        await client.post("chat/completions", json=body())
        answer = await client.post("chat/completions", json=body())
    error = answer.json()["error"]
    assert answer.status_code == 429
    assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
    assert 55 < int(answer.headers["retry-after"]) <= 60
    assert 0 <= int(answer.headers["retry-after"]) * 1000 - int(answer.headers["retry-after-ms"]) < 1000
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert re.fullmatch(r"\d+(\.\d+)?s|1m0s", answer.headers["x-ratelimit-reset-requests"])
    assert provider.statistics().refused == {"requests": 1}


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"{", "not a valid request"),
        (b"[]", "Expected `object`"),
        (b'{"model":"sim"}', "messages"),
        (b'{"model":"sim","messages":[]}', "messages"),
        (b'{"model":"sim","messages":[{"role":"king","content":"x"}]}', "king"),
        (b'{"model":"sim","messages":[{"role":"assistant","content":null}]}', "null"),
        (b'{"model":"sim","messages":[{"role":"tool","content":"x"}]}', "tool_call_id"),
        (b'{"model":"sim","messages":[{"role":"user","content":"x"}],"max_tokens":"many"}', "max_tokens"),
        (b'{"model":"sim","messages":[{"role":"user","content":"\xff"}]}', "not a valid request"),
        (b"[" * 100_000, "not a valid request"),
    ],
)
async def test_bad_bodies_get_400_and_the_connection_lives(content: bytes, hint: str) -> None:
    """A body that is no request is refused with 400 and a hint, over a connection that serves the next one."""
    async with served(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=1),))) as (provider, client):
        answer = await client.post("chat/completions", content=content)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert hint in answer.json()["error"]["message"]
        assert answer.headers["x-ratelimit-remaining-requests"] == "1"
        assert (await client.post("chat/completions", json=body())).status_code == 200
    assert provider.statistics().refused == {"invalid": 1}


@pytest.mark.parametrize(
    ("length", "status"), [(b"9" * 10_000, 400), (b"1" + b"0" * 21, 400), (b"999999999", 413), (b"-1", 400)]
)
async def test_S07_absurd_content_lengths_are_refused(length: bytes, status: int) -> None:
    """A Content-Length beyond reason is refused before any body is read, and the connection closes cleanly."""
    async with served() as (_, client):
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n"
        async with raw(client, head) as stream:
            answer = await read_all(stream)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b"connection: close" in answer


async def test_a_chunked_body_is_bounded() -> None:
    """A body without a declared length is refused once it grows too large, without a reset that loses the answer."""
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    block = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    async with served() as (_, client), raw(client, head) as stream:
        for _ in range(17):
            await stream.send_all(block)
        assert (await read_all(stream)).startswith(b"HTTP/1.1 413 ")


async def test_keys_models_health_and_strangers() -> None:
    """Only `/healthz` needs no key; a wrong key is 401, an unknown path 404, and models are listed."""
    async with served(SimConfig(latency=FAST, api_keys=("right", "other"), models=("a", "b"))) as (provider, client):
        assert (await client.get(str(client.base_url).replace("/v1/", "/healthz"))).status_code == 200
        wrong = await client.get("models", headers={"authorization": "Bearer wrong"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "invalid_api_key")
        client.headers["authorization"] = "Bearer other"
        assert [row["id"] for row in (await client.get("models")).json()["data"]] == ["a", "b"]
        assert (await client.get("nowhere")).status_code == 404
        assert (await client.post("chat/completions", json=body())).json()["error"]["code"] == "model_not_found"
    assert provider.statistics().refused == {"key": 1, "invalid": 1}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_takes_its_call_along(stream: bool) -> None:
    """A disconnect aborts the call, streamed or not: it is no longer in flight, and what it produced counts."""
    limit = SimLimit(kind="output_tokens", amount=100_000, counted="reconciled")
    config = SimConfig(latency=ENDLESS, length=SimLength(tokens=50_000, spread=0), limits=(limit,))
    async with served(config) as (provider, client):
        async with raw(client, post(stream=stream, max_tokens=50_000)):
            await until(lambda: provider.statistics().output_tokens.total >= 3)
        await until(lambda: provider.statistics().in_flight == 0)
        stats = provider.statistics()
        assert (stats.aborted, stats.completed) == (1, 0)
        assert provider.readings()[0].remaining == 100_000 - stats.output_tokens.total


async def test_a_reader_that_stops_stops_the_provider() -> None:
    """Once the socket's buffers are full nothing more is produced until the client reads on."""
    length = SimLength(tokens=3_000_000, spread=0)
    latency = SimLatency(first_token=0, input_rate=1e9, output_rate=1e9, spread=0, chunk_tokens=1)
    config = SimConfig(latency=latency, length=length)
    async with served(config) as (provider, client), raw(client, post(stream=True, max_tokens=30_000)) as stream:
        produced = provider.statistics().output_tokens
        before = -1.0
        while produced.total != before or before <= 0:
            before = produced.total
            await trio.sleep(0.1)
        assert before < 30_000
        while produced.total == before:
            await stream.receive_some(65536)


async def test_pipelined_requests_are_answered_in_order() -> None:
    """A request sent ahead is kept and answered after the first."""
    one = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    two = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    async with served() as (_, client), raw(client, one + two) as stream:
        answer = await read_all(stream)
    assert answer.index(b'"object":"list"') < answer.index(b'{"status":"ok"}')


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 404),
        (b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade, close\r\n\r\n", 404),
        (b"GET /healthz HTTP/1.0\r\n\r\n", 200),
        (b"GET /healthz\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50, 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000, 431),
        (post(tools=[{"type": "function", "function": {"name": "f", "parameters": {"minimum": "x"}}}]), 400),
        (b"", 0),
    ],
)
async def test_strange_clients_do_no_harm(sent: bytes, status: int) -> None:
    """Whatever comes is answered or closed on its own connection, and the server goes on serving."""
    async with served() as (_, client):
        async with raw(client, sent) as stream:
            await stream.send_eof()
            answer = await read_all(stream)
            assert answer.startswith(b"HTTP/1.1 %d " % status if status else b"")
            assert bool(answer) == bool(status)
        assert (await client.post("chat/completions", json=body())).status_code == 200


async def test_a_client_may_ask_before_it_sends_its_body() -> None:
    """`Expect: 100-continue` is answered before the body is read."""
    head, _, content = post().partition(b"\r\n\r\n")
    asking = head + b"\r\nExpect: 100-continue\r\n\r\n"
    async with served() as (_, client), raw(client, asking) as stream:
        assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(content)
        assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 200 ")


async def test_R05_a_truncated_stream_ends_inside_the_body() -> None:
    """A truncated stream ends by FIN after its tokens, without finish reason, DONE or the end of the HTTP body."""
    rule = FaultRule(fault="truncate", after_tokens=5)
    async with served(SimConfig(latency=FAST, faults=(rule,))) as (provider, client):
        async with raw(client, post(stream=True)) as stream:
            answer = await read_all(stream)
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert answer.count(b'"content":') == 3  # the role chunk, one token alone, then four
        assert b"DONE" not in answer
        assert b'"finish_reason":null' in answer
        assert not answer.endswith(b"0\r\n\r\n")
        stats = provider.statistics()
        assert (stats.output_tokens.total, stats.in_flight, stats.failed) == (5, 0, 1)


async def test_a_truncated_stream_may_end_by_reset() -> None:
    """With `reset` the cut is a TCP reset."""
    rule = FaultRule(fault="truncate", after_tokens=5, reset=True)
    async with served(SimConfig(latency=FAST, faults=(rule,))) as (_, client), raw(client, post(stream=True)) as stream:
        with pytest.raises(trio.BrokenResourceError):
            await read_all(stream)


async def test_a_refused_connection_is_reset() -> None:
    """A connection that a rule refuses by its number is reset as soon as it is accepted; the next one works."""
    async with served(SimConfig(latency=FAST, faults=(FaultRule(fault="refuse", nth=(1,)),))) as (provider, client):
        async with raw(client) as stream:
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some(1)
        assert (await client.post("chat/completions", json=body())).status_code == 200
    assert provider.statistics().faults == {"refuse": 1}


async def test_in_an_outage_nobody_listens(mock_clock: trio.testing.MockClock) -> None:
    """An outage cuts standing connections and refuses new ones; when it ends the same address serves again."""
    outage = FaultRule(fault="refuse", start=10.0, end=20.0)
    # the clock stands still between the jumps, so an answer must take no time at all
    latency = SimLatency(first_token=0.0, input_rate=math.inf, output_rate=math.inf, spread=0.0)
    async with served(SimConfig(latency=latency, faults=(outage,))) as (_, client):
        async with raw(client, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") as stream:
            assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 200 ")  # accepted, not just queued for it
            mock_clock.jump(10.0)
            while await stream.receive_some(1000):
                pass
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(httpx2.ConnectError):
            await client.post("chat/completions", json=body())
        mock_clock.jump(10.0)
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.post("chat/completions", json=body())).status_code == 200


async def test_R04_an_error_inside_a_stream() -> None:
    """An error object comes as an event of a stream that began with 200, before DONE; unstreamed it is a status."""
    rule = FaultRule(fault="error_event", status=503, code="queue_full", after_tokens=3)
    async with served(SimConfig(latency=FAST, faults=(rule,))) as (_, client):
        streamed = await client.post("chat/completions", json=body(stream=True))
        whole = await client.post("chat/completions", json=body())
    assert streamed.status_code == 200
    assert chunks(streamed.text)[-1]["error"]["code"] == "queue_full"
    assert whole.status_code == 503


async def test_R10_heartbeats_are_comments() -> None:
    """Heartbeats come as comment lines before the first token."""
    latency = SimLatency(first_token=0.05, spread=0, output_rate=1e6)
    async with served(SimConfig(latency=latency, faults=(FaultRule(fault="heartbeats", seconds=0.01),))) as (_, client):
        answer = await client.post("chat/completions", json=body(stream=True))
    comments = [line for line in answer.text.split("\n\n") if line.startswith(":")]
    first_token = answer.text.index('"content":"On"')
    assert 1 <= len(comments) <= 5
    assert answer.text.rindex(comments[-1]) < first_token


async def test_bare_429_and_duplicate_usage() -> None:
    """A scripted 429 has no rate-limit headers at all; duplicate usage is two equal usage chunks."""
    rules = (FaultRule(fault="status", status=429, nth=(1,)), FaultRule(fault="duplicate_usage"))
    async with served(SimConfig(latency=FAST, limits=(SimLimit(kind="requests", amount=9),), faults=rules)) as (
        _,
        client,
    ):
        bare = await client.post("chat/completions", json=body())
        answer = await client.post("chat/completions", json=body(stream=True, stream_options={"include_usage": True}))
    assert bare.status_code == 429
    assert not [name for name in bare.headers if "ratelimit" in name or "retry" in name]
    usages = [c["usage"] for c in chunks(answer.text) if c.get("usage")]
    assert len(usages) == 2
    assert usages[0] == usages[1]


async def test_an_instant_provider_answers_over_http_too() -> None:
    """With `instant` a served answer takes no modelled time, streamed or not, and limits hold."""
    config = SimConfig(
        instant=True, latency=SimLatency(first_token=3600.0), limits=(SimLimit(kind="requests", amount=2),)
    )
    async with served(config) as (provider, client):
        whole = await client.post("chat/completions", json=body())
        streamed = await client.post("chat/completions", json=body(stream=True))
        assert (await client.post("chat/completions", json=body())).status_code == 429
    text = whole.json()["choices"][0]["message"]["content"]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks(streamed.text)) == text != ""
    assert provider.statistics().completed == 2


async def test_the_command_serves_until_cancelled() -> None:
    """`run_simulator` reports its URL, serves with a clock that starts at 0, and ends when cancelled."""
    told: list[str] = []
    rule = FaultRule(fault="status", status=500, start=0.0, end=3600.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_simulator, SimConfig(latency=FAST, faults=(rule,)), "127.0.0.1", 0, told.append)
        await until(lambda: bool(told))
        async with httpx2.AsyncClient(trust_env=False) as client:
            assert (await client.post(told[0] + "/chat/completions", json=body())).status_code == 500
        nursery.cancel_scope.cancel()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/v1", told[0])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.088, "88ms"), (0.9999, "1s"), (1.5, "1.5s"), (60, "1m0s"), (360, "6m0s"), (7205.25, "2h0m5.25s")],
)
def test_durations_as_openai_writes_them(seconds: float, text: str) -> None:
    """Reset times have the form of Go durations, rounded up to a millisecond."""
    assert duration(seconds) == text
