"""A worker's way to a pool in this process: what it asks goes to the pool's methods, and can get lost on its way."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import msgspec
import trio

from agents.errors import HeadraceError
from orchestrator.api.errors import error_json, status_of
from orchestrator.api.worker_services import Workers
from orchestrator.client.wire import Wire
from orchestrator.views.workers import (
    AppendRequest,
    CallLeave,
    ChildStart,
    ChildStep,
    ClaimRequest,
    LateRequest,
    LeftRequest,
    PollRequest,
    RoomRequest,
    WorkerCallRequest,
)

URL = "http://daemon.test:8700"
_RUN = re.compile(r"/api/workers/runs/([^/]+)/(.+)")
_ASKED: dict[str, tuple[str, Any]] = {
    "begin": ("begin", ClaimRequest),
    "append": ("append", AppendRequest),
    "room": ("room", RoomRequest),
    "call": ("call", WorkerCallRequest),
    "call/leave": ("leave_call", CallLeave),
    "late": ("late", LateRequest),
    "left": ("left", LeftRequest),
    "children": ("start_child", ChildStart),
    "children/step": ("step_child", ChildStep),
}


class PoolTransport(httpx2.AsyncBaseTransport):
    """Asks the `pool` that is there; None: nothing listens. `lose` says of an answer that it gets lost on its way.

    `asked` is all that came, by the last words of its path.
    """

    def __init__(self, pool: Workers | None = None) -> None:
        self.pool = pool
        self.asked: list[str] = []
        self.lose: Callable[[str], bool] = lambda what: False
        self._change = trio.Event()

    def serve(self, pool: Workers | None) -> None:
        """From here on this one answers; what is under way with another breaks off."""
        self.pool = pool
        change, self._change = self._change, trio.Event()
        change.set()

    def wire(self) -> Wire:
        return Wire(URL, self)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await trio.lowlevel.checkpoint()
        if self.pool is None:
            raise httpx2.ConnectError("refused")
        found = _RUN.fullmatch(request.url.path)
        what = found[2] if found is not None else request.url.path.rpartition("/")[2]
        self.asked.append(what)
        answer: Any = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._break_off, nursery.cancel_scope, self._change)
            answer = await self._answer(self.pool, found, what, request.content)
            nursery.cancel_scope.cancel()
        if answer is None or self.lose(what):
            raise httpx2.ReadError("broken off")
        return answer

    async def _break_off(self, scope: trio.CancelScope, change: trio.Event) -> None:
        await change.wait()
        scope.cancel()

    async def _answer(self, pool: Workers, found: "re.Match[str] | None", what: str, body: bytes) -> httpx2.Response:
        try:
            if found is not None:
                name, kind = _ASKED[what]
                call: Awaitable[Any] = getattr(pool, name)(found[1], msgspec.json.decode(body, type=kind))
                said = await call
            elif what == "poll":
                said = await pool.poll(msgspec.json.decode(body, type=PollRequest))
            else:
                said = pool.tools()
        except HeadraceError as error:
            return httpx2.Response(status_of(error), content=error_json(error))
        return httpx2.Response(200, content=msgspec.json.encode(said))
