"""Sessions as a whole: looked at, listed, written out, brought in, and removed when nobody touches them any more."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

import msgspec

from orchestrator.jobs.log import HOLDER as JOBS
from orchestrator.runs.importing import read_log, rows_of
from orchestrator.runs.service import RunService
from orchestrator.store.base import PAGE, Batch, RunQuery, Store
from orchestrator.store.base import SessionView as StoredSession
from orchestrator.store.errors import Conflict, DuplicateSession, UnknownSession
from orchestrator.views.names import check_name
from orchestrator.views.sessions import (
    ExportHeader,
    ExportLine,
    ImportReport,
    PruneReport,
    SessionDetail,
    SessionPage,
    SessionView,
)

LATEST_RUNS: Final = 20

_encoder: Final = msgspec.json.Encoder()


class SessionService:
    """Implements `orchestrator.api.services.Sessions` over the store of a run service. `wall` is in seconds since the
    epoch.
    """

    def __init__(self, runs: RunService, *, wall: Callable[[], float] = time.time) -> None:
        self._runs = runs
        self._store: Store = runs.store
        self._wall = wall

    async def view(self, session: str) -> SessionDetail:
        """One session with its latest runs. Raises `UnknownSession`."""
        stored = await self._store.session(session)
        page = await self._runs.page(session=session, size=LATEST_RUNS)
        return SessionDetail(
            **msgspec.structs.asdict(self._seen(stored)), runs=tuple(reversed(page.runs)), total=page.total
        )

    async def page(self, *, tenant: str = "", cursor: str = "", size: int = 100) -> SessionPage:
        """Sessions in the order of their names; of all tenants where none is named. A cursor is the last one's name."""
        found = await self._store.sessions(tenant=tenant, after=cursor, size=size + 1)
        shown = tuple(self._seen(one) for one in found[:size])
        return SessionPage(sessions=shown, next=shown[-1].session if len(found) > size else "")

    async def export(self, session: str) -> AsyncGenerator[bytes, None]:
        """The log as it is at this moment, line by line. The first step raises `UnknownSession`."""
        stored = await self._store.session(session)
        yield _line(ExportHeader(session=session, tenant=stored.tenant, events=stored.last, exported=self._wall()))
        number = 0
        while number < stored.last:
            records = await self._store.read(session, number, min(PAGE, stored.last - number))
            for record in records:
                number = record.number
                yield _line(ExportLine(number=number, event=msgspec.Raw(record.data)))

    async def take_in(self, log: AsyncIterator[bytes], *, tenant: str = "") -> ImportReport:
        """Makes a session of an exported log: all of it, or nothing. An open run of it is taken up.

        Raises `BadLog`, `UnknownEvent`, `BrokenLog`, `InvalidLimits` for a name that is none, `DuplicateSession`.
        """
        read = await read_log(log)
        whose = check_name("tenant", tenant or read.header.tenant)
        session = check_name("session", read.header.session)
        rows = rows_of(read, whose)
        batch = Batch(session=session, id=f"import:{session}", after=0, records=tuple(read.records), runs=rows)
        executor = self._runs.executor
        try:
            await self._store.session(session)
        except UnknownSession:
            pass
        else:
            raise DuplicateSession(f"there is a session {session} already")
        try:
            view = await executor.take(session, tenant=whose, batch=batch)
        except Conflict:
            raise DuplicateSession(f"there is a session {session} already") from None
        await self._store.release(session, view.generation)
        if rows[-1].open:
            await self._runs.adopt(rows[-1])
        return ImportReport(
            session=session, tenant=whose, events=len(read.records), runs=tuple(row.run for row in rows)
        )

    async def prune(self, before: float, *, dry_run: bool = False) -> PruneReport:
        """Removes what nobody has touched since `before`, or says what that would be.

        Sessions with an open run stay, and so do the logs of jobs that have not ended.
        """
        if not dry_run:
            await self._let_go(before)
            removed = await self._store.prune(before)
            return PruneReport(
                before=before,
                dry_run=False,
                sessions=removed.sessions,
                runs=removed.runs,
                events=removed.events,
                calls=removed.calls,
            )
        sessions = runs = events = 0
        async for one in self._old(before):
            sessions += 1
            events += one.last
            runs += (await self._store.runs(RunQuery(session=one.session, size=1))).total
        return PruneReport(before=before, dry_run=True, sessions=sessions, runs=runs, events=events)

    def _seen(self, stored: StoredSession) -> SessionView:
        """An executor keeps the lease of a session whose run has ended, which means nothing to anybody else."""
        used = self._runs.holds(stored.session) or stored.holder == JOBS
        return SessionView(
            session=stored.session,
            tenant=stored.tenant,
            events=stored.last,
            generation=stored.generation,
            holder=stored.holder if used else "",
            created=stored.created,
            updated=stored.updated,
        )

    async def _let_go(self, before: float) -> None:
        """A session stays in its executor's hands when its run has ended, until somebody minds, as pruning does."""
        async for one in self._old(before):
            if one.holder == self._runs.executor.holder:
                await self._store.release(one.session, one.generation)

    async def _old(self, before: float) -> AsyncGenerator[StoredSession, None]:
        after = ""
        while True:
            found = await self._store.sessions(after=after, size=PAGE)
            for one in found:
                if one.updated < before and one.holder != JOBS and not self._runs.holds(one.session):
                    yield one
            if len(found) < PAGE:
                return
            after = found[-1].session


def _line(what: ExportHeader | ExportLine) -> bytes:
    return _encoder.encode(what) + b"\n"
