"""What a client asks of sessions: sent once, or twice where that is harmless, and read whole."""

from collections.abc import AsyncGenerator

import httpx2
import msgspec
import pytest

from agents.amounts import Limits
from orchestrator.client.errors import DaemonLost, Refusal
from orchestrator.views.sessions import ImportReport, PruneReport, SessionDetail, SessionPage, SessionView
from tests.client.fake_daemon import Answer, FakeDaemon, answered, refused, run_detail, talking


def session_view(session: str = "s", **more: object) -> SessionView:
    fields = {"tenant": "t", "events": 3, "generation": 1, "holder": "", "created": 0.0, "updated": 1.0}
    return SessionView(session=session, **{**fields, **more})  # type: ignore[arg-type]


async def test_what_is_said_to_a_run_is_said_once() -> None:
    """A message whose answer was lost is sent again under the same key, and the next message has another."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs/r/messages", httpx2.ReadError("lost"), answered(run_detail()))
    async with talking(daemon) as client:
        assert (await client.message_run("r", "only long ones")).run == "r"
        await client.message_run("r", "only long ones")
    bodies = [msgspec.json.decode(request.content) for request in daemon.asked]
    assert [body["content"] for body in bodies] == ["only long ones"] * 3
    assert bodies[0]["key"] == bodies[1]["key"] != bodies[2]["key"] != ""


async def test_a_grant_names_what_is_granted_and_has_a_key() -> None:
    """Limits that were not given stay out of the daemon's way, and a lost answer grants nothing twice."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs/r/grant", httpx2.ReadError("lost"), answered(run_detail()))
    async with talking(daemon) as client:
        await client.grant_run("r", Limits(rounds=10))
    first, second = (msgspec.json.decode(request.content) for request in daemon.asked)
    assert first == second
    assert {name: limit for name, limit in first["limits"].items() if limit is not None} == {"rounds": 10}


async def test_sessions_are_asked_for_by_page() -> None:
    """Tenant, cursor and size go into the query, and what is empty is left out."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/sessions", answered(SessionPage(sessions=(session_view(),), next="s")))
    daemon.on("GET", "/api/sessions/job:j", answered(SessionDetail(**msgspec.structs.asdict(session_view("job:j")))))
    async with talking(daemon) as client:
        page = await client.sessions(tenant="t", size=1)
        await client.sessions(cursor=page.next)
        assert (await client.session("job:j")).session == "job:j"
    assert [dict(request.url.params) for request in daemon.asked[:2]] == [
        {"size": "1", "tenant": "t"},
        {"size": "100", "cursor": "s"},
    ]
    assert daemon.asked[2].url.raw_path == b"/api/sessions/job%3Aj"


async def test_a_log_goes_up_as_it_is_read_and_once() -> None:
    """An import is streamed, for the tenant that was named, and never sent a second time by itself."""
    daemon, seen = FakeDaemon(), bytearray()

    async def take(request: httpx2.Request) -> Answer:
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        async for piece in request.stream:
            seen.extend(piece)
        return answered(ImportReport(session="s", tenant="web", events=2, runs=("r",)), 201)

    async def lines() -> AsyncGenerator[bytes, None]:
        for piece in (b"one\n", b"two", b"\n"):
            yield piece

    daemon.on("POST", "/api/sessions", take, httpx2.ReadError("lost"))
    async with talking(daemon) as client:
        assert (await client.import_session(lines(), tenant="web")).runs == ("r",)
        with pytest.raises(DaemonLost):
            await client.import_session(lines())
    assert bytes(seen) == b"one\ntwo\n"
    assert [dict(request.url.params) for request in daemon.asked] == [{"tenant": "web"}, {}]


async def test_pruning_is_never_sent_twice() -> None:
    """A prune whose answer was lost is told: done again it would report that there was nothing."""
    daemon = FakeDaemon()
    report = PruneReport(before=1.0, dry_run=True, sessions=1, runs=2, events=3)
    daemon.on("POST", "/api/prune", answered(report), httpx2.ReadError("lost"))
    async with talking(daemon) as client:
        assert await client.prune(86400.0, dry_run=True) == report
        with pytest.raises(DaemonLost):
            await client.prune(86400.0)
    assert [dict(request.url.params) for request in daemon.asked] == [
        {"older_than": "86400.0", "dry_run": "true"},
        {"older_than": "86400.0", "dry_run": "false"},
    ]


async def test_a_busy_session_is_a_refusal_that_waiting_is_not_for() -> None:
    """`session_busy` arrives as what it is; a run that is open may be so for hours, so nobody waits by himself."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs/r/messages", refused(409, "session_busy", "run q of session s is open"))
    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="run q of session s is open") as caught:
            await client.message_run("r", "x")
    assert (caught.value.kind, caught.value.passing) == ("session_busy", False)
