"""Child runs of a run that a worker drives: the daemon drives them, and the worker waits for their ends."""

from contextlib import suppress
from typing import Any

from agents.errors import HeadraceError
from agents.origin import RunLeft
from agents.result import RunResult
from agents.spawner import Child, ChildRequest, Spent
from orchestrator.client.errors import Refusal
from orchestrator.views.workers import LONGEST_HOLD, ChildAnswer, ChildStart, ChildStep
from orchestrator.worker.hold import Hold
from orchestrator.worker.mirror import Mirror


class ClaimSpawner:
    """Implements `agents.spawner.Spawner` under a claim. What children use is counted in `mirror`."""

    def __init__(self, hold: Hold, mirror: Mirror) -> None:
        self._hold = hold
        self._mirror = mirror

    async def start(self, child: ChildRequest) -> Child:
        """See `agents.spawner.Spawner`. Also raises what `Hold.ask` raises."""
        started = ClaimChild(self._hold, self._mirror, child)
        await started.begin()
        return started


class ClaimChild:
    """Implements `agents.spawner.Child` for a run that the daemon drives."""

    def __init__(self, hold: Hold, mirror: Mirror, child: ChildRequest) -> None:
        self._hold = hold
        self._mirror = mirror
        self._child = child
        self._answer = ChildAnswer()

    async def begin(self) -> None:
        """Has it started, or joins what there is. Raises `HeadraceError` where there can be none."""
        self._heard(await self._hold.ask(ChildAnswer, "children", body=self._request()))

    async def wait(self) -> RunResult:
        while self._answer.result is None:
            if self._answer.left:
                raise RunLeft(self._answer.left)
            try:
                self._heard(await self._step("wait"))
            except Refusal:  # it may be another daemon by now, to which it must be named
                await self.begin()
        return self._answer.result

    async def cancel(self) -> None:
        await self._let_go("cancel")

    async def leave(self) -> None:
        await self._let_go("leave")

    def spent(self) -> Spent:
        return self._answer.spent

    async def _let_go(self, what: str) -> None:
        with suppress(HeadraceError):  # its parent's end, or the next executor, finds it by its id
            self._heard(await self._step(what))

    async def _step(self, what: Any) -> ChildAnswer:
        step = ChildStep(claim=self._hold.claim, child=self._child.run, what=what)
        return await self._hold.ask(ChildAnswer, "children", "step", body=step, hold=LONGEST_HOLD)

    def _request(self) -> ChildStart:
        return ChildStart(claim=self._hold.claim, child=self._child)

    def _heard(self, answer: ChildAnswer) -> None:
        if answer.refused:
            raise HeadraceError(answer.refused)
        before, self._answer = self._answer.spent, answer
        self._mirror.count(answer.spent.used - before.used, answer.spent.unknown - before.unknown)
