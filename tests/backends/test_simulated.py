"""The simulated backend in-process, under a virtual clock."""

import math

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agents.errors import Throttled
from agents.messages import Message, ModelReply, ModelRequest, ToolSpec
from orchestrator.backends.simulated.backend import (
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from tests.backends.in_process import STEADY, send
from tests.backends.recorder import Recorder, ask

ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
HUNDRED = SimLength(tokens=100, spread=0.0)


async def test_tokens_come_at_the_modelled_speed(autojump_clock: MockClock) -> None:
    """The first token comes alone after its delay, the rest in chunks at the call's rate."""
    recorder, start = Recorder(), trio.current_time()
    reply = await send(SimProvider(SimConfig(latency=STEADY)), ask(max_tokens=11), recorder)
    times = [round(at - start, 6) for at, _ in recorder.batches]
    assert times == [1.0, 1.5, 2.0]
    assert recorder.text == reply.message.content
    assert recorder.order == ["connected", "written", "headers", *["deltas"] * 3, "usage"]
    assert recorder.usages == [reply.usage]
    assert reply.usage.output == 11


async def test_input_takes_time_and_cached_input_does_not(autojump_clock: MockClock) -> None:
    """Prefill costs uncached input at the input rate; a repeated prefix is reported as cached and costs nothing."""
    config = SimConfig(latency=SimLatency(first_token=0, input_rate=10, spread=0), prefix_cache=10)
    provider, firsts = SimProvider(config), []
    for _ in range(2):
        recorder, start = Recorder(), trio.current_time()
        reply = await send(provider, ask("word " * 200), recorder)
        firsts.append(recorder.batches[0][0] - start)
        assert reply.usage.input is not None
        assert firsts[-1] == pytest.approx(reply.usage.input / 10)
    assert firsts[0] > 20
    assert reply.usage.cached is not None
    assert reply.usage.cached > 200


async def test_calls_share_the_engine(autojump_clock: MockClock) -> None:
    """Four calls at once take four times as long on an engine that is as fast as one of them."""
    latency = SimLatency(first_token=0, input_rate=math.inf, output_rate=10, engine_rate=10, spread=0)
    took = []
    for width in (1, 4):
        provider, start = SimProvider(SimConfig(latency=latency, length=HUNDRED)), trio.current_time()
        async with trio.open_nursery() as nursery:
            for i in range(width):
                nursery.start_soon(send, provider, ask(f"Question {i}"))
        took.append(trio.current_time() - start)
        assert provider.statistics().peak_in_flight == width
    assert took[1] / took[0] == pytest.approx(4, rel=0.05)


async def test_interleaving_changes_no_answer(autojump_clock: MockClock) -> None:
    """The same questions get the same answers one after the other and all at once."""
    questions = [ask(f"Question {i}") for i in range(20)]
    one_by_one = [await send(SimProvider(SimConfig(seed=3)), q) for q in questions]
    together: dict[int, ModelReply] = {}
    provider = SimProvider(SimConfig(seed=3))

    async def one(i: int) -> None:
        await trio.sleep((i * 7) % 5)
        together[i] = await send(provider, questions[i])

    async with trio.open_nursery() as nursery:
        for i in range(20):
            nursery.start_soon(one, i)
    assert [together[i] for i in range(20)] == one_by_one


async def test_endpoints_share_one_key(autojump_clock: MockClock) -> None:
    """Two backends on one provider use up one limit."""
    provider = SimProvider(SimConfig(limits=(SimLimit(kind="requests", amount=2),)))
    first, second = SimulatedBackend("a", provider), SimulatedBackend("b", provider)
    await first.connect().send(ask(), Recorder())
    await second.connect().send(ask(), Recorder())
    with pytest.raises(Throttled):
        await first.connect().send(ask(), Recorder())


async def test_cancelling_frees_the_slot_and_counts_what_was_produced(autojump_clock: MockClock) -> None:
    """A call cancelled midway is settled with the tokens it had produced, at once, and nothing stays in flight."""
    limit = SimLimit(kind="output_tokens", amount=1000)
    provider = SimProvider(SimConfig(limits=(limit,), latency=STEADY, length=HUNDRED, max_concurrency=1))
    connection = SimulatedBackend("sim", provider).connect()
    recorder = Recorder()
    with trio.move_on_after(3.05):
        await connection.send(ask(max_tokens=500), recorder)
    stats = provider.statistics()
    assert (stats.in_flight, stats.aborted, stats.completed) == (0, 1, 0)
    produced = 1 + 5 * (len(recorder.batches) - 1)
    assert produced == 21
    assert provider.readings()[0].remaining == 1000 - produced
    await connection.send(ask(max_tokens=10), Recorder())


@pytest.mark.parametrize("cancel_at", [0.0, 0.05, 0.15, 0.3, 0.9, 1.4, 2.0, 5.0])
async def test_cancelling_at_any_point_leaves_nothing(autojump_clock: MockClock, cancel_at: float) -> None:
    """Cancelled while arriving, waiting for headers, in prefill or streaming, every counter returns to zero."""
    latency = SimLatency(first_token=1, arrival=(0.1, 0.1), headers=(0.5, 0.5), spread=0)
    limits = (SimLimit(kind="total_tokens", amount=5000), SimLimit(kind="requests", amount=10))
    provider = SimProvider(SimConfig(latency=latency, length=HUNDRED, limits=limits))
    with trio.move_on_after(cancel_at):
        await send(provider)
    stats = provider.statistics()
    assert stats.in_flight == 0
    assert stats.completed + stats.aborted == stats.admitted
    await trio.sleep(60)
    assert [reading.remaining for reading in provider.readings()] == [5000, 10]


async def test_a_slow_reader_stops_the_provider(autojump_clock: MockClock) -> None:
    """While the reader waits nothing more is produced; afterwards the answer goes on at its own speed, not faster."""
    gate = trio.Event()
    provider = SimProvider(SimConfig(latency=STEADY, length=HUNDRED))
    recorder = Recorder(on_deltas=gate.wait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, provider, ask(), recorder)
        await trio.sleep(50)
        await wait_all_tasks_blocked()
        assert len(recorder.batches) == 1
        assert provider.statistics().output_tokens.total == 1
        gate.set()
    assert recorder.batches[1][0] - recorder.batches[0][0] > 49
    gaps = [b[0] - a[0] for a, b in zip(recorder.batches[1:], recorder.batches[2:], strict=False)]
    assert min(gaps[:-1]) == pytest.approx(0.5)


async def test_a_connection_sends_one_request_at_a_time(autojump_clock: MockClock) -> None:
    """A second send on a busy connection is the author's mistake and says so."""
    connection = SimulatedBackend("sim").connect()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.send, ask(), Recorder())
        await wait_all_tasks_blocked()
        with pytest.raises(trio.BusyResourceError):
            await connection.send(ask(), Recorder())


async def test_the_provider_counts_between_write_and_headers(autojump_clock: MockClock) -> None:
    """With an arrival range the instant of counting differs from call to call, within the range."""
    latency = SimLatency(arrival=(0.0, 1.0), headers=(0.1, 0.1), first_token=0)
    provider = SimProvider(SimConfig(latency=latency, limits=(SimLimit(kind="requests", amount=100),)))
    counted = set()
    for _ in range(20):
        start = trio.current_time()
        recorder = Recorder()
        await send(provider, ask(max_tokens=1), recorder)
        reset = recorder.readings[0].reset
        assert reset is not None
        at_headers = recorder.batches[0][0]
        counted.add(round(at_headers - (60 - reset) - start, 3))
    assert len(counted) > 10
    assert all(-0.01 <= at <= 1.01 for at in counted)


async def test_instant_answers_take_no_time_and_are_enforced(autojump_clock: MockClock) -> None:
    """An instant provider reports like any other, at once, and keeps its limits."""
    provider = SimProvider(SimConfig(instant=True, limits=(SimLimit(kind="requests", amount=1),)))
    start, recorder = trio.current_time(), Recorder()
    reply = await send(provider, ask(), recorder)
    assert trio.current_time() == start
    assert recorder.order == ["connected", "written", "headers", "deltas", "usage"]
    assert recorder.text == reply.message.content
    with pytest.raises(Throttled) as caught:
        await send(provider)
    assert caught.value.exhausted == {"requests"}
    assert provider.statistics().in_flight == 0


async def test_tokens_per_minute(autojump_clock: MockClock) -> None:
    """Statistics give input and output by minute, and the repr tells the state."""
    provider = SimProvider(SimConfig(latency=STEADY, length=HUNDRED))
    first = await send(provider)
    await trio.sleep(120 - trio.current_time())
    await send(provider, ask("Another"))
    minutes = provider.statistics().tokens_per_minute()
    assert minutes[0] == (first.usage.input, 100)
    assert minutes[2][1] == 100
    assert repr(provider) == "<SimProvider 2 admitted, 0 refused, 0 in flight, peak 1>"


async def test_tool_calls_arrive_in_pieces_and_whole(autojump_clock: MockClock) -> None:
    """The streamed pieces of a tool call add up to the one in the reply."""
    recorder = Recorder()
    reply = await send(SimProvider(), ModelRequest("sim", (Message("user", "1?"),), tools=(ADD,)), recorder)
    assert recorder.calls == reply.message.tool_calls
    assert reply.finish_reason == "tool_calls"
