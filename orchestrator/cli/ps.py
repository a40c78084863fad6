"""`headrace ps`: the runs that a daemon knows."""

import time
from collections import Counter
from enum import StrEnum
from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.progress import short
from orchestrator.cli.render import age, brief, cells, columns, many, print_json, print_table
from orchestrator.cli.run_end import state_words
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.runs import RunPage, RunView

EXAMPLES: Final = """
\b
Examples:
  headrace ps                             what is pending or running, the newest first
  headrace ps --all --tenant web -n 200   with those that ended
  headrace ps --state failed --job job-7
  headrace ps --all --session letters
  headrace ps --all --lines | jq -r 'select(.reason == "max_rounds") | .run'
"""

_PAGE: Final = 1000
_LIVE: Final = ("pending", "running")


class Stand(StrEnum):
    """How a run stands, seen from outside (`agents.observation.Observed`); typer has no lists of literals."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


def ps(
    every: Annotated[bool, typer.Option("--all", "-a", help="Also those that have ended.")] = False,
    state: Annotated[
        list[Stand] | None,
        typer.Option(help="Only runs in this state; may be repeated."),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    job: Annotated[str, typer.Option(help="Only those of this job.")] = "",
    session: Annotated[str, typer.Option(help="Only those of this session.")] = "",
    number: Annotated[int, typer.Option("--number", "-n", min=0, help="Runs at most; 0 is all of them.")] = 50,
    json: Json = False,
    lines: Annotated[bool, typer.Option("--lines", help="Print each run as JSON on a line of its own.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Lists runs, the newest first: those under way, or with --all every run the daemon still knows."""
    observed = tuple(stand.value for stand in state) if state else () if every else _LIVE

    async def work(client: Client, ending: SignalEnd) -> int:
        shown, page = 0, RunPage(runs=(), next="", total=0, states={})
        kept: list[RunView] = []
        while True:
            size = min(_PAGE, number - shown) if number else _PAGE
            page = await client.runs(
                observed=observed, tenant=tenant, job=job, session=session, cursor=page.next, size=size
            )
            shown += len(page.runs)
            if lines:
                for run in page.runs:
                    print_json(run)
            else:
                kept += page.runs
            if not page.next or (number and shown >= number):
                break
        if lines:
            return DONE
        if json:
            print_json(msgspec.structs.replace(page, runs=tuple(kept)))
            return DONE
        if kept:
            print_table(runs_table(kept, time.time()))
            for line in hindrances(kept):
                say(line)
        else:
            say("no run is under way" if not every and not state else "no run matches")
        _summary(shown, page, narrowed=bool(state or tenant or job or session), every=every)
        return DONE

    raise typer.Exit(speak(url, work))


def runs_table(runs: list[RunView], now: float) -> Table:
    """A row for each run."""
    numbers = ("age", "rounds", "tokens")
    table = columns("run", "agent", "tenant/job", *numbers, "state", right=numbers, whole=("run", *numbers, "state"))
    for run in runs:
        total = run.usage.total
        named_by_job = not run.job or run.run.startswith(f"{run.job}.")  # an item's run, whose id says it all
        table.add_row(
            *cells(
                run.run,
                run.agent,
                run.tenant if named_by_job else f"{run.tenant}/{run.job}",
                age(now - run.created),
                str(run.rounds),
                "" if total is None else short(total),
                state_words(run),
            )
        )
    return table


def hindrances(runs: list[RunView]) -> list[str]:
    """What is in the way of runs that have not ended, each thing once, the commonest first."""
    found = Counter(run.message for run in runs if run.reason is None and run.message)
    return [f"{many(count, 'run')}: {brief(message, 400)}" for message, count in found.most_common()]


def _summary(shown: int, page: RunPage, *, narrowed: bool, every: bool) -> None:
    """What the table leaves out, for people: on standard error."""
    if shown < page.total:
        say(f"{shown:,} of {page.total:,} shown; -n 0 shows all of them")
    ended = sum(count for state, count in page.states.items() if state in _ENDED)
    if ended and not narrowed and not every:
        say(f"{ended:,} more have ended; --all shows them")


_ENDED: Final = frozenset({"completed", "stopped", "failed", "cancelled", "expired"})
