"""`headrace-bench agents`."""

import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from bench.policies import POLICIES
from bench.sessions.measure import LOADS, USUAL, measure, named
from bench.sessions.report import Row
from bench.sessions.table import sessions_table
from bench.sessions.workload import Setting
from bench.traces.base import TraceError
from bench.traces.find import find_trace, missing

TRACE_NAME: Final = "claudecode_kvct_full.csv.gz"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        name="agents",
        epilog="""\b
Examples:
  headrace-bench agents --trace traces
  headrace-bench agents --load 1.3 --workloads 5 --policy las --policy headrace --json
  headrace-bench agents --concurrency 0 --tpm 1000000
  headrace-bench agents --policy headrace@0.25 --policy headrace@0.5 --policy headrace@1
""",
    )(agents)


def agents(
    trace: Annotated[
        Path | None, typer.Option(help=f"Recorded sessions ({TRACE_NAME}), or the folder that they are in.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help=f"One of {', '.join(POLICIES)}, or headrace@PUT_BACK; usually {', '.join(USUAL)}."),
    ] = None,
    load: Annotated[
        list[float] | None,
        typer.Option(min=0.05, max=10.0, help="Work that arrives per work that can be served; may be given again."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=0, max=1024, help="Calls in flight; 0 for no such limit.")] = 8,
    tpm: Annotated[int, typer.Option(min=0, help="Tokens a minute, cached input left out; 0 for no such limit.")] = 0,
    sessions: Annotated[int, typer.Option(min=2, max=100_000, help="Sessions of a workload.")] = 300,
    workloads: Annotated[int, typer.Option(min=1, max=1000, help="Workloads, the same for each policy.")] = 3,
    think: Annotated[
        float, typer.Option(min=0.0, help="Longer pauses of a session are cut to so many seconds.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Draws sessions and starts.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; as many as cores.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where the default misses a target.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """What the order of runs does to recorded sessions of coding agents that share one limited provider.

    In virtual time and a closed loop: a session's next call waits for the last one's answer and its think time. A
    policy is held against arrival order on the same sessions with the same starts.

    Exit codes: 0 measured; 1 the trace cannot be read, or --check found a target missed; 2 wrong usage.
    """
    note = Console(stderr=True, highlight=False)
    policies = list(dict.fromkeys(policy or USUAL))
    for name in policies:
        try:
            named(name)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--policy") from None
    if not concurrency and not tpm:
        raise typer.BadParameter("without a limit nothing waits; set --concurrency or --tpm", param_hint="--tpm")
    try:
        report = measure(
            _trace(trace),
            policies,
            loads=list(dict.fromkeys(load or LOADS)),
            setting=Setting(concurrency=concurrency or None, tokens_per_minute=tpm or None),
            sessions=sessions,
            workloads=workloads,
            seed=seed,
            longest_think=think,
            workers=workers,
            on_row=lambda row: note.print(_line(row), style="dim"),
        )
    except (TraceError, OSError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        Console().print(sessions_table(report))
    for sentence in report.missed:
        note.print(sentence, style="yellow", markup=False)
    if check and report.missed:
        raise typer.Exit(1)


def _trace(path: Path | None) -> Path:
    """The file with sessions. Raises `BadParameter` where there is none."""
    if path is None:
        found = find_trace(TRACE_NAME)
        if found is None:
            raise typer.BadParameter(missing(TRACE_NAME), param_hint="--trace")
        return found
    file = path / TRACE_NAME if path.is_dir() else path
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {file}", param_hint="--trace")
    return file


def _line(row: Row) -> str:
    return f"load {row.load:g}, {row.policy}: mean {row.mean:,.0f} s, p95 slowdown {row.slowdown_p95:.2f}"
