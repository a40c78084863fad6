"""How long it takes until runs that were killed are driven again.

A process starts runs, each of which has made one round with a tool and then waits for a call to its model that never
answers; when all wait, it is killed by SIGKILL. Another process opens the same store, reads what is open (`recover`),
takes all of it up, and is done when every run's call has reached the model again. The starting of the same runs in the
first process, to the same point, is what it is held against: their first round is all that they have more to do there.

Each process is measured from within, without its start and imports. Time is the clock's.
"""

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec
import trio
from msgspec import Struct

from bench.durable_agents import CATALOGUE, SEEKER, TASK, AskingBackend, make_owner, router
from bench.processes import NotStarted
from orchestrator.garbage import tune_collector
from orchestrator.ledger import LedgerHook
from orchestrator.runs.config import RunsConfig
from orchestrator.runs.service import RunService
from orchestrator.store.sqlite import SqliteStore, open_sqlite
from orchestrator.views.runs import RunRequest

RUNS: Final = 10_000
PATIENCE: Final = 600.0
"""Seconds that one process may take."""


class Lived(Struct, frozen=True):
    """What one process says when all its runs wait: seconds to open the store, to recover, to drive all again."""

    runs: int
    opened: float
    recovered: float
    driven: float


class ResumeResult(Struct, frozen=True):
    """Medians of the repeats, in seconds; `resumed` is all three parts together.

    `ratio` is that to `started`: the time in which the same runs were started and came to the same point.
    """

    runs: int
    started: float
    opened: float
    recovered: float
    driven: float
    resumed: float
    resumed_per_1000: float
    ratio: float


def measure_resume(
    runs: int = RUNS, *, folder: Path, repeats: int = 3, on_progress: Callable[[str], None] = lambda line: None
) -> ResumeResult:
    """Kills and resumes so many runs, `repeats` times. Blocks; ends what it starts. Raises `NotStarted`."""
    pairs: list[tuple[Lived, Lived]] = []
    for repeat in range(repeats):
        with tempfile.TemporaryDirectory(prefix="headrace-bench-", dir=folder) as own:
            path = Path(own) / "store.sqlite"
            first = _life(path, runs, "start")
            second = _life(path, runs, "resume")
        if second.runs != runs:
            raise NotStarted(f"of {runs} runs that were killed {second.runs} were found open")
        pairs.append((first, second))
        on_progress(
            f"{runs:,} runs, repeat {repeat + 1}/{repeats}: started in {first.driven:.2f} s; killed; opened in "
            f"{second.opened:.2f} s, recovered in {second.recovered:.2f} s, driven again in {second.driven:.2f} s"
        )
    resumed = [second.opened + second.recovered + second.driven for _, second in pairs]
    middle = statistics.median(resumed)
    return ResumeResult(
        runs=runs,
        started=statistics.median(first.driven for first, _ in pairs),
        opened=statistics.median(second.opened for _, second in pairs),
        recovered=statistics.median(second.recovered for _, second in pairs),
        driven=statistics.median(second.driven for _, second in pairs),
        resumed=middle,
        resumed_per_1000=middle / runs * 1000,
        ratio=statistics.median(all_of / first.driven for all_of, (first, _) in zip(resumed, pairs, strict=True)),
    )


def _life(path: Path, runs: int, how: str) -> Lived:
    """One process from its start to SIGKILL, which comes when all its runs wait for their model."""
    command = [sys.executable, "-m", "bench.durable_resume", str(path), str(runs), how]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = _line(process.stdout, PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stdin.close()
            process.stdout.close()
        if not line:
            said.seek(0)
            raise NotStarted(f"a process of the benchmark ended before its time:\n{said.read().decode()[-2000:]}")
    return msgspec.json.decode(line, type=Lived)


def _line(stream: IO[bytes], seconds: float) -> bytes:
    """The first line that a process says; empty where it ends or is not heard in time."""

    async def read() -> bytes:
        line = b""
        with trio.move_on_after(seconds):
            async with trio.lowlevel.FdStream(os.dup(stream.fileno())) as pipe:
                while not line.endswith(b"\n") and (piece := await pipe.receive_some()):
                    line += piece
        return line if line.endswith(b"\n") else b""

    return trio.run(read)


async def _live(path: Path, runs: int, how: str) -> None:
    """Starts so many runs, or resumes those that there are; says how long it took; stays until it is killed."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_end_with_parent)
        began = time.perf_counter()
        async with open_sqlite(path) as store:
            opened = time.perf_counter() - began
            await _work(store, runs, opened, starts=how == "start")


async def _end_with_parent() -> None:
    """Ends this process at once when whoever started it has gone, however it went."""
    async with trio.lowlevel.FdStream(os.dup(0)) as never_written:
        await never_written.receive_some()
    os._exit(1)


async def _work(store: SqliteStore, runs: int, opened: float, *, starts: bool) -> None:
    backend = AskingBackend(holds=1)
    owner = make_owner(backend, LedgerHook(store.ledger, wall=time.time), concurrency=runs)
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        config = RunsConfig(max_live=runs, per_tenant=runs, in_all=runs)
        service = RunService(nursery, models=router(owner), catalogue=lambda: CATALOGUE, store=store, config=config)
        tune_collector()
        began = time.perf_counter()
        found = await service.recover()
        recovered = time.perf_counter() - began
        expected = runs if starts else found
        began = time.perf_counter()
        if starts:
            async with trio.open_nursery() as starting:
                for number in range(runs):
                    starting.start_soon(service.start, RunRequest(task=TASK, who=SEEKER, run=f"run-{number}"))
        else:
            await service.resume_rest()
        await backend.until_held(expected)
        lived = Lived(expected, opened, recovered, time.perf_counter() - began)
        print(msgspec.json.encode(lived).decode(), flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(_live, Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
