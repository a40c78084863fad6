"""Calls that were abandoned: of their run nobody waits for them any more, but they are still at work.

A run that ends while one of them is at work has been acknowledged, but is not quiescent. What each comes to is told to
the run's journal when it ends, as evidence: the call was answered long before, and that answer stays.
"""

from collections.abc import Callable
from typing import Literal

from agents.events import ToolLate, ToolStarted
from agents.log import Log
from agents.snapshot import RunSnapshot


class Abandoned:
    """The abandoned calls of one run."""

    __slots__ = ("_at_work", "_log", "_wall")

    def __init__(self, log: Log, wall: Callable[[], float]) -> None:
        self._log = log
        self._wall = wall
        self._at_work: set[str] = set()

    @property
    def quiescent(self) -> bool:
        """Whether none of them is at work any more."""
        return not self._at_work

    def watch(self, started: ToolStarted) -> "Watch":
        """For one call of the run, in case that it must be abandoned."""
        return Watch(self, started)

    def add(self, started: ToolStarted) -> None:
        """The call is abandoned from here on."""
        self._at_work.add(started.key)

    async def ended(self, started: ToolStarted, outcome: Literal["ok", "error"], content: str) -> None:
        """The call has come to its end, and what that was. Never fails: evidence that cannot be kept is lost."""
        self._at_work.discard(started.key)
        await self._log.late(
            ToolLate(
                run=started.run,
                at=self._wall(),
                step=started.step,
                index=started.index,
                call=started.call,
                name=started.name,
                key=started.key,
                outcome=outcome,
                content=content,
                quiescent=self.quiescent,
            )
        )


def quiescent_since(run: RunSnapshot) -> float | None:
    """When an ended run's last work was over, in seconds since the epoch; None while some of it may be going on."""
    if run.ended is None or run.ended.quiescent:
        return None if run.ended is None else run.ended.at
    return next((late.at for late in run.late if late.quiescent and late.at >= run.ended.at), None)


class Watch:
    """What happens to one call once nobody waits for it."""

    __slots__ = ("_calls", "_started")

    def __init__(self, calls: Abandoned, started: ToolStarted) -> None:
        self._calls = calls
        self._started = started

    def abandoned(self) -> None:
        """Nobody waits for the call any more."""
        self._calls.add(self._started)

    async def ended(self, outcome: Literal["ok", "error"], content: str) -> None:
        """It has ended after all."""
        await self._calls.ended(self._started, outcome, content)
