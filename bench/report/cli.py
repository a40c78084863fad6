"""`headrace-bench report`: all benchmarks, and one page of what they gave."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from msgspec import Struct
from rich.console import Console

from bench.processes import ended_by_signals
from bench.report.measure import in_a_process, measure, why_not
from bench.report.page import Shown, page
from bench.report.parts import Target
from bench.report.plan import BENCHES, LEDGER, TRACES, Bench
from bench.report.record import RESULTS, Record, UnreadableRecord, load
from bench.traces.find import find_traces

PAGE: Final = "index.html"
_NAMES: Final = ", ".join(bench.name for bench in BENCHES)
_INTERRUPTED: Final = 130


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark in `--json`. `why` is there where nothing was measured."""

    bench: str
    command: str = ""
    started: str = ""
    seconds: float = 0.0
    why: str = ""
    targets: Sequence[Target] = ()


class Made(Struct, frozen=True, kw_only=True):
    """What `--json` prints: the page's path as it was asked for, and every benchmark."""

    page: str
    met: int
    missed: int
    benches: list[Outcome]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        name="report",
        epilog="""\b
Examples:
  headrace-bench report --quick
  headrace-bench report --traces traces --ledger ~/.local/state/headrace
  headrace-bench report --only fairness --only agents --fresh
  headrace-bench report --from bench-report/results --out page
""",
    )(report)


def report(
    traces: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="The folder with traces; looked for if not given."),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(exists=True, help="A daemon's data folder, for `what-if`, which is left out without.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small workloads: three minutes at most, and no figures to speak of.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option(help=f"One of {_NAMES}; may be given again.")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", exists=True, file_okay=False, help="Run nothing: a page of the results in that folder."),
    ] = None,
    out: Annotated[Path, typer.Option(file_okay=False, help=f"Where {PAGE} goes, and {RESULTS}/ beside it.")] = Path(
        "bench-report"
    ),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what was measured with the same settings and source.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is missed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object: commands, times and targets.")] = False,
) -> None:
    """Runs all benchmarks, and makes one page of them: targets, pictures, tables, and the command behind each.

    One after another, hours without --quick. Results are kept as they come: the same command again goes on where it
    was. The page needs no network.

    Exit codes: 0 made; 1 made, but a benchmark gave nothing, or --check found a target missed; 2 wrong usage, or the
    page cannot be written; 130 interrupted.
    """
    note = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(line: str) -> None:
        note.print(line, style="dim", markup=False)

    unknown = sorted(set(only or ()) - {bench.name for bench in BENCHES})
    if unknown:
        raise typer.BadParameter(f"there is no {', '.join(unknown)}; there are: {_NAMES}", param_hint="--only")
    chosen = [bench for bench in BENCHES if not only or bench.name in only]
    try:
        if source is not None:
            shown = [_show(bench, load(source, bench.name), f"{bench.name}.json is not there") for bench in chosen]
        else:
            with ended_by_signals():
                shown = _measured(chosen, out / RESULTS, traces, ledger, quick=quick, fresh=fresh, say=say)
        out.mkdir(parents=True, exist_ok=True)
        (out / PAGE).write_text(page(shown), encoding="utf-8")
    except (UnreadableRecord, OSError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        say("interrupted: the same command goes on from here")
        raise typer.Exit(_INTERRUPTED) from None
    made = _made(out / PAGE, shown)
    if json:
        sys.stdout.write(msgspec.json.encode(made).decode() + "\n")
    else:
        _print(made)
    nothing = any(one.record is not None and one.section is None for one in shown)
    if nothing or (check and made.missed):
        raise typer.Exit(1)


def _measured(
    benches: Sequence[Bench],
    folder: Path,
    traces: Path | None,
    ledger: Path | None,
    *,
    quick: bool,
    fresh: bool,
    say: Callable[[str], None],
) -> list[Shown]:
    """Every benchmark that can be run, in turn. The page shows a folder that nobody typed as TRACES."""
    given, shown = {}, {}
    found = traces or find_traces()
    if found is not None:
        given[TRACES], shown[TRACES] = str(found), str(traces or "TRACES")
    if ledger is not None:
        given[LEDGER] = shown[LEDGER] = str(ledger)
    done = []
    for bench in benches:
        why = why_not(bench, given)
        if why:
            say(f"{bench.name}: {why}")
            done.append(Shown(bench=bench, why=why))
            continue
        record = measure(bench, folder, given=given, shown=shown, quick=quick, fresh=fresh, say=say, run=in_a_process)
        done.append(_show(bench, record, ""))
    return done


def _show(bench: Bench, record: Record | None, why: str) -> Shown:
    if record is None:
        return Shown(bench=bench, why=why)
    if not record.measured:
        why = f"the command ended with {record.exit_code}" + (f" and said: {record.said}" if record.said else "")
        return Shown(bench=bench, record=record, why=why)
    try:
        return Shown(bench=bench, record=record, section=bench.read(record.result))
    except msgspec.MsgspecError as error:
        return Shown(bench=bench, record=record, why=f"its result has another shape than this version's: {error}")


def _made(path: Path, shown: Sequence[Shown]) -> Made:
    outcomes = [
        Outcome(
            bench=one.bench.name,
            command="" if one.record is None else one.record.command,
            started="" if one.record is None else one.record.started,
            seconds=0.0 if one.record is None else one.record.seconds,
            why=one.why,
            targets=() if one.section is None else one.section.targets,
        )
        for one in shown
    ]
    verdicts = [target.met for one in outcomes for target in one.targets]
    return Made(page=str(path), met=sum(verdicts), missed=len(verdicts) - sum(verdicts), benches=outcomes)


def _print(made: Made) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for one in made.benches:
        for target in one.targets:
            if not target.met:
                told = f"{target.measured:{target.form}}, {target.asked}, difference {target.difference}"
                console.print(f"missed: {one.bench}: {target.of}: {told}", markup=False)
        if one.why:
            console.print(f"not measured: {one.bench}: {one.why}", markup=False)
    console.print(f"{made.met} of {made.met + made.missed} targets are met; {made.page}", markup=False)
