"""What the HTTP surface needs so that worker processes can drive runs."""

from typing import ClassVar, NoReturn, Protocol

import trio

from agents.errors import HeadraceError
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


class NoPool(HeadraceError):
    """This daemon drives its runs itself."""

    kind: ClassVar[str] = "no_pool"


class Workers(Protocol):
    """The pool of worker processes. Whatever names a run raises `ClaimGone` for a claim to it that does not count (any
    more), and `NotYet` while it cannot be said whether it does; every method raises `Draining` once the daemon ends.
    """

    async def poll(self, request: PollRequest) -> PollAnswer:
        """A worker's sign of life; answered when there is something to do, or after a while."""
        ...

    def tools(self) -> ToolTables: ...

    def seen(self) -> WorkerList: ...

    async def begin(self, run: str, request: ClaimRequest) -> RunMaterial: ...

    async def append(self, run: str, request: AppendRequest) -> AppendAnswer:
        """Raises `StoreError`; the same batch may be sent again then."""
        ...

    async def room(self, run: str, request: RoomRequest) -> RoomAnswer: ...

    async def call(self, run: str, request: WorkerCallRequest) -> WorkerCallAnswer: ...

    async def leave_call(self, run: str, request: CallLeave) -> WorkerCallAnswer: ...

    async def late(self, run: str, request: LateRequest) -> Done: ...

    async def left(self, run: str, request: LeftRequest) -> Done: ...

    async def start_child(self, run: str, request: ChildStart) -> ChildAnswer: ...

    async def step_child(self, run: str, request: ChildStep) -> ChildAnswer:
        """Raises `UnknownChild` for one that was not started here: to be started first, which joins what there is."""
        ...


class NoWorkers:
    """Implements `Workers` for a daemon that drives its runs itself: there are none, and all else is refused."""

    async def poll(self, request: PollRequest) -> PollAnswer:
        return await _refused()

    def tools(self) -> ToolTables:
        raise _no_pool()

    def seen(self) -> WorkerList:
        return WorkerList(workers=(), waiting=0)

    async def begin(self, run: str, request: ClaimRequest) -> RunMaterial:
        return await _refused()

    async def append(self, run: str, request: AppendRequest) -> AppendAnswer:
        return await _refused()

    async def room(self, run: str, request: RoomRequest) -> RoomAnswer:
        return await _refused()

    async def call(self, run: str, request: WorkerCallRequest) -> WorkerCallAnswer:
        return await _refused()

    async def leave_call(self, run: str, request: CallLeave) -> WorkerCallAnswer:
        return await _refused()

    async def late(self, run: str, request: LateRequest) -> Done:
        return await _refused()

    async def left(self, run: str, request: LeftRequest) -> Done:
        return await _refused()

    async def start_child(self, run: str, request: ChildStart) -> ChildAnswer:
        return await _refused()

    async def step_child(self, run: str, request: ChildStep) -> ChildAnswer:
        return await _refused()


NO_WORKERS = NoWorkers()


def _no_pool() -> NoPool:
    return NoPool(
        'this daemon drives its runs itself; for worker processes its file needs [pool] with kind = "workers"'
    )


async def _refused() -> NoReturn:
    await trio.lowlevel.checkpoint()
    raise _no_pool()
