"""What people are asked, in words: a line, a table, all of one request, and how it is answered."""

import shlex
from typing import Final

from rich.table import Table
from rich.text import Text

from agents.people_events import ApprovalRequested, Asked
from orchestrator.cli.render import age, brief, cells, clean, columns, facts
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.approvals import ApprovalView

_OUTCOMES: Final = {
    "approved": "approved by {by}",
    "denied": "denied by {by}",
    "answered": "answered by {by}",
    "expired": "expired",
    "void": "void: its run was taken away or has ended",
}


def how_to_answer(id: str, *, question: bool, url: str = DEFAULT_URL) -> str:
    """The commands that answer a request."""
    there = "" if url == DEFAULT_URL else f" --url {shlex.quote(url)}"
    name = shlex.quote(id)
    if question:
        return f'headrace answer {name} "..."{there}'
    return f"headrace approve {name}{there}, or headrace deny {name}{there}"


def how_to_answer_event(asked: Asked, url: str) -> str:
    """The commands that answer the request that an event tells of."""
    return how_to_answer(asked.key, question=not isinstance(asked, ApprovalRequested), url=url)


def what_is_asked(view: ApprovalView, length: int = 100) -> str:
    """`send {"to":"anna"}`, or the question."""
    if view.kind == "approval":
        return f"{view.tool} {brief(view.arguments, length)}"
    options = f" ({' / '.join(view.options)})" if view.options else ""
    return brief(f"{view.question}{options}", length)


def requests_table(views: tuple[ApprovalView, ...], now: float) -> Table:
    """A row for each request."""
    numbers = ("age", "expires")
    table = columns("id", "agent", "tenant", *numbers, "asks", right=numbers, whole=("id", *numbers))
    for view in views:
        table.add_row(
            *cells(view.id, view.agent, view.tenant, age(now - view.asked), _expiry(view, now), what_is_asked(view))
        )
    return table


def request_facts(view: ApprovalView, now: float, url: str = DEFAULT_URL) -> Table:
    """All of one request."""
    table = facts()
    rows = [
        ("id", view.id),
        ("run", view.run),
        ("session", view.session if view.session != view.run else ""),
        ("agent", view.agent),
        ("tenant", view.tenant),
        ("job", view.job),
        ("tool", view.tool),
        ("arguments", view.arguments),
        ("question", view.question),
        ("options", " / ".join(view.options)),
        ("asked since", f"{age(now - view.asked)}{f', because: {view.why}' if view.why else ''}"),
    ]
    if view.outcome is None:
        rows.append(("expires", "" if view.expires is None else _expiry(view, now)))
        rows.append(("to answer", how_to_answer(view.id, question=view.kind == "input", url=url)))
    else:
        rows.append(("outcome", outcome_words(view)))
        rows.append(("answer" if view.outcome == "answered" else "note", view.note))
    for name, value in rows:
        if value:
            table.add_row(name, Text(clean(value)))
    return table


def outcome_words(view: ApprovalView) -> str:
    """`approved by anna`."""
    return "open" if view.outcome is None else _OUTCOMES[view.outcome].format(by=view.by)


def _expiry(view: ApprovalView, now: float) -> str:
    if view.expires is None:
        return "never"
    return f"in {age(view.expires - now)}" if view.expires > now else "now"
