"""One request of people: found in its run's log by its key, with the answer that counts; and how a client sees it."""

from typing import Final

import msgspec
from msgspec import Struct

from agents.answered import counts
from agents.events import ApprovalDecided, ApprovalRequested, InputGiven, InputRequested, ToolLate, decode
from agents.people_events import Answered, Asked
from orchestrator.store.base import PAGE, RunRow, Store
from orchestrator.views.approvals import ApprovalView, Outcome
from orchestrator.views.runs import LateResult, RunView


class _Peek(Struct):
    type: str
    run: str = ""
    key: str = ""


_peek: Final = msgspec.json.Decoder(_Peek)
_ASKING: Final = frozenset({"approval_requested", "input_requested"})
_ANSWERING: Final = frozenset({"approval_decided", "input_given"})
_VOIDING: Final = frozenset({"cancel_requested", "run_ended"})


class Found(Struct, frozen=True, kw_only=True):
    """A request, and the first answer that counts. `void` says that its run was taken away, or ended, before any."""

    asked: Asked
    answered: Answered | None = None
    void: bool = False


async def find_request(store: Store, row: RunRow, key: str) -> Found | None:
    """The request of this key in the log of this run; None where nobody was asked under it. Raises `UnknownSession`."""
    asked: Asked | None = None
    number = row.after
    while True:
        records = await store.read(row.session, number)
        for record in records:
            number = record.number
            seen = _peek.decode(record.data)
            if seen.run != row.run:
                if seen.type == "run_created":
                    return None if asked is None else Found(asked=asked)
                continue
            if seen.type in _VOIDING:
                return None if asked is None else Found(asked=asked, void=True)
            if seen.key != key or seen.type not in _ASKING | _ANSWERING:
                continue
            event = decode(record.data)
            if isinstance(event, ApprovalRequested | InputRequested):
                asked = asked or event
            elif isinstance(event, ApprovalDecided | InputGiven) and asked is not None and counts(asked, event):
                return Found(asked=asked, answered=event)
        if len(records) < PAGE:
            return None if asked is None else Found(asked=asked)


def request_view(run: RunView, asked: Asked, answered: Answered | None = None, *, void: bool = False) -> ApprovalView:
    """A request as clients see it."""
    approval = isinstance(asked, ApprovalRequested)
    view = ApprovalView(
        id=asked.key,
        kind="approval" if approval else "input",
        run=run.run,
        session=run.session,
        tenant=run.tenant,
        job=run.job,
        agent=run.agent,
        tool=asked.name,
        asked=asked.at,
        expires=asked.expires,
    )
    if isinstance(asked, ApprovalRequested):
        view = msgspec.structs.replace(view, arguments=asked.arguments, digest=asked.digest, why=asked.why)
    else:
        view = msgspec.structs.replace(view, question=asked.question, options=asked.options)
    if answered is None:
        return msgspec.structs.replace(view, outcome="void") if void else view
    note = answered.content if isinstance(answered, InputGiven) else answered.note
    return msgspec.structs.replace(
        view, outcome=outcome_of(asked, answered), by=answered.by, note=note, decided=answered.at
    )


def outcome_of(asked: Asked, answered: Answered) -> Outcome:
    """What an answer that counts comes to; one that came after the request had expired is as good as none."""
    if isinstance(answered, ApprovalDecided) and answered.decision == "denied":
        return "denied"
    if asked.expires is not None and answered.at > asked.expires:
        return "expired"
    return "answered" if isinstance(answered, InputGiven) else answered.decision


def late_result(event: ToolLate) -> LateResult:
    """A late result as clients see it."""
    return LateResult(id=event.key, tool=event.name, outcome=event.outcome, content=event.content, at=event.at)
