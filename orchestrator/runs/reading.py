"""Runs read from their sessions' logs: where an open one stands, how one that ended did."""

from msgspec import Struct
from msgspec.structs import asdict, replace

from agents.events import Event, RunCreated, decode
from agents.fold import fold, result_of, said_so_far
from agents.late import quiescent_since
from agents.result import RunResult
from agents.runtime import UnknownRun
from agents.snapshot import RunSnapshot, SessionSnapshot
from orchestrator.runs.asked import late_result, request_view
from orchestrator.runs.head import view_of
from orchestrator.store.base import PAGE, RunRow, Store
from orchestrator.views.runs import RunDetail, RunView


class Ended(Struct, frozen=True):
    """A run that has ended, as its log tells of it. `events` is how many it has."""

    snapshot: RunSnapshot
    events: int


async def read_session(store: Store, session: str, onto: SessionSnapshot | None = None) -> SessionSnapshot:
    """Where a session stands, reading on from where `onto` stopped.

    Raises `UnknownSession`, `UnknownEvent`, `BrokenLog`.
    """
    snapshot = onto or SessionSnapshot()
    while True:
        records = await store.read(session, snapshot.events)
        snapshot = fold([decode(record.data) for record in records], snapshot)
        if len(records) < PAGE:
            return snapshot


async def read_run(store: Store, row: RunRow) -> Ended:
    """One run at its end and with what came to light after it, or as far as its log goes.

    Raises `UnknownRun` where that is gone.
    """
    snapshot, number, over = SessionSnapshot(), 0, False
    while not over:
        records = await store.read(row.session, number)
        events: list[Event] = []
        for record in records:
            event = decode(record.data)
            if isinstance(event, RunCreated) and record.number > row.after + 1:
                over = True
                break
            events.append(event)
            number = record.number
        snapshot = fold(events, snapshot)
        over = over or len(records) < PAGE
    if snapshot.last is None or snapshot.last.created.run != row.run:
        raise UnknownRun(f"there is no run {row.run}")
    return Ended(snapshot.last, number - row.after)


def detail_of(view: RunView, result: RunResult, events: int) -> RunDetail:
    """A run that has ended, whole."""
    return RunDetail(
        **asdict(view),
        answer=result.answer,
        partial=result.partial,
        scope=result.scope,
        limit=result.limit,
        allowed=result.allowed,
        observed_amount=result.observed,
        unknown_tokens=result.unknown_tokens,
        unknown_effects=result.unknown_effects,
        next=result.next,
        events=events,
        messages=result.messages,
    )


def ended_detail(row: RunRow, ended: Ended) -> RunDetail:
    """A run of the index, whole; one whose log has no closing event as far as that goes."""
    view, snapshot = view_of(row), ended.snapshot
    if snapshot.ended is not None:
        detail = detail_of(view, result_of(snapshot), ended.events)
    else:
        detail = open_detail(view, snapshot, ended.events)
    went_on = snapshot.ended is not None and not snapshot.ended.quiescent
    quiescent = quiescent_since(snapshot) if went_on else None
    return replace(
        detail,
        late=tuple(late_result(event) for event in snapshot.late),
        quiescent=quiescent,
        at_rest=not went_on or quiescent is not None,
    )


def open_detail(view: RunView, snapshot: RunSnapshot, events: int) -> RunDetail:
    """A run that has not ended and that nobody drives, whole."""
    return RunDetail(
        **asdict(view),
        partial=snapshot.partial,
        unknown_tokens=snapshot.unknown.tokens,
        unknown_effects=snapshot.unknown_effects,
        approvals=tuple(request_view(view, asked) for asked in snapshot.asked),
        events=events,
        messages=said_so_far(snapshot),
    )
