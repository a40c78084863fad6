"""Sessions as a whole: listed, written out, brought in, removed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
import trio
import trio.testing

from agents.errors import HeadraceError
from agents.events import UnknownEvent
from orchestrator.runs.errors import BadLog
from orchestrator.runs.sessions import SessionService
from orchestrator.store.errors import DuplicateSession, UnknownSession
from orchestrator.views.sessions import ImportReport, SessionDetail
from tests.runs.lasting import Daemon, Kept, daemon, wall

Clock = trio.testing.MockClock


def service(of: Daemon) -> SessionService:
    return SessionService(of.service, wall=wall)


async def written(sessions: SessionService, session: str) -> bytes:
    async with aclosing(sessions.export(session)) as lines:
        return b"".join([line async for line in lines])


async def pieces(data: bytes, size: int = 7) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(data), size):
        yield data[start : start + size]
        await trio.lowlevel.checkpoint()


async def bring(sessions: SessionService, data: bytes, size: int = 7, *, tenant: str = "") -> ImportReport:
    async with aclosing(pieces(data, size)) as log:
        return await sessions.take_in(log, tenant=tenant)


async def test_sessions_are_seen_with_their_runs(autojump_clock: Clock) -> None:
    """One by one with the latest runs, or in pages in the order of their names, of a tenant or of all."""
    async with daemon(Kept()) as there:
        sessions = service(there)
        for name, tenant in (("b", "acme"), ("a", "other"), ("c", "acme")):
            await there.service.wait(await there.start(session=name, tenant=tenant))
        await there.service.wait(await there.start(session="b", tenant="acme", task="more"))
        page = await sessions.page(size=2)
        assert ([one.session for one in page.sessions], page.next) == (["a", "b"], "b")
        page = await sessions.page(cursor=page.next)
        assert ([one.session for one in page.sessions], page.next) == (["c"], "")
        assert [one.session for one in (await sessions.page(tenant="acme")).sessions] == ["b", "c"]
        detail = await sessions.view("b")
        assert isinstance(detail, SessionDetail)
        assert (detail.total, len(detail.runs), detail.tenant) == (2, 2, "acme")
        assert detail.runs[0].created < detail.runs[1].created
        with pytest.raises(UnknownSession):
            await sessions.view("nobody")


async def test_an_exported_log_is_the_same_elsewhere(autojump_clock: Clock) -> None:
    """Written out and brought in, byte for byte, in pieces of any size: its runs are readable, and it goes on."""
    async with daemon(Kept()) as here:
        run = await here.start(session="talk")
        detail = await here.service.wait(run)
        data = await written(service(here), "talk")
    store = Kept()
    async with daemon(store) as there:
        sessions = service(there)
        report = await bring(sessions, data, tenant="acme")
        assert (report.session, report.tenant, report.runs) == ("talk", "acme", (run,))
        assert (await written(sessions, "talk")).split(b"\n")[1:] == data.split(b"\n")[1:]
        brought = await there.service.detail(run)
        assert (brought.answer, brought.messages, brought.usage) == (detail.answer, detail.messages, detail.usage)
        assert (await there.service.page(tenant="acme")).total == 1
        two = await there.start(session="talk", tenant="acme", task="more")
        assert (await there.service.wait(two)).reason == "final_answer"
        with pytest.raises(DuplicateSession):
            await bring(sessions, data)


async def test_a_run_that_was_open_when_it_was_written_out_goes_on(autojump_clock: Clock) -> None:
    """It is taken up where it was brought in."""
    async with daemon(Kept()) as here:
        run = await here.start()
        await trio.sleep(30)
        data = await written(service(here), run)
    async with daemon(Kept()) as there:
        await bring(service(there), data, 1000)
        assert (await there.service.wait(run)).reason == "final_answer"


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda lines: [], BadLog, "nothing in the log"),
        (lambda lines: lines[:-2], BadLog, "cut short"),
        (lambda lines: [*lines[:2], *lines[3:]], BadLog, "line 3 of the log holds event 3; event 2"),
        (lambda lines: [*lines, lines[-1]], BadLog, "comes there"),
        (lambda lines: lines[1:], BadLog, "line 1 does not say"),
        (lambda lines: [lines[0], b"{", *lines[2:]], BadLog, "line 2 of the log is no event"),
        (lambda lines: [x.replace(b'"run_started"', b'"dreamt"') for x in lines], UnknownEvent, "cannot read"),
        (lambda lines: [x.replace(b'"version":1', b'"version":9') for x in lines], BadLog, "version 9"),
        (lambda lines: [x.replace(b'"session":"talk"', b'"session":"a/b"') for x in lines], HeadraceError, "session"),
    ],
)
async def test_a_log_that_is_none_is_not_taken_in(
    spoil: object, error: type[HeadraceError], words: str, autojump_clock: Clock
) -> None:
    """The message says where and what; nothing of it is there."""
    async with daemon(Kept()) as here:
        await here.service.wait(await here.start(session="talk"))
        lines = (await written(service(here), "talk")).splitlines()
    data = b"\n".join(spoil(lines))  # type: ignore[operator]
    async with daemon(Kept()) as there:
        sessions = service(there)
        with pytest.raises(error, match=words):
            await bring(sessions, data)
        assert (await sessions.page()).sessions == ()
        assert (await there.service.page()).total == 0


async def test_what_nobody_touches_is_removed(autojump_clock: Clock) -> None:
    """A dry run says what would go and removes nothing; open runs and what is younger stay. The daemon that had the
    runs itself need not end first.
    """
    async with daemon(Kept(), resume=False) as there:
        sessions = service(there)
        old = await there.start()
        await there.service.wait(old)
        await trio.sleep(1000)
        young = await there.start()
        await there.service.wait(young)
        open_ = await there.start()
        would = await sessions.prune(wall() - 500, dry_run=True)
        assert (would.dry_run, would.sessions, would.runs, would.events, would.calls) == (True, 1, 1, 9, None)
        assert (await there.service.page()).total == 3
        did = await sessions.prune(wall() - 500)
        assert (did.sessions, did.runs, did.events) == (1, 1, 9)
        assert [view.run for view in (await there.service.page()).runs] == [open_, young]
