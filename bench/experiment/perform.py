"""Performs the cells of an experiment that have no result yet, and writes each down as it ends."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from bench.experiment.cells import Cell
from bench.experiment.command import CommandRunner
from bench.experiment.function import FunctionRunner
from bench.experiment.log import Result, ResultLog
from bench.experiment.outcome import Outcome
from bench.experiment.remote import DaemonRunner
from bench.experiment.spec import Spec
from bench.virtual import in_virtual_time

Tell = Callable[[Result], None]


class Runner(Protocol):
    """One way to run a cell."""

    def check(self, cell: Cell) -> None:
        """Raises `SpecError` where it could not be run."""

    async def run(self, cell: Cell) -> Outcome:
        """Runs it. Only cancellation leaves it."""


def runner_of(spec: Spec, folder: Path) -> Runner:
    """What runs the cells of a file in `folder`. `SpecError` where there is no such function."""
    if spec.call:
        return FunctionRunner(spec.call, folder, threads=spec.clock == "real")
    if spec.daemon is not None:
        return DaemonRunner(spec.daemon)
    return CommandRunner(spec.command, folder)


def perform(spec: Spec, runner: Runner, planned: Sequence[Cell], log: ResultLog, tell: Tell) -> None:
    """Runs what has no result in the log, in order, `at_once` together; in virtual time one after another."""
    open_cells = [cell for cell in planned if cell.key not in log.results]
    if spec.clock == "virtual":
        for cell in open_cells:
            outcome = in_virtual_time(lambda cell=cell: _timed(runner, cell, spec.timeout), seed=cell.seed)  # type: ignore[misc]
            _write(log, cell, outcome, 0.0, tell)
    elif open_cells:
        trio.run(_perform, spec, runner, open_cells, log, tell)


async def _perform(spec: Spec, runner: Runner, open_cells: Sequence[Cell], log: ResultLog, tell: Tell) -> None:
    waiting = iter(open_cells)

    async def work() -> None:
        for cell in waiting:
            began = time.time()
            outcome = await _timed(runner, cell, spec.timeout)
            _write(log, cell, outcome, began, tell)

    async with trio.open_nursery() as nursery:
        for _ in range(min(spec.at_once, len(open_cells))):
            nursery.start_soon(work)


async def _timed(runner: Runner, cell: Cell, timeout: float) -> Outcome:
    began = trio.current_time()
    with trio.move_on_after(timeout):
        outcome = await runner.run(cell)
        if outcome.state == "done" and "seconds" not in outcome.numbers:
            seconds = trio.current_time() - began
            outcome = msgspec.structs.replace(outcome, numbers={**outcome.numbers, "seconds": seconds})
        return outcome
    return Outcome(state="timeout", why=f"it had not ended after {timeout:g} s")


def _write(log: ResultLog, cell: Cell, outcome: Outcome, began: float, tell: Tell) -> None:
    result = Result(
        task=cell.task,
        system=cell.system,
        model=cell.model,
        environment=cell.environment,
        repeat=cell.repeat,
        seed=cell.seed,
        cell=log.print_of(cell),
        state=outcome.state,
        success=outcome.success,
        numbers=outcome.numbers,
        why=outcome.why,
        at=began,
    )
    log.append(result)
    tell(result)
