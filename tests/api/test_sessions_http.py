"""Sessions over HTTP: whose they are, what comes out and goes in, and who may remove what is old."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
import pytest

from agents.amounts import Limits
from agents.events import UnknownEvent
from agents.lifecycle import State
from agents.messages import Usage
from agents.origin import CannotContinue
from agents.runtime import UnknownRun
from orchestrator.api.app import make_app
from orchestrator.api.errors import BadRequest
from orchestrator.api.identity import Identity
from orchestrator.keys import KeyRing
from orchestrator.runs.errors import RunOver
from orchestrator.store.errors import (
    Conflict,
    DuplicateSession,
    Fenced,
    SessionBusy,
    StoreAway,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreUnusable,
    UnknownSession,
)
from orchestrator.views.runs import RunView
from orchestrator.views.sessions import ImportReport, PruneReport, SessionDetail, SessionPage
from tests.api.surface_rig import Exchange, ask, make_services

LOG = b'{"format":"headrace-session"}\n{"number":1,"event":{"type":"x"}}\n'


def detail(session: str, tenant: str) -> SessionDetail:
    return SessionDetail(session=session, tenant=tenant, events=1, generation=1, holder="", created=0.0, updated=0.0)


class Sessions:
    """Sessions `a` of acme and `w` of web; `failing` is raised by whatever is asked."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.failing = failing
        self.asked: list[tuple[Any, ...]] = []
        self.taken = b""

    def _note(self, *asked: Any) -> None:
        self.asked.append(asked)
        if self.failing is not None:
            raise self.failing

    async def view(self, session: str) -> SessionDetail:
        owners = {"a": "acme", "w": "web"}
        if session not in owners:
            raise UnknownSession(f"there is no session {session}")
        return detail(session, owners[session])

    async def page(self, *, tenant: str = "", cursor: str = "", size: int = 100) -> SessionPage:
        self._note("page", tenant, cursor, size)
        return SessionPage(sessions=())

    async def export(self, session: str) -> AsyncGenerator[bytes, None]:
        self._note("export", session)
        for line in LOG.splitlines(keepends=True):
            yield line

    async def take_in(self, log: AsyncIterator[bytes], *, tenant: str = "") -> ImportReport:
        self._note("take_in", tenant)
        async for piece in log:
            self.taken += piece
        return ImportReport(session="job:x", tenant=tenant or "acme", events=1, runs=())

    async def prune(self, before: float, *, dry_run: bool = False) -> PruneReport:
        self._note("prune", before, dry_run)
        return PruneReport(before=before, dry_run=dry_run, sessions=1, runs=2, events=3)


class Runs:
    """One run of acme's, which notes what it is told."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.failing = failing
        self.asked: list[tuple[Any, ...]] = []

    async def view(self, run: str) -> RunView:
        if run != "r":
            raise UnknownRun(f"there is no run {run}")
        return RunView(
            run=run,
            agent="a",
            model="m",
            tenant="acme",
            job="",
            priority="standard",
            state=State.RUNNING,
            observed="running",
            reason=None,
            created=0.0,
            started=0.0,
            ended=None,
            rounds=0,
            tool_calls=0,
            usage=Usage(),
            micro_dollars=None,
            message="",
        )

    async def message(self, run: str, content: str, *, key: str = "") -> RunView:
        return await self._note(run, content, key)

    async def grant(self, run: str, limits: Limits, *, key: str = "") -> RunView:
        return await self._note(run, limits, key)

    async def _note(self, *asked: Any) -> RunView:
        self.asked.append(asked)
        if self.failing is not None:
            raise self.failing
        return await self.view(asked[0])


class Asking:
    """The whole surface, asked with the keys of two tenants and an admin."""

    def __init__(self, sessions: Sessions | None = None, runs: Runs | None = None) -> None:
        ring = KeyRing()
        self.keys: dict[str, str] = {}
        for tenant, role in (("acme", "tenant"), ("web", "tenant"), ("ops", "admin")):
            ring, new = ring.add(tenant, 0.0, role=role)  # type: ignore[arg-type]
            self.keys[tenant] = new.text
        services = make_services(
            sessions=sessions or Sessions(), runs=runs or Runs(), identify=Identity(lambda: ring, lambda: 1.0)
        )
        self.app = make_app(msgspec.structs.replace(services, wall=lambda: 1_000_000.0))

    async def ask(self, who: str, method: str, path: str, body: bytes | None = None) -> Exchange:
        return await ask(self.app, method, path, body, {"authorization": f"Bearer {self.keys[who]}"})


async def test_a_session_of_another_tenant_is_not_there():
    """Shown or written out: for another tenant's key it is 404, word for word as an unknown name."""
    http = Asking()
    for path in ("/api/sessions/{}", "/api/sessions/{}/export"):
        foreign, unknown = [await http.ask("web", "GET", path.format(name)) for name in "ab"]
        assert (foreign.status, unknown.status) == (404, 404)
        assert foreign.body.replace(b"session a", b"session b") == unknown.body
        for who in ("acme", "ops"):
            assert (await http.ask(who, "GET", path.format("a"))).status == 200


async def test_a_list_holds_what_is_the_keys_own():
    """A tenant's key lists its tenant's sessions whatever it asks for, and finds none of another's; an admin all."""
    sessions = Sessions()
    http = Asking(sessions)
    await http.ask("acme", "GET", "/api/sessions?cursor=c&size=7")
    await http.ask("acme", "GET", "/api/sessions?tenant=acme")
    foreign = await http.ask("acme", "GET", "/api/sessions?tenant=web")
    await http.ask("ops", "GET", "/api/sessions")
    await http.ask("ops", "GET", "/api/sessions?tenant=web")
    assert (foreign.status, foreign.json) == (200, {"sessions": [], "next": ""})
    assert sessions.asked == [
        ("page", "acme", "c", 7),
        ("page", "acme", "", 100),
        ("page", "", "", 100),
        ("page", "web", "", 100),
    ]
    for wrong in ("size=0", "size=1001", "tenent=web"):
        assert (await http.ask("ops", "GET", f"/api/sessions?{wrong}")).status == 400


async def test_a_log_comes_out_as_lines():
    """The export is JSON Lines, whole, and word for word what the service says."""
    exported = await Asking().ask("acme", "GET", "/api/sessions/a/export")
    assert (exported.header("content-type"), exported.body, exported.whole) == ("application/x-ndjson", LOG, True)


async def test_a_store_that_fails_at_once_is_no_broken_answer():
    """An export that cannot begin has a status of its own instead of a body that is cut off."""
    answer = await Asking(Sessions(StoreClosed("the store has failed"))).ask("acme", "GET", "/api/sessions/a/export")
    assert (answer.status, answer.error["kind"]) == (503, "store_closed")


async def test_only_an_admin_brings_a_log_in():
    """A tenant's key is refused before anything is read, since a log says whose it is and what it may use."""
    sessions = Sessions()
    http = Asking(sessions)
    refused = await http.ask("acme", "POST", "/api/sessions", LOG)
    assert (refused.status, refused.error["kind"], sessions.asked) == (403, "forbidden", [])
    taken = await http.ask("ops", "POST", "/api/sessions?tenant=web", LOG)
    assert (taken.status, taken.json["tenant"], sessions.taken) == (201, "web", LOG)
    assert taken.header("location") == "/api/sessions/job%3Ax"
    assert (await http.ask("ops", "POST", "/api/sessions?tenant=no%20name", LOG)).status == 400


async def test_only_an_admin_prunes():
    """What is old is counted back from the daemon's clock; without a span nothing is removed."""
    sessions = Sessions()
    http = Asking(sessions)
    assert (await http.ask("acme", "POST", "/api/prune?older_than=86400")).status == 403
    for query in ("", "?older_than=0", "?older_than=-5", "?older_than=nan", "?older_than=1e12", "?older_than=soon"):
        assert (await http.ask("ops", "POST", f"/api/prune{query}")).status == 400
    assert sessions.asked == []
    report = await http.ask("ops", "POST", "/api/prune?older_than=86400&dry_run=true")
    assert (report.status, report.json["sessions"]) == (200, 1)
    await http.ask("ops", "POST", "/api/prune?older_than=86400")
    assert sessions.asked == [("prune", 913_600.0, True), ("prune", 913_600.0, False)]


async def test_a_run_is_told_and_granted_more():
    """What is said and what is granted arrive with the client's key, for a run that is the client's own only."""
    runs = Runs()
    http = Asking(runs=runs)
    told = await http.ask("acme", "POST", "/api/runs/r/messages", b'{"content": "long ones", "key": "k"}')
    granted = await http.ask("ops", "POST", "/api/runs/r/grant", b'{"limits": {"rounds": 9}}')
    assert (told.status, told.json["run"], granted.status) == (200, "r", 200)
    assert runs.asked == [("r", "long ones", "k"), ("r", Limits(rounds=9), "")]
    for path, body in (("messages", b'{"content": "x"}'), ("grant", b'{"limits": {"rounds": 9}}')):
        assert (await http.ask("web", "POST", f"/api/runs/r/{path}", body)).status == 404
        assert (await http.ask("ops", "POST", f"/api/runs/q/{path}", body)).status == 404
    nonsense = await http.ask("acme", "POST", "/api/runs/r/grant", b'{"limits": {"rounds": 0}}')
    assert (nonsense.status, nonsense.error["field"]) == (400, "rounds")
    assert len(runs.asked) == 2


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RunOver("run r has ended"), 409),
        (SessionBusy("run q of the session is open"), 409),
        (DuplicateSession("there is a session s already"), 409),
        (StoreFull("there is no room on the disk"), 507),
        (StoreUnusable("it is damaged"), 507),
        (StoreError("it cannot"), 507),
        (Conflict("s", 1, 2), 409),
        (UnknownEvent("the log holds an event that this version cannot read"), 409),
        (CannotContinue("another agent worked in this session"), 409),
        (UnknownSession("there is no session s"), 404),
        (Fenced("s", 1, 2), 503),
        (StoreLocked("another process has it"), 503),
        (StoreAway("connection refused"), 503),
        (StoreClosed("it has failed"), 503),
        (BadRequest("no"), 400),
    ],
)
async def test_what_a_store_cannot_do_is_told_in_its_words(error: Exception, status: int):
    """Every error of the store has its status, and its sentence reaches the client."""
    http = Asking(Sessions(error), Runs(error))
    for method, path, body in (
        ("POST", "/api/runs/r/messages", b'{"content": "x"}'),
        ("POST", "/api/sessions", LOG),
        ("POST", "/api/prune?older_than=60", None),
        ("GET", "/api/sessions", None),
    ):
        answer = await http.ask("ops", method, path, body)
        assert (answer.status, answer.error["message"]) == (status, str(error))
