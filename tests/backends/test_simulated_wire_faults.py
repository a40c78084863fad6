"""Faults of the simulated provider as bytes on a socket; adapters are held against them elsewhere."""

import math

import httpx2
import pytest
import trio
import trio.testing

from orchestrator.backends.simulated.backend import FaultRule, SimConfig, SimLatency, SimLimit
from tests.backends.sim_client import FAST, body, chunks, post, raw, read_all, served


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
