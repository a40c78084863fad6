"""Strange, slow and departing clients of the simulated provider, at the level of bytes."""

import pytest
import trio
import trio.testing

from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLength, SimLimit
from tests.backends.sim_client import body, post, raw, read_all, served, until

ENDLESS = SimLatency(first_token=0.0, input_rate=1e9, output_rate=200.0, spread=0.0, chunk_tokens=1)


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
            await trio.testing.wait_all_tasks_blocked(0.01)
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
