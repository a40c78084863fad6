"""`headrace-bench soak`."""

import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.processes import NotStarted, ended_by_signals
from bench.soak.measure import SoakResult, measure_soak
from bench.soak.plan import Plan


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="soak", epilog="Example: headrace-bench soak --seconds 600 --agents 10000 --warm-up 300")(soak)


def soak(
    seconds: Annotated[float, typer.Option(min=10, max=86_400, help="How long there is load.")] = 60.0,
    agents: Annotated[int, typer.Option(min=0, max=20_000, help="Agents that are live at all times.")] = 200,
    clients: Annotated[int, typer.Option(min=1, max=2_000, help="HTTP clients, half of them streaming.")] = 30,
    rpm: Annotated[float, typer.Option(min=60, help="Requests a minute that the provider allows.")] = 3_000.0,
    warm_up: Annotated[float, typer.Option(min=0, max=86_400, help="Seconds of load before anything is judged.")] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """A daemon, a provider with faults, agents and HTTP clients together: does anything grow, slow down or get lost?

    Ends with 1 where something did.
    """
    note = Console(stderr=True, highlight=False)
    plan = Plan(seconds=seconds, agents=agents, clients=clients, rpm=rpm, warm_up=warm_up)
    try:
        with ended_by_signals():
            result = measure_soak(plan, on_progress=lambda line: note.print(line, style="dim"))
    except NotStarted as error:
        note.print(str(error))
        raise typer.Exit(2) from None
    if json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _print(result)
    raise typer.Exit(1 if result.problems else 0)


def _print(result: SoakResult) -> None:
    console = Console(highlight=False)
    console.print(
        f"{result.seconds:.0f} s with {result.live_agents:,} agents live: {result.runs:,} runs, {result.calls:,} calls"
        f" of HTTP clients ({result.calls_per_second:.1f} a second), {result.refused:,} refused, {result.left:,} left."
    )
    table = Table(title="The daemon under load: the second quarter of the time, and the last")
    for heading in ("", "early", "late", "growth"):
        table.add_column(heading, justify="right")
    rows = {"memory, MB": (result.memory, 0), "file descriptors": (result.descriptors, 0)}
    rows |= {"threads": (result.threads, 0), "clients' p50, s": (result.p50, 2), "clients' p99, s": (result.p99, 2)}
    for name, (trend, digits) in rows.items():
        table.add_row(name, f"{trend.early:.{digits}f}", f"{trend.late:.{digits}f}", f"{trend.growth:.2f}")
    console.print(table)
    console.print(f"File descriptors before {result.descriptors_before}, after {result.descriptors_after}.")
    for problem in result.problems[:20]:
        console.print(f"problem: {problem}", style="red", markup=False)
    console.print("Nothing was lost, nothing grew." if not result.problems else f"{len(result.problems)} problems.")
