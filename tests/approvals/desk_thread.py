"""Runs that ask people, served in a thread, so that commands run in the test's own."""

import threading
import time

import trio
from msgspec.structs import replace

from agents.scripted import Script
from orchestrator.api.app import make_app
from orchestrator.api.server import serve_http
from orchestrator.api.surface import HttpConfig
from orchestrator.runs.service import RunService
from orchestrator.views.runs import RunRequest
from tests.api.surface_rig import capabilities, make_services
from tests.approvals.asking_people import CLERK, Desk
from tests.runs.running import ScriptedModels

SECONDS = 30


class DeskThread:
    """A run service over a script, and its surface on a free port, until `close`."""

    def __init__(self, script: Script) -> None:
        self.desk = Desk()
        self.url = ""
        self._script = script
        self._closing = trio.Event()
        self._up = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self.service: RunService | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._serve,), daemon=True)
        self._thread.start()
        assert self._up.wait(SECONDS)

    def start(self, run: str) -> str:
        """Starts a run, and returns when it waits for people."""

        async def work() -> None:
            assert self.service is not None
            await self.service.start(RunRequest(task="x", who=CLERK, run=run))

        trio.from_thread.run(work, trio_token=self._token)
        self.until_waiting(run)
        return run

    def until_waiting(self, run: str) -> None:
        self._until(run, "waiting")

    def until_ended(self, run: str) -> None:
        self._until(run, "completed")

    def _until(self, run: str, state: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not self._state(run).startswith(state):
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def _state(self, run: str) -> str:
        async def look() -> str:
            assert self.service is not None
            known = {view.run: view.state.value for view in (await self.service.page()).runs}
            return known.get(run, "")

        return trio.from_thread.run(look, trio_token=self._token)

    def close(self) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._closing.set)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._closing = trio.Event()
        config = HttpConfig(port=0, grace_seconds=0.2)
        async with trio.open_nursery() as nursery:
            catalogue = self.desk.catalogue
            service = self.service = RunService(
                nursery, models=ScriptedModels(self._script, 0.0), catalogue=lambda: catalogue
            )
            services = make_services(
                runs=service,
                approvals=service.approvals,
                capabilities=lambda: replace(capabilities(), agents=("clerk",)),
            )
            app = make_app(services, config, closing=self._closing)

            async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
                await serve_http(app, config, closing=self._closing, task_status=task_status)

            async with trio.open_nursery() as surface:
                (self.url,) = await surface.start(serve)
                self._up.set()
            await service.end_all()
