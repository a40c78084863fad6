"""What people are asked by the runs of one service, and what they say to it.

Whoever decides is told what holds: the first decision in the log. Of two that are given at the same moment one holds,
and whoever gave the other is told so. A run that waited for the answer is woken by it, whoever drove it before.
"""

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final, Literal

import trio

from agents.errors import InvalidLimits
from agents.events import ApprovalDecided, InputGiven, encode
from agents.people_events import Answered, Asked, InputRequested
from orchestrator.runs.asked import Found, find_request, outcome_of, request_view
from orchestrator.runs.errors import AlreadyDecided, NotAsked, UnknownApproval
from orchestrator.runs.head import view_of
from orchestrator.runs.outside import LONGEST_MESSAGE
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import RunRow, Store
from orchestrator.store.errors import UnknownSession
from orchestrator.views.approvals import ApprovalList, ApprovalView

CLOCK: Final = "clock"

_WHAT_HOLDS: Final = {
    "approved": "was approved by {by}",
    "denied": "was denied by {by}",
    "answered": "was answered by {by}",
    "expired": "has expired",
    "void": "is void, since its run was taken away or has ended",
}


class ApprovalDesk:
    """Implements `orchestrator.api.services.Approvals`. `wake` is told of each run to which something was said."""

    def __init__(
        self,
        store: Store,
        records: Mapping[str, RunRecord],
        wall: Callable[[], float],
        wake: Callable[[RunRecord], None],
    ) -> None:
        self._store = store
        self._records = records
        self._wall = wall
        self._wake = wake
        self._changed = trio.Event()
        self._closed = False

    # Seen

    async def list_open(self, *, tenant: str = "", job: str = "", run: str = "", size: int = 1000) -> ApprovalList:
        """The open requests, the oldest first; empty filters match all."""
        await trio.lowlevel.checkpoint()
        found = [
            (asked.at, asked.key, record, asked)
            for record in self._records.values()
            if tenant in ("", record.flow.tenant) and job in ("", record.flow.job) and run in ("", record.run)
            for asked in record.requests.open
        ]
        found.sort(key=lambda one: one[:2])
        shown = tuple(request_view(record.head.view, asked) for _, _, record, asked in found[:size])
        return ApprovalList(approvals=shown, total=len(found))

    def standing(self, tenant: str = "") -> tuple[int, float]:
        """How many requests are open, of all tenants where none is named, and for how many seconds the oldest has."""
        since = [
            asked.at
            for record in self._records.values()
            if tenant in ("", record.flow.tenant)
            for asked in record.requests.open
        ]
        return len(since), max(0.0, self._wall() - min(since)) if since else 0.0

    async def show(self, id: str) -> ApprovalView:
        """One request, open or decided. Raises `UnknownApproval`, as all do that are given an id."""
        row, found = await self._find(id)
        return _view(row, found)

    async def watch(self, *, tenant: str = "") -> AsyncGenerator[ApprovalList, None]:
        """The open requests now, and again whenever they have changed, until the service ends."""
        shown: ApprovalList | None = None
        while True:
            changed, closed = self._changed, self._closed
            now = await self.list_open(tenant=tenant)
            if now != shown:
                shown = now
                yield now
            if closed:
                return
            await changed.wait()

    def look(self) -> None:
        """Other things are asked than before."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def close(self) -> None:
        """Nothing changes here any more."""
        self._closed = True
        self.look()

    # Decided

    async def decide(
        self,
        id: str,
        decision: Literal["approved", "denied"],
        *,
        by: str,
        note: str = "",
        digest: str = "",
        key: str = "",
    ) -> ApprovalView:
        """Approves or denies it. Raises `AlreadyDecided`, `NotAsked`."""

        def check(asked: Asked) -> None:
            if isinstance(asked, InputRequested):
                if decision == "approved":
                    raise NotAsked(f"{id} is a question, which is answered and not approved: {asked.question[:200]}")
            elif digest not in ("", asked.digest):
                raise NotAsked(f"{id} asks about other arguments than those that were decided on; look at it again")

        def event(asked: Asked) -> ApprovalDecided:
            return ApprovalDecided(
                run=asked.run, at=self._wall(), key=id, decision=decision, by=by, note=note, digest=digest
            )

        return await self._say(id, check, event, f"decided:{key or secrets.token_hex(8)}")

    async def answer(self, id: str, content: str, *, by: str, key: str = "") -> ApprovalView:
        """Answers a question. Raises `AlreadyDecided`, `NotAsked`, `InvalidLimits`."""
        if not content.strip():
            raise InvalidLimits("content", "must say something")
        if len(content) > LONGEST_MESSAGE:
            raise InvalidLimits("content", f"must have at most {LONGEST_MESSAGE} characters, not {len(content)}")

        def check(asked: Asked) -> None:
            if not isinstance(asked, InputRequested):
                raise NotAsked(f"{id} is no question: approve or deny it")

        def event(asked: Asked) -> InputGiven:
            return InputGiven(run=asked.run, at=self._wall(), key=id, content=content, by=by)

        return await self._say(id, check, event, f"answered:{key or secrets.token_hex(8)}")

    async def expire(self, record: RunRecord, asked: Asked) -> None:
        """Nobody answered in time. Raises `StoreError`."""
        event = ApprovalDecided(run=record.run, at=self._wall(), key=asked.key, decision="expired", by=CLOCK)
        await self._append(record.session, f"{asked.key}:expired", event)

    async def _say(
        self, id: str, check: Callable[[Asked], None], event: Callable[[Asked], Answered], as_: str
    ) -> ApprovalView:
        row, found = await self._find(id)
        check(found.asked)
        said = event(found.asked)
        if found.answered is None and not found.void:
            if not _in_time(found.asked, said):
                said_late = ApprovalDecided(run=row.run, at=said.at, key=id, decision="expired", by=CLOCK)
                await self._append(row.session, f"{id}:expired", said_late)
            else:
                await self._append(row.session, f"{id}:{as_}", said)
            row, found = await self._find(id)
        if found.answered is None or not _the_same(found.asked, found.answered, said):
            raise AlreadyDecided(f"{id} {_holds(found)}")
        return _view(row, found)

    async def _append(self, session: str, key: str, event: Answered) -> None:
        await self._store.append_external(session, key, [encode(event)])
        record = self._records.get(event.run)
        if record is not None:
            record.hear((event,))
            self._wake(record)

    async def _find(self, id: str) -> tuple[RunRow, Found]:
        run = id.rsplit("/", 2)[0]
        row = await self._store.run(run) if run and run != id else None
        try:
            found = None if row is None else await find_request(self._store, row, id)
        except UnknownSession:
            found = None
        if row is None or found is None:
            raise UnknownApproval(f"nobody was asked under {id[:200]}; `headrace approvals` lists what is open")
        return row, found


def _view(row: RunRow, found: Found) -> ApprovalView:
    return request_view(view_of(row), found.asked, found.answered, void=found.void)


def _the_same(asked: Asked, holds: Answered, said: Answered) -> bool:
    """Whether what holds is what was said, by whomever."""
    if isinstance(said, InputGiven):
        return isinstance(holds, InputGiven) and holds.content == said.content and _in_time(asked, holds)
    return outcome_of(asked, holds) == said.decision


def _in_time(asked: Asked, answered: Answered) -> bool:
    return asked.expires is None or answered.at <= asked.expires


def _holds(found: Found) -> str:
    outcome = "void" if found.answered is None else outcome_of(found.asked, found.answered)
    by = "" if found.answered is None else found.answered.by
    return _WHAT_HOLDS[outcome].format(by=by)
