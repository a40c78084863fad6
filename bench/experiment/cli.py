"""`headrace-bench experiment`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from bench.experiment.analyse import Report, analyse
from bench.experiment.calibrate import EXPERIMENTS, built_in, calibrate
from bench.experiment.cells import cells
from bench.experiment.log import Result, ResultLog
from bench.experiment.perform import perform, runner_of
from bench.experiment.plot import plot
from bench.experiment.spec import SpecError, read_spec
from bench.experiment.table import calibration_table, notes, tables
from bench.processes import ended_by_signals
from orchestrator.groups import only

_TOLD_EVERY: Final = 20
_INTERRUPTED: Final = 130


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        epilog="""\b
Examples:
  headrace-bench experiment examples/experiment.toml
  headrace-bench experiment prompts.toml --json > prompts.json
  headrace-bench experiment prompts.toml --calibrate --difference 0.1   what it could find, before it is paid for
  headrace-bench experiment --calibrate
"""
    )(experiment)


def experiment(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The experiment, in TOML; --calibrate needs none.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Where results are added, and taken up again.  [default: FILE with .log.jsonl]")
    ] = None,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Run nothing: report on what the log holds.")
    ] = False,
    plot_to: Annotated[
        Path | None, typer.Option("--plot", help="Write a picture of the differences, for example out.svg.")
    ] = None,
    calibration: Annotated[
        bool, typer.Option("--calibrate", help="Instead: judge simulated experiments of this design.")
    ] = False,
    experiments: Annotated[
        int, typer.Option(min=10, max=100_000, help="--calibrate: how many, for each truth.")
    ] = EXPERIMENTS,
    difference: Annotated[
        float, typer.Option(min=0.001, max=0.9, help="--calibrate: the true difference whose power is told.")
    ] = 0.2,
    seed: Annotated[int, typer.Option(help="--calibrate: the same simulations for the same seed.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Which system, model or environment does better: every cell several times, with a verdict that means something.

    Arms are interleaved, results are kept as they come, and an interrupted experiment goes on where it was. A verdict
    is better, worse, equivalent or noise, or refused where there is too little to tell.

    Exit codes: 0 reported; 1 cells are broken, and the same again repeats them; 2 wrong usage, file or log; 130
    interrupted.
    """
    note = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        note.print(line, style="dim", markup=False)

    try:
        if calibration:
            spec = read_spec(file) if file else built_in()
            found = calibrate(spec, experiments=experiments, difference=difference, seed=seed, tell=say)
            _print(found, json, lambda console: console.print(calibration_table(found)))
            return
        if file is None:
            raise typer.BadParameter("a FILE says what the experiment is; only --calibrate needs none")
        with ended_by_signals():
            report = _experiment(file, log or file.with_suffix(".log.jsonl"), report_only, say)
        _print(report, json, lambda console: _tables(console, report))
        if plot_to is not None:
            plot(report, plot_to)
    except SpecError as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if not isinstance(error, KeyboardInterrupt) and only(error, KeyboardInterrupt) is None:
            raise
        say("interrupted: the same command goes on from here")
        raise typer.Exit(_INTERRUPTED) from None
    if any(arm.broken for arm in report.arms):
        raise typer.Exit(1)


def _experiment(file: Path, log: Path, report_only: bool, say: Callable[[str], None]) -> Report:
    spec = read_spec(file)
    planned = list(cells(spec))
    if not report_only:
        runner = runner_of(spec, file.resolve().parent)
        for cell in planned:
            runner.check(cell)
    with ResultLog(log, spec, planned) as results:
        have = len(results.results)
        if have:
            say(f"{have:,} of {len(planned):,} cells are in {log}")

        def tell(result: Result) -> None:
            done = len(results.results)
            if result.state == "broken":
                say(f"broken: {result.task} under {result.system}, {result.model}, {result.environment}: {result.why}")
            if done % max(1, len(planned) // _TOLD_EVERY) == 0:
                say(f"{done:,} of {len(planned):,} cells")

        if not report_only:
            perform(spec, runner_of(spec, file.resolve().parent), planned, results, tell)
        return analyse(spec, len(planned), list(results.results.values()), list(results.broken.values()))


def _tables(console: Console, report: Report) -> None:
    for table in tables(report):
        console.print(table)
    for line in notes(report):
        console.print(line, markup=False, highlight=False)


def _print(value: object, json: bool, show: Callable[[Console], None]) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    else:
        show(Console())
