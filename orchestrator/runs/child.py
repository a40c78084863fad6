"""One child run, driven in a task of the service for as long as its parent's call waits for it.

What it uses is counted in a scope of its own, which stands below its parent's budget: so whatever it was charged with
before, and whatever it still holds, is known without asking who drives it now.
"""

from collections.abc import Callable

import trio

from agents.budget import Scope
from agents.origin import RunLeft
from agents.result import RunResult
from agents.spawner import Spent
from orchestrator.runs.live_runs import SHUTTING_DOWN, LiveRuns
from orchestrator.runs.record import RunRecord


class RunningChild:
    """Implements `agents.spawner.Child` for a run that has not ended.

    `ended` says that nobody drives it for this call any more; `on_end` is called then.
    """

    def __init__(self, record: RunRecord, scope: Scope, live: LiveRuns, *, durable: bool) -> None:
        self._record = record
        self._scope = scope
        self._live = live
        self._durable = durable
        self._task = trio.CancelScope()
        self.ended = trio.Event()
        self.on_end: Callable[[], object] = lambda: None

    async def drive(self) -> None:
        """Until it has ended, or is left."""
        try:
            with self._task:
                await self._live.to_end(self._record)
        finally:
            self.on_end()
            self.ended.set()

    async def wait(self) -> RunResult:
        await self.ended.wait()
        if self._record.result is None:
            raise RunLeft(self._record.problem or f"{SHUTTING_DOWN}; run {self._record.run} stays open")
        return self._record.result

    async def cancel(self) -> None:
        self._task.cancel()
        await self.ended.wait()
        if not self._record.let_go:
            await self._record.wait()

    async def leave(self) -> None:
        if not self._durable:  # nobody could take it up
            await self.cancel()
            return
        self._record.let_go = True
        self._record.leave()
        if self._record.owner is not None:  # it waits for people
            self._record.owner.set()
        await self.ended.wait()

    def spent(self) -> Spent:
        return Spent(self._scope.used, self._scope.unknown + self._scope.reserved)


class EndedChild:
    """Implements `agents.spawner.Child` for a run that ended before it was asked for."""

    def __init__(self, result: RunResult, spent: Spent) -> None:
        self._result = result
        self._spent = spent

    async def wait(self) -> RunResult:
        await trio.lowlevel.checkpoint()
        return self._result

    async def cancel(self) -> None:
        await trio.lowlevel.checkpoint()

    async def leave(self) -> None:
        await trio.lowlevel.checkpoint()

    def spent(self) -> Spent:
        return self._spent
