"""`headrace sessions`: the conversations that the daemon's store keeps, or everything about one."""

import time
from typing import Annotated, Final

import typer
from rich.table import Table
from rich.text import Text

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.ps import runs_table
from orchestrator.cli.render import age, cells, clean, columns, facts, many, print_json, print_table, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.sessions import SessionDetail, SessionPage, SessionView

EXAMPLES: Final = """
\b
Examples:
  headrace sessions --tenant web
  headrace sessions letters                  one session, with its latest runs
  headrace sessions -n 0 --json | jq -r '.sessions[].session'
"""

_PAGE: Final = 1000


def sessions(
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="Show everything about this one.")] = "",
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    number: Annotated[int, typer.Option("--number", "-n", min=0, help="Sessions at most; 0 is all of them.")] = 50,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Lists sessions by name: conversations with a log of their own, in which runs follow each other."""

    async def work(client: Client, ending: SignalEnd) -> int:
        if session:
            _show(await client.session(session), json=json)
            return DONE
        kept: list[SessionView] = []
        page = SessionPage(sessions=())
        while True:
            size = min(_PAGE, number - len(kept)) if number else _PAGE
            page = await client.sessions(tenant=tenant, cursor=page.next, size=size)
            kept += page.sessions
            if not page.next or (number and len(kept) >= number):
                break
        if json:
            print_json(SessionPage(sessions=tuple(kept), next=page.next))
            return DONE
        if kept:
            print_table(sessions_table(kept, time.time()))
        else:
            say("there are no sessions")
        if page.next:
            say("there are more; -n 0 shows all of them")
        return DONE

    raise typer.Exit(speak(url, work))


def sessions_table(views: list[SessionView], now: float) -> Table:
    """A row for each session."""
    numbers = ("events", "age", "touched")
    table = columns("session", "tenant", *numbers, "held by", right=numbers, whole=("session", *numbers))
    for view in views:
        touched = f"{age(now - view.updated)} ago"
        table.add_row(
            *cells(view.session, view.tenant, f"{view.events:,}", age(now - view.created), touched, view.holder or "-")
        )
    return table


def session_facts(view: SessionDetail, now: float) -> Table:
    """Everything about one session but its runs."""
    table = facts()
    for name, value in (
        ("session", view.session),
        ("tenant", view.tenant),
        ("events", f"{view.events:,}"),
        ("created", f"{age(now - view.created)} ago"),
        ("touched", f"{age(now - view.updated)} ago"),
        ("held by", f"{view.holder or 'nobody'}, taken {many(view.generation, 'time')}"),
        ("runs", f"{view.total:,}"),
    ):
        table.add_row(name, Text(clean(value)))
    return table


def _show(view: SessionDetail, *, json: bool) -> None:
    if json:
        print_json(view)
        return
    print_table(session_facts(view, time.time()))
    if view.runs:
        print_text("")
        print_table(runs_table(list(view.runs), time.time()))
    if len(view.runs) < view.total:
        say(f"the latest {len(view.runs):,} of {view.total:,} runs are shown")
