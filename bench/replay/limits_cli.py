"""`headrace-bench limits`: how much of a limit is used while more is asked for, and the 429s that takes."""

import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.replay.targets import CASES, Reached, reach


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(name="limits", epilog="Example: headrace-bench limits --minutes 30 --seed 1")(limits_command)


def limits_command(
    minutes: Annotated[float, typer.Option(min=4, max=600, help="Minutes that each case is played.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result to the byte.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of a table.")] = False,
) -> None:
    """Limits under twice their load: use, 429s, and whether the targets hold. In virtual time.

    Exit codes: 0 all targets hold; 1 one does not; 2 wrong usage.
    """
    note = Console(stderr=True, highlight=False)
    reached = []
    for case in CASES:
        reached.append(reach(case, minutes=minutes, seed=seed))
        note.print(f"{case.name}: {reached[-1].use:.1%}", style="dim")
    if json:
        sys.stdout.write(msgspec.json.encode(reached).decode() + "\n")
    else:
        Console().print(_table(reached))
    if any(one.met is False for one in reached):
        raise typer.Exit(1)


def _table(reached: list[Reached]) -> Table:
    table = Table(title="Use of a limit under twice its load")
    table.add_column("limit")
    for heading in ("use", "target", "429s", "calls", "held"):
        table.add_column(heading, justify="right")
    for one in reached:
        target = "-" if one.target is None else f"{one.target:.1%}"
        held = "-" if one.met is None else "yes" if one.met else "no"
        table.add_row(one.case, f"{one.use:.1%}", target, f"{one.refused_429:,}", f"{one.calls:,}", held)
    return table
