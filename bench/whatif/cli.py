"""`headrace-bench what-if`: the calls of a daemon's ledger under another configuration."""

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from agents.errors import InvalidLimits
from bench.policies import POLICIES, policy_named
from bench.traces.base import TraceError
from bench.whatif.change import read_change
from bench.whatif.moments import moment
from bench.whatif.run import find_out
from bench.whatif.table import what_if_tables
from orchestrator.config.find import require_config
from orchestrator.config.problems import ConfigError


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        name="what-if",
        epilog="""\b
Examples:
  headrace-bench what-if ~/.local/state/headrace --from 24h --set backends.openai.tpm=400000
  headrace-bench what-if headrace.db --was headrace.toml --set tenants.alice.weight=3 --json
  headrace-bench what-if headrace.db --config other.toml --limits-as-was
""",
    )(what_if_command)


def what_if_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="LEDGER",
            help="A daemon's data folder, its headrace.db, or a file with a call's row in each line.",
        ),
    ],
    since: Annotated[
        str | None, typer.Option("--from", help="2026-01-31T14:00 (UTC), 24h (ago), or seconds since 1970.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="The same; calls that came before it.")] = None,
    was: Annotated[
        Path | None,
        typer.Option(help="The configuration that was in force; looked for as `headrace serve` does if not given."),
    ] = None,
    other: Annotated[Path | None, typer.Option("--config", help="The configuration to be tried.")] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="One key of it, for example tenants.alice.weight=3; repeatable."
        ),
    ] = None,
    policy: Annotated[str | None, typer.Option(help=f"Another order to be tried: {', '.join(POLICIES)}.")] = None,
    limits_as_was: Annotated[
        bool, typer.Option("--limits-as-was", help="The provider goes on enforcing the limits that were in force.")
    ] = False,
    open_loop: Annotated[
        bool, typer.Option("--open-loop", help="Calls come when they came, though agents would have asked earlier.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result to the byte.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of tables.")] = False,
) -> None:
    """What would have changed with other limits, weights, priorities or endpoints: waits, 429s, use, the end.

    Plays a daemon's calls again, through its own code in virtual time: first as it was, held against the record, then
    changed. The daemon may be running; its file is only read. Without a change, it says how far the replay can be
    trusted.

    Exit codes: 0 played; 1 the ledger or a configuration cannot be used; 2 wrong usage.
    """
    note = Console(stderr=True, highlight=False)
    now = time.time()
    try:
        first = moment(since, now) if since is not None else 0.0
        end = moment(until, now) if until is not None else float("inf")
        tried = policy_named(policy) if policy is not None else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if first >= end:
        raise typer.BadParameter("--from is not before --to")
    try:
        reports = find_out(
            source,
            read_change(require_config(was), other, sets or ()),
            since=first,
            until=end,
            policy=tried,
            limits_as_was=limits_as_was,
            open_loop=open_loop,
            seed=seed,
            say=lambda line: note.print(line, style="dim", markup=False),
        )
    except (TraceError, ConfigError, InvalidLimits) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(reports).decode() + "\n")
        return
    for report in reports:
        Console().print(what_if_tables(report))
