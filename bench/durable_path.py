"""What the durable log costs an agent: the same agents over a store in memory and over one on disk.

Agents ask for a tool a few times and then answer; each model call goes through a real `Owner` to a model that answers
at once, so what is measured is everything but the model. Three lines, in turns in the same process: agents alone with a
journal in memory, a `RunService` over a store in memory, and a `RunService` over a store in a file with the ledger of
calls. All agents are started together, and a line's time ends when all have ended and the ledger is on disk.

Known limits: the model takes no time at all, so the disk has nothing to hide behind; with a real model the durable log
costs the same CPU time and next to no time of the clock.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from agents.events import Event
from agents.journal import MemoryJournal
from agents.loop import AgentRun
from agents.port import Flow, Journal
from bench.durable_agents import AGENT, CALLS, CATALOGUE, SEEKER, TASK, AskingBackend, make_owner, router
from orchestrator.garbage import tune_collector
from orchestrator.ledger import LedgerHook
from orchestrator.runs.config import RunsConfig
from orchestrator.runs.service import RunService
from orchestrator.store.base import Store
from orchestrator.store.memory import MemoryStore
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.runs import RunRequest

AGENTS: Final = (300, 2_000)


class Cost(Struct, frozen=True):
    """What one model call of an agent took, with all that belongs to it, in microseconds."""

    wall_us: float
    cpu_us: float


class PathResult(Struct, frozen=True):
    """One number of agents at once, medians of the repeats. `calls`, `events` and `appends` are those of all agents.

    Ratios are of the store on disk to the one in memory, in the same repeat.
    """

    agents: int
    calls: int
    events: int
    appends: int
    bare: Cost
    memory: Cost
    durable: Cost
    wall_ratio: float
    cpu_ratio: float


class Counting:
    """Journals that count what goes through them."""

    def __init__(self) -> None:
        self.events = 0
        self.appends = 0

    def journal(self, journal: Journal) -> Journal:
        """A journal before that one."""
        return _Counted(self, journal)


class _Counted:
    def __init__(self, counting: Counting, journal: Journal) -> None:
        self._counting = counting
        self._journal = journal

    async def append(self, events: Sequence[Event]) -> None:
        self._counting.events += len(events)
        self._counting.appends += 1
        await self._journal.append(events)


def measure_path(
    sizes: Sequence[int] = AGENTS,
    *,
    folder: Path,
    repeats: int = 7,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[PathResult]:
    """Every number of agents. Files go below `folder` and are removed. Blocks; bounded in count, no sockets."""
    thresholds = gc.get_threshold()
    try:
        return [_measure_size(agents, folder, repeats, on_progress) for agents in sizes]
    finally:
        gc.set_threshold(*thresholds)


def _measure_size(agents: int, folder: Path, repeats: int, on_progress: Callable[[str], None]) -> PathResult:
    lines: dict[str, list[Cost]] = {"bare": [], "memory": [], "durable": []}
    counting = Counting()
    trio.run(partial(_in_memory, agents, folder, counting))
    for repeat in range(repeats):
        for name, line in (("bare", _bare), ("memory", _in_memory), ("durable", _on_disk)):
            lines[name].append(_timed(line, agents, folder))
        last = {name: costs[-1] for name, costs in lines.items()}
        told = ", ".join(f"{name} {cost.wall_us:.0f} ({cost.cpu_us:.0f} of CPU)" for name, cost in last.items())
        on_progress(f"{agents:,} agents, repeat {repeat + 1}/{repeats}, us per model call: {told}")
    pairs = list(zip(lines["durable"], lines["memory"], strict=True))
    return PathResult(
        agents=agents,
        calls=agents * CALLS,
        events=counting.events,
        appends=counting.appends,
        bare=_median(lines["bare"]),
        memory=_median(lines["memory"]),
        durable=_median(lines["durable"]),
        wall_ratio=statistics.median(durable.wall_us / memory.wall_us for durable, memory in pairs),
        cpu_ratio=statistics.median(durable.cpu_us / memory.cpu_us for durable, memory in pairs),
    )


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(statistics.median(cost.wall_us for cost in costs), statistics.median(cost.cpu_us for cost in costs))


class _Watch:
    """Takes the time of one line: from its making to `stop`."""

    def __init__(self) -> None:
        tune_collector()
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        """Seconds of the clock and of CPU, of all threads."""
        passed = time.perf_counter() - self._wall, time.process_time() - self._cpu
        gc.unfreeze()
        return passed


Line = Callable[[int, Path, Counting], Awaitable[tuple[float, float]]]


def _timed(line: Line, agents: int, folder: Path) -> Cost:
    gc.collect()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=folder) as own:
        wall, cpu = trio.run(line, agents, Path(own), Counting())
    return Cost(wall / (agents * CALLS) * 1e6, cpu / (agents * CALLS) * 1e6)


async def _bare(agents: int, folder: Path, counting: Counting) -> tuple[float, float]:
    owner = make_owner(AskingBackend())
    models = router(owner)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        watch = _Watch()

        async def work(number: int) -> None:
            flow = Flow("default", "", f"run-{number}")
            run = AgentRun(AGENT, TASK, model=models.port(flow), journal=MemoryJournal(), run=flow.run, wall=time.time)
            await run.create()
            await run.drive()
            models.ended(flow)

        async with trio.open_nursery() as working:
            for number in range(agents):
                working.start_soon(work, number)
        passed = watch.stop()
        nursery.cancel_scope.cancel()
    return passed


async def _in_memory(agents: int, folder: Path, counting: Counting) -> tuple[float, float]:
    return await _served(MemoryStore(), agents, counting, keeps_books=False)


async def _on_disk(agents: int, folder: Path, counting: Counting) -> tuple[float, float]:
    async with open_sqlite(folder / "store.sqlite") as store:
        return await _served(store, agents, counting, keeps_books=True)


async def _served(store: Store, agents: int, counting: Counting, *, keeps_books: bool) -> tuple[float, float]:
    hooks = [LedgerHook(store.ledger, wall=time.time)] if keeps_books else []
    owner = make_owner(AskingBackend(), *hooks)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        runs = RunService(
            nursery,
            models=router(owner),
            catalogue=lambda: CATALOGUE,
            store=store,
            config=RunsConfig(keep_ended=0),
            journal=counting.journal,
        )
        watch = _Watch()
        async with trio.open_nursery() as starting:
            for number in range(agents):
                starting.start_soon(runs.start, RunRequest(task=TASK, who=SEEKER, run=f"run-{number}"))
        await runs.drain()
        await store.ledger.flush()
        passed = watch.stop()
        await runs.end_all()
        nursery.cancel_scope.cancel()
    return passed
