"""One tool call that has a run of its own: the run started, waited for, and ended or left with the call.

Depth and width are bounded before anything is started, and the log of the parent names the child before it exists. So
whoever ends the parent knows what there may be below it.

While it waits the parent holds no call to a model. Where its call is cut off, the child's fate is the parent's: left
open where the parent is left open, and taken away in every other case.
"""

from typing import Final

import trio

from agents.amounts import Limits
from agents.errors import HeadraceError
from agents.events import ChildStarted
from agents.open_step import OpenStep
from agents.origin import RunLeft
from agents.result import RunResult
from agents.run_state import RunState
from agents.spawner import Child, ChildRequest, Spawner, Spent
from agents.tools import ToolError

NOBODY: Final = "whoever runs this starts no runs for others"


def child_of(key: str) -> str:
    """The id of the run that belongs to the tool call of this key."""
    return key.replace("/", ".")


class Delegation:
    """What a tool call may start. `grace` is in seconds: how long a child that is taken away has to end."""

    __slots__ = ("_child", "_grace", "_index", "_key", "_state", "_step")

    def __init__(self, state: RunState, step: OpenStep, index: int, grace: float) -> None:
        self._state = state
        self._step = step
        self._index = index
        self._key = step.key(state.run, index)
        self._grace = grace
        self._child: Child | None = None

    @property
    def spent(self) -> Spent:
        """What the call's child has used so far; nothing without one."""
        return Spent() if self._child is None else self._child.spent()

    async def run(self, agent: str, task: str, limits: Limits, *, depth: int, width: int) -> RunResult:
        """How the child ended. Raises `ToolError` where there is none."""
        state, run = self._state, child_of(self._key)
        spawner = self._allowed(run, depth, width)
        await self._announce(run)
        request = ChildRequest(
            run=run, parent=state.run, key=self._key, depth=state.depth + 1, agent=agent, task=task, limits=limits
        )
        try:
            child = self._child = await spawner.start(request)
            return await self._end_of(child)
        except HeadraceError as error:
            await trio.lowlevel.checkpoint()  # where the parent is left the call stays open
            raise ToolError(f"There is no run of agent {agent}: {error.message}") from error

    def _allowed(self, run: str, depth: int, width: int) -> Spawner:
        state, spawner = self._state, self._state.spawner
        if spawner is None:
            raise ToolError(f"No run was started: {NOBODY}.")
        if run in state.children:
            return spawner
        if state.depth >= depth:
            raise ToolError(f"No run was started: at most {depth} may be above it. Do the work here.")
        if len(state.children) >= width:
            raise ToolError(f"No run was started: this run has started {len(state.children)}, and may start no more.")
        return spawner

    async def _announce(self, run: str) -> None:
        state = self._state
        if run in state.children:
            return
        state.children.add(run)
        event = ChildStarted(
            run=state.run, at=state.wall(), step=self._step.number, index=self._index, key=self._key, child=run
        )
        if not await state.log.append(event, unless=lambda: state.ending):
            state.children.discard(run)
            await trio.sleep_forever()  # the call is cut off now

    async def _end_of(self, child: Child) -> RunResult:
        state = self._state
        try:
            return await child.wait()
        except RunLeft:
            state.leave()
            return await trio.sleep_forever()
        except trio.Cancelled:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + self._grace):
                await state.hear_why()
                await (child.leave() if state.leaving or state.log.lost else child.cancel())
            raise
