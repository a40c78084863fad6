"""A surface in a thread over sessions that a test fills in: what commands say and send, without a daemon behind it."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
import trio

from agents.amounts import Limits
from agents.lifecycle import State
from agents.runtime import UnknownRun
from orchestrator.api.app import make_app
from orchestrator.api.server import serve_http
from orchestrator.api.surface import HttpConfig
from orchestrator.runs.errors import RunOver
from orchestrator.store.errors import DuplicateSession, SessionBusy, UnknownSession
from orchestrator.views.runs import RunDetail, RunRequest, RunView
from orchestrator.views.sessions import ExportHeader, ExportLine, ImportReport, PruneReport, SessionDetail, SessionPage
from tests.api.surface_rig import make_services
from tests.client.fake_daemon import run_detail

SECONDS = 30


class KeptRuns:
    """Run `live` works, run `over` has ended, both in session `letters`. Session `busy` takes no run."""

    def __init__(self) -> None:
        self.started: list[RunRequest] = []
        self.said: list[tuple[str, Any]] = []

    async def start(self, request: RunRequest) -> RunView:
        if request.session == "busy":
            raise SessionBusy("run live of session busy is open")
        self.started.append(request)
        return as_view(run_detail(run=request.run, session=request.session))

    async def view(self, run: str) -> RunView:
        return as_view(await self.detail(run))

    async def detail(self, run: str) -> RunDetail:
        if run == "live":
            return run_detail(run=run, session="letters", state=State.RUNNING, observed="running", reason=None)
        if run == "over":
            return run_detail(run=run, session="letters")
        raise UnknownRun(f"there is no run {run}")

    async def message(self, run: str, content: str, *, key: str = "") -> RunView:
        return await self._say(run, content)

    async def grant(self, run: str, limits: Limits, *, key: str = "") -> RunView:
        return await self._say(run, limits)

    async def _say(self, run: str, said: Any) -> RunView:
        detail = await self.detail(run)
        if detail.reason is not None:
            raise RunOver(f"run {run} has ended")
        self.said.append((run, said))
        return as_view(detail)


class KeptSessions:
    """Sessions as lists of events; `pruned` is what was asked."""

    def __init__(self) -> None:
        self.logs = {"letters": [b'{"type":"run_created","run":"over"}', b'{"type":"odd"}']}
        self.pruned: list[tuple[float, bool]] = []

    async def view(self, session: str) -> SessionDetail:
        if session not in self.logs:
            raise UnknownSession(f"there is no session {session}")
        runs = (as_view(run_detail(run="over", session=session)),)
        return SessionDetail(
            session=session,
            tenant="default",
            events=len(self.logs[session]),
            generation=1,
            holder="",
            created=0.0,
            updated=0.0,
            runs=runs,
            total=3,
        )

    async def page(self, *, tenant: str = "", cursor: str = "", size: int = 100) -> SessionPage:
        names = [name for name in sorted(self.logs) if name > cursor and tenant in ("", "default")]
        views = tuple([await self.view(name) for name in names[:size]])
        return SessionPage(sessions=views, next=names[size - 1] if len(names) > size else "")

    async def export(self, session: str) -> AsyncGenerator[bytes, None]:
        log = self.logs[session]
        yield msgspec.json.encode(ExportHeader(session=session, tenant="default", events=len(log))) + b"\n"
        for number, event in enumerate(log, 1):
            yield msgspec.json.encode(ExportLine(number=number, event=msgspec.Raw(event))) + b"\n"

    async def take_in(self, log: AsyncIterator[bytes], *, tenant: str = "") -> ImportReport:
        lines = b"".join([piece async for piece in log]).splitlines()
        header = msgspec.json.decode(lines[0], type=ExportHeader)
        if header.session in self.logs:
            raise DuplicateSession(f"there is a session {header.session} already")
        self.logs[header.session] = [bytes(msgspec.json.decode(line, type=ExportLine).event) for line in lines[1:]]
        whose = tenant or header.tenant
        return ImportReport(session=header.session, tenant=whose, events=header.events, runs=("over",))

    async def prune(self, before: float, *, dry_run: bool = False) -> PruneReport:
        self.pruned.append((before, dry_run))
        return PruneReport(before=before, dry_run=dry_run, sessions=1, runs=2, events=3456, calls=7)


def as_view(detail: RunDetail) -> RunView:
    return RunView(**{name: getattr(detail, name) for name in RunView.__struct_fields__})


class KeptThread:
    """These runs and sessions, served on a free port in a thread until `close`."""

    def __init__(self) -> None:
        self.runs = KeptRuns()
        self.sessions = KeptSessions()
        self.url = ""
        self._token: trio.lowlevel.TrioToken | None = None
        self._closing = trio.Event()
        up = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._serve, up), daemon=True)
        self._thread.start()
        assert up.wait(SECONDS)

    def close(self) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._closing.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    async def _serve(self, up: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._closing = trio.Event()
        config = HttpConfig(port=0, grace_seconds=0.2)
        services = make_services(runs=self.runs, sessions=self.sessions)
        app = make_app(services, config, closing=self._closing)
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
                await serve_http(app, config, closing=self._closing, task_status=task_status)

            (self.url,) = await nursery.start(serve)
            up.set()
