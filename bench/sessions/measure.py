"""Plays the same workloads under each policy at each load, side by side in as many processes as there are cores."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bench.policies import POLICIES, Policy, policy_named
from bench.sessions.play import run_sessions
from bench.sessions.report import Report, Row, Sample, missed, row, sample
from bench.sessions.workload import Setting, started
from bench.traces.base import Session
from bench.traces.sessions import read_sessions
from orchestrator.policy.fair_config import FairConfig

DEFAULT: Final = "headrace"
FIFO: Final = "fifo"
USUAL: Final = (FIFO, DEFAULT, "las", "vtc-runs", "round-robin-runs")
LOADS: Final = (0.8, 1.0, 1.3)


class Cell(Struct, frozen=True, kw_only=True):
    """One workload to play under one policy."""

    trace: Path
    longest_think: float | None
    sessions: int
    load: float
    setting: Setting
    policy: str
    seed: int


def named(name: str) -> Policy:
    """A policy of `bench.policies`, or `headrace@PUT_BACK`, the default with that `put_back`. Raises `ValueError`."""
    base, at, value = name.partition("@")
    if not at:
        return policy_named(name)
    if base != DEFAULT:
        raise ValueError(f"{name!r}: only {DEFAULT}@PUT_BACK takes a number")
    try:
        fair = FairConfig(put_back=float(value))
    except ValueError:
        raise ValueError(f"{name!r}: {value!r} is not a number") from None
    return replace(POLICIES[DEFAULT], name=name, fair=fair)


def measure(
    trace: Path,
    policies: Sequence[str] = USUAL,
    *,
    loads: Sequence[float] = LOADS,
    setting: Setting | None = None,
    sessions: int = 300,
    workloads: int = 3,
    seed: int = 0,
    longest_think: float | None = 60.0,
    workers: int | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> Report:
    """Every policy at every load, arrival order first in each; the result does not depend on `workers`.

    Raises `TraceError`.
    """
    setting = setting or Setting()
    names = list(dict.fromkeys((FIFO, *policies)))
    cells = [
        Cell(
            trace=trace,
            longest_think=longest_think,
            sessions=sessions,
            load=load,
            setting=setting,
            policy=policy,
            seed=seed + number,
        )
        for load in loads
        for policy in names
        for number in range(workloads)
    ]
    _read(trace, longest_think)
    workers = min(workers or os.cpu_count() or 1, len(cells))
    if workers == 1:
        rows = _rows(cells, map(play_cell, cells), workloads, on_row)
    else:
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            rows = _rows(cells, pool.map(play_cell, cells), workloads, on_row)
    return Report(setting=setting, seed=seed, longest_think=longest_think, rows=rows, missed=missed(rows, DEFAULT))


def play_cell(cell: Cell) -> Sample:
    """Plays one cell."""
    sessions = _read(cell.trace, cell.longest_think)
    workload = started(sessions, cell.sessions, cell.load, cell.setting, cell.seed)
    return sample(run_sessions(workload, named(cell.policy), cell.setting, seed=cell.seed))


@lru_cache(maxsize=2)
def _read(trace: Path, longest_think: float | None) -> tuple[Session, ...]:
    return tuple(read_sessions(trace, longest_think=longest_think))


def _rows(cells: Sequence[Cell], samples: Iterable[Sample], workloads: int, on_row: Callable[[Row], None]) -> list[Row]:
    rows: list[Row] = []
    coming: Iterator[Sample] = iter(samples)
    fifo: list[Sample] = []
    for place in range(0, len(cells), workloads):
        cell = cells[place]
        own = [next(coming) for _ in range(workloads)]
        if cell.policy == FIFO:
            fifo = own
        rows.append(row(cell.load, cell.policy, own, fifo))
        on_row(rows[-1])
    return rows
