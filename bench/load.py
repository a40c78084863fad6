"""What the whole owner path costs, as a ratio against the least that a message exchange costs on the same machine.

The baseline is a bare memory-channel round trip: an agent makes a one-shot channel, sends it with its request over one
bounded channel to one task, and waits for the answer that task puts into it at once. The owner path is the same
exchange through a real `Owner`: admission, hierarchy, limits, prediction, a slot, settlement and instruments, against a
backend that answers at once. Both run in the same process, in turns, with the same garbage collector settings (those
of `orchestrator.garbage`). Times are CPU time, as a shared machine takes wall time away at random and neither side ever
waits; a rate is the median of its repeats, and only the ratio is meant to be compared between machines.

Memory per agent is counted by `tracemalloc` in a pass of its own, which is not timed: all agents hold one queued call.
"""

import gc
import math
import statistics
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence

import structlog
import trio
from msgspec import Struct
from trio.testing import wait_all_tasks_blocked

from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.owner_port import OwnerPort
from agents.port import Flow
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.garbage import tune_collector
from orchestrator.instruments.log import LogHook
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Hook

IN_FLIGHT = 64
JOBS_PER_TENANT = 4
SIZES = ((100, 10), (10_000, 100), (10_000, 1_000))
AMPLE = 1e12
"""A limit that is counted and never reached."""


class LoadResult(Struct, frozen=True):
    """One size. `ratio` is seconds per call over seconds per bare round trip; rates are per second of CPU time."""

    agents: int
    tenants: int
    calls_per_second: float
    bare_per_second: float
    ratio: float
    bytes_per_agent: int


class LoadReport(Struct, frozen=True):
    """All sizes, and how the ratio grows from the first to the last."""

    results: list[LoadResult]
    growth: float


class InstantBackend:
    """Answers at once, with usage and, like the baseline, without a checkpoint. A `gate` holds all answers back."""

    name = "instant"

    def __init__(self, gate: trio.Event | None = None) -> None:
        self.gate = gate

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="instant")

    def connect(self) -> Connection:
        return _InstantConnection(self.gate)


class _InstantConnection:
    def __init__(self, gate: trio.Event | None) -> None:
        self._gate = gate
        self._reply = ModelReply(Message("assistant", "done"), "stop", Usage(input=40, output=1))

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        progress.connected()
        progress.written()
        if self._gate is not None:
            await self._gate.wait()
        progress.headers(())
        return self._reply

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def measure(
    sizes: Sequence[tuple[int, int]] = SIZES,
    *,
    calls: int = 40_000,
    repeats: int = 5,
    on_progress: Callable[[str], None] = lambda line: None,
) -> LoadReport:
    """Runs every size with about `calls` calls per repeat. Blocks; bounded in count, no sockets, no threads."""
    thresholds = gc.get_threshold()
    try:
        results = [_measure_size(agents, tenants, calls, repeats, on_progress) for agents, tenants in sizes]
    finally:
        gc.set_threshold(*thresholds)
    return LoadReport(results, growth=results[-1].ratio / results[0].ratio)


def _measure_size(
    agents: int, tenants: int, calls: int, repeats: int, on_progress: Callable[[str], None]
) -> LoadResult:
    rounds = max(1, math.ceil(calls / agents))
    bare: list[float] = []
    owned: list[float] = []
    for repeat in range(repeats):
        bare.append(_timed(_bare_round_trips, agents, tenants, rounds))
        owned.append(_timed(_owner_calls, agents, tenants, rounds))
        on_progress(
            f"{agents:,} agents, {tenants:,} tenants, repeat {repeat + 1}/{repeats}: "
            f"{bare[-1] * 1e6:.1f} us bare, {owned[-1] * 1e6:.1f} us through the owner"
        )
    # Neighbouring runs share the machine's mood, so each owner run is held against the bare run beside it.
    ratio = statistics.median(o / b for o, b in zip(owned, bare, strict=True))
    return LoadResult(
        agents=agents,
        tenants=tenants,
        calls_per_second=1.0 / statistics.median(owned),
        bare_per_second=1.0 / statistics.median(bare),
        ratio=ratio,
        bytes_per_agent=_bytes_per_agent(agents, tenants),
    )


def _timed(scenario: Callable[[int, int, int], Awaitable[float]], agents: int, tenants: int, rounds: int) -> float:
    """Seconds per call of one run of `scenario`."""
    gc.collect()
    return trio.run(scenario, agents, tenants, rounds) / (agents * rounds)


async def _bare_round_trips(agents: int, tenants: int, rounds: int) -> float:
    send, receive = trio.open_memory_channel[tuple[ModelRequest, trio.MemorySendChannel[ModelReply]]](IN_FLIGHT)
    request = new_request(0)
    reply = ModelReply(Message("assistant", "done"), "stop", Usage(input=40, output=1))
    start = trio.Event()
    # naming the type at each opening would cost as much as the channel
    open_answer = trio.open_memory_channel[ModelReply]

    async def agent() -> None:
        await start.wait()
        for _ in range(rounds):
            answer, answered = open_answer(1)
            await send.send((request, answer))
            await answered.receive()

    async def respond() -> None:
        async for _, answer in receive:
            answer.send_nowait(reply)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(respond)
        return await run_agents([agent] * agents, start, nursery)


async def _owner_calls(agents: int, tenants: int, rounds: int) -> float:
    start = trio.Event()
    owner = new_owner(tenants, InstantBackend())

    def agent(number: int) -> Callable[[], Awaitable[None]]:
        port, request = new_port(owner, number, tenants), new_request(number)

        async def work() -> None:
            await start.wait()
            for _ in range(rounds):
                await port.call(request)

        return work

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        return await run_agents([agent(number) for number in range(agents)], start, nursery)


async def run_agents(
    agents: Sequence[Callable[[], Awaitable[None]]], start: trio.Event, nursery: trio.Nursery
) -> float:
    """Starts all agents together and returns the seconds until the last one is done; then ends the nursery."""
    async with trio.open_nursery() as working:
        for agent in agents:
            working.start_soon(agent)
        await wait_all_tasks_blocked()
        tune_collector()
        start.set()
        began = time.process_time()
    seconds = time.process_time() - began
    gc.unfreeze()
    nursery.cancel_scope.cancel()
    return seconds


def _bytes_per_agent(agents: int, tenants: int) -> int:
    """Traced memory of an agent's task, its port and its queued call, averaged over all."""
    measured = 0

    async def scenario() -> None:
        nonlocal measured
        gate = trio.Event()
        owner = new_owner(tenants, InstantBackend(gate))
        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            await wait_all_tasks_blocked()
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for number in range(agents):
                nursery.start_soon(new_port(owner, number, tenants).call, new_request(number))
            await wait_all_tasks_blocked()
            gc.collect()
            measured = (tracemalloc.get_traced_memory()[0] - before) // agents
            gate.set()
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    tracemalloc.start()
    try:
        trio.run(scenario)
    finally:
        tracemalloc.stop()
    return measured


def new_owner(tenants: int, backend: InstantBackend, more: Sequence[Hook] = ()) -> Owner:
    """An owner as a daemon would run it: endpoint and tenant limits, weights, both hooks, and `more` of them."""
    limits = (LimitSpec("requests", AMPLE), LimitSpec("total_tokens", AMPLE))
    configured = {f"tenant-{n}": TenantConfig(weight=1.0 + n % 3, limits=limits) for n in range(tenants)}
    endpoint = Endpoint("one", backend, limits=limits, concurrency=ConcurrencyConfig(fixed=IN_FLIGHT))
    metrics = PrometheusHook()
    return Owner(
        OwnerConfig("bench", DispatchConfig(tenants=configured)),
        [endpoint],
        hooks=[metrics, LogHook(structlog.get_logger()), *more],
        on_turn=metrics.on_turn,
    )


def new_port(owner: Owner, number: int, tenants: int) -> OwnerPort:
    """The port of agent `number`."""
    tenant = number % tenants
    job = number // tenants % JOBS_PER_TENANT
    return OwnerPort(owner.inbox, Flow(f"tenant-{tenant}", f"job-{job}", f"run-{number}"))


def new_request(number: int) -> ModelRequest:
    """What agent `number` asks."""
    text = f"Agent {number}: say in one word whether the sentence before this one is about a number or about a name."
    return ModelRequest("instant", (Message("system", "Answer in one word."), Message("user", text)), max_tokens=16)
