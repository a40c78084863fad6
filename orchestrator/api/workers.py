"""`/api/workers`: what worker processes are given, and what they tell. All of it needs an admin's key."""

from typing import Any, Final, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.routing import Route

from orchestrator.api.identity import client_of
from orchestrator.api.operations import Handler, Operation
from orchestrator.api.services import Services
from orchestrator.api.worker_services import Workers
from orchestrator.views.workers import (
    AppendAnswer,
    AppendRequest,
    CallLeave,
    ChildAnswer,
    ChildStart,
    ChildStep,
    ClaimRequest,
    Done,
    LateRequest,
    LeftRequest,
    PollAnswer,
    PollRequest,
    RoomAnswer,
    RoomRequest,
    RunMaterial,
    ToolTables,
    WorkerCallAnswer,
    WorkerCallRequest,
    WorkerList,
)

_RUN: Final = "/api/workers/runs/{run}"
_CLAIMED: Final = (403, 404, 409, 503)

T = TypeVar("T", bound=Struct)


class _Desk:
    """What is done for each operation."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers

    async def poll_for_runs(self, request: Request, body: PollRequest) -> PollAnswer:
        _check(request)
        return await self._workers.poll(body)

    async def worker_tools(self, request: Request) -> ToolTables:
        _check(request)
        return self._workers.tools()

    async def list_workers(self, request: Request) -> WorkerList:
        _check(request)
        return self._workers.seen()

    async def begin_run(self, request: Request, body: ClaimRequest) -> RunMaterial:
        return await self._workers.begin(_run_of(request), body)

    async def append_events(self, request: Request, body: AppendRequest) -> AppendAnswer:
        return await self._workers.append(_run_of(request), body)

    async def wait_for_room(self, request: Request, body: RoomRequest) -> RoomAnswer:
        return await self._workers.room(_run_of(request), body)

    async def make_call(self, request: Request, body: WorkerCallRequest) -> WorkerCallAnswer:
        return await self._workers.call(_run_of(request), body)

    async def leave_call(self, request: Request, body: CallLeave) -> WorkerCallAnswer:
        return await self._workers.leave_call(_run_of(request), body)

    async def tell_late(self, request: Request, body: LateRequest) -> Done:
        return await self._workers.late(_run_of(request), body)

    async def tell_left(self, request: Request, body: LeftRequest) -> Done:
        return await self._workers.left(_run_of(request), body)

    async def start_child(self, request: Request, body: ChildStart) -> ChildAnswer:
        return await self._workers.start_child(_run_of(request), body)

    async def step_child(self, request: Request, body: ChildStep) -> ChildAnswer:
        return await self._workers.step_child(_run_of(request), body)


def routes(services: Services) -> list[Route]:
    """The routes under `/api/workers`."""
    desk = _Desk(services.workers)
    return [
        _post(f"{_RUN}/append", desk.append_events, "Append to the log of a claimed run", AppendRequest, AppendAnswer),
        _post(
            f"{_RUN}/call", desk.make_call, "Make or join a model call", WorkerCallRequest, WorkerCallAnswer, waits=True
        ),
        _post(
            "/api/workers/poll",
            desk.poll_for_runs,
            "Ask for runs",
            PollRequest,
            PollAnswer,
            waits=True,
            errors=(403, 404, 409, 503),
        ),
        _post(f"{_RUN}/begin", desk.begin_run, "Begin to drive a claimed run", ClaimRequest, RunMaterial),
        _post(f"{_RUN}/room", desk.wait_for_room, "Wait for room in its budgets", RoomRequest, RoomAnswer, waits=True),
        _post(f"{_RUN}/call/leave", desk.leave_call, "Leave a model call", CallLeave, WorkerCallAnswer),
        _post(f"{_RUN}/late", desk.tell_late, "Tell what an abandoned call came to", LateRequest, Done),
        _post(f"{_RUN}/left", desk.tell_left, "Tell that a run is driven no longer", LeftRequest, Done),
        _post(f"{_RUN}/children", desk.start_child, "Start or join a run below a run", ChildStart, ChildAnswer),
        _post(
            f"{_RUN}/children/step",
            desk.step_child,
            "Wait for, cancel or leave a run below",
            ChildStep,
            ChildAnswer,
            waits=True,
        ),
        Operation(
            "GET",
            "/api/workers/tools",
            desk.worker_tools,
            "Show the tools' tables",
            answer=ToolTables,
            errors=(403, 404),
        ).route(),
        Operation(
            "GET", "/api/workers", desk.list_workers, "List worker processes", answer=WorkerList, errors=(403,)
        ).route(),
    ]


def _post(path: str, handler: Handler, summary: str, body: type[T], answer: Any, **more: Any) -> Route:
    return Operation(
        "POST", path, handler, summary, body=body, answer=answer, errors=more.pop("errors", _CLAIMED), **more
    ).route()


def _run_of(request: Request) -> str:
    _check(request)
    return str(request.path_params["run"])


def _check(request: Request) -> None:
    client_of(request.scope).require_admin("working for this daemon")
