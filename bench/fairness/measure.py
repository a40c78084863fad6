"""Runs suites under policies, many replicates of each, and takes medians."""

import math
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from bench.fairness.metric import Outcome, backlogged, unevenness
from bench.fairness.suites import SYNTHETIC, Suite, real
from bench.fairness.systems import run
from bench.traces.base import TraceCall
from bench.traces.vtc import read_vtc

REAL = "real"


class Cell(Struct, frozen=True, kw_only=True):
    """One replicate to run. `trace` is the file of the real suite."""

    suite: str
    policy: str
    seed: int
    number: int
    trace: Path | None = None


class Sample(Struct, frozen=True, kw_only=True):
    """What one replicate gave; the fields are those of `Row`."""

    max: float
    mean: float
    variance: float
    tokens_per_second: float
    backlogged_max: float
    backlogged_mean: float
    aborted: int
    first_token: dict[str, float]


class Row(Struct, frozen=True, kw_only=True):
    """A suite under a policy: medians over the replicates.

    `max`, `mean` and `variance` are the paper's service difference in service per second, `lowest_max` and
    `highest_max` the range of the first over the replicates, `backlogged_*` the same where only ticks count at which
    all clients were backlogged (None where there is none). `first_token` has the mean seconds to the first token of
    each client where there are at most eight; `aborted` counts requests turned away.
    """

    suite: str
    policy: str
    max: float
    mean: float
    variance: float
    tokens_per_second: float
    lowest_max: float
    highest_max: float
    backlogged_max: float | None
    backlogged_mean: float | None
    aborted: float
    first_token: dict[str, float]
    replicates: int


def suites(trace: Path | None) -> dict[str, Suite]:
    """The suites by name; the real one where its trace is given. Raises `TraceError`."""
    found = {suite.name: suite for suite in SYNTHETIC}
    if trace is not None:
        found = {REAL: real(_read(trace)), **found}
    return found


@lru_cache(maxsize=4)
def _read(trace: Path) -> tuple[TraceCall, ...]:
    return tuple(read_vtc(trace))


def sample(cell: Cell) -> Sample:
    """Runs one replicate."""
    suite = suites(cell.trace)[cell.suite]
    result = run(cell.policy, suite.replicate(cell.seed, cell.number), cell.seed + cell.number)
    whole = unevenness(result.outcomes)
    both = unevenness(result.outcomes, backlogged(result.outcomes))
    return Sample(
        max=whole.max,
        mean=whole.mean,
        variance=whole.variance,
        tokens_per_second=result.tokens_per_second,
        backlogged_max=both.max,
        backlogged_mean=both.mean,
        aborted=sum(not outcome.served for outcome in result.outcomes),
        first_token=_first_tokens(result.outcomes),
    )


def measure(
    names: Sequence[str],
    policies: Sequence[str],
    *,
    trace: Path | None,
    replicates: int,
    seed: int = 0,
    workers: int | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Every suite under every policy, in that order. The result does not depend on the number of `workers`."""
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        return _collect(names, policies, trace, replicates, seed, lambda cells: map(sample, cells), on_row)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return _collect(names, policies, trace, replicates, seed, lambda cells: pool.map(sample, cells), on_row)


def _collect(
    names: Sequence[str],
    policies: Sequence[str],
    trace: Path | None,
    replicates: int,
    seed: int,
    run_all: Callable[[Sequence[Cell]], Iterable[Sample]],
    on_row: Callable[[Row], None],
) -> list[Row]:
    rows = []
    for name in names:
        for policy in policies:
            cells = [
                Cell(suite=name, policy=policy, seed=seed, number=number, trace=trace if name == REAL else None)
                for number in range(replicates)
            ]
            rows.append(_row(name, policy, list(run_all(cells))))
            on_row(rows[-1])
    return rows


def _row(suite: str, policy: str, samples: Sequence[Sample]) -> Row:
    def middle(of: Callable[[Sample], float]) -> float:
        return statistics.median(map(of, samples))

    def middle_of_some(of: Callable[[Sample], float]) -> float | None:
        some = [value for value in map(of, samples) if not math.isnan(value)]
        return statistics.median(some) if some else None

    return Row(
        suite=suite,
        policy=policy,
        max=middle(lambda one: one.max),
        mean=middle(lambda one: one.mean),
        variance=middle(lambda one: one.variance),
        tokens_per_second=middle(lambda one: one.tokens_per_second),
        lowest_max=min(one.max for one in samples),
        highest_max=max(one.max for one in samples),
        backlogged_max=middle_of_some(lambda one: one.backlogged_max),
        backlogged_mean=middle_of_some(lambda one: one.backlogged_mean),
        aborted=middle(lambda one: one.aborted),
        first_token={
            client: statistics.median(one.first_token[client] for one in samples)
            for client in sorted(set.intersection(*(set(one.first_token) for one in samples)))
        },
        replicates=len(samples),
    )


def _first_tokens(outcomes: Sequence[Outcome]) -> dict[str, float]:
    waits: dict[str, list[float]] = {}
    for outcome in outcomes:
        if outcome.served:
            waits.setdefault(outcome.client, []).append(outcome.first - outcome.at)
    return {client: statistics.fmean(own) for client, own in waits.items()} if len(waits) <= _FEW else {}


_FEW = 8
