"""Runtimes that are each bad in one way, made from a good one."""

import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import trio
from msgspec.structs import replace

from agents.errors import HeadraceError
from agents.lifecycle import State, StopReason
from agents.messages import Usage
from agents.observation import Observation
from agents.result import RunResult
from agents.runtime import Capabilities, DuplicateRun, Runtime, UnknownRun, Unsupported
from agents.runtime_material import Material, Subject
from tests.runtime.runtimes import local


class Good:
    """Passes everything on; what is bad about another one, it overrides."""

    def __init__(self, runtime: Runtime) -> None:
        self.good = runtime
        self.polls = 0
        self.restarted = False

    def capabilities(self) -> Capabilities:
        return self.good.capabilities()

    async def start(self, *args: Any, **kwargs: Any) -> str:
        return await self.good.start(*args, **kwargs)

    async def poll(self, run: str) -> Observation:
        self.polls += 1
        return await self.good.poll(run)

    async def cancel(self, run: str, reason: Any = "cancelled") -> Observation:
        return await self.good.cancel(run, reason)

    async def wait(self, run: str) -> RunResult:
        return await self.good.wait(run)


class GoesBack(Good):
    """Now and then a running run is queued again."""

    async def poll(self, run: str) -> Observation:
        seen = await super().poll(run)
        back = seen.observed == "running" and self.polls % 5 == 0
        return replace(seen, state=State.QUEUED) if back else seen


class ForgetsUsage(Good):
    """What has been settled is gone while a tool runs."""

    async def poll(self, run: str) -> Observation:
        seen = await super().poll(run)
        return replace(seen, usage=Usage()) if seen.state is State.WAITING_TOOL and self.polls % 3 == 0 else seen


class ChangesItsEnd(Good):
    """Each run that ended well turns out to have failed, a while later."""

    ended = 0

    async def poll(self, run: str) -> Observation:
        seen = await super().poll(run)
        self.ended += seen.terminal
        return replace(seen, state=State.FAILED, reason=StopReason.LOST) if self.ended > 2 and seen.terminal else seen


class FailsToCancelTheEnded(Good):
    """Cancelling a run that is over is an error."""

    async def cancel(self, run: str, reason: Any = "cancelled") -> Observation:
        if (await self.good.poll(run)).terminal:
            raise HeadraceError("the run is over")
        return await super().cancel(run, reason)


class AlwaysPending(Good):
    """An id that nobody knows is a run that has not begun."""

    async def poll(self, run: str) -> Observation:
        try:
            return await super().poll(run)
        except UnknownRun:
            return Observation(run, State.QUEUED)


class LosesInSilence(Good):
    """A run whose process is gone is shown as it was last seen."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.last: dict[str, Observation] = {}

    async def poll(self, run: str) -> Observation:
        if self.restarted:
            await trio.lowlevel.checkpoint()
            return self.last[run]
        self.last[run] = await super().poll(run)
        return self.last[run]


class PromisesToSurvive(Good):
    """Says that runs survive a restart, and they do not."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), survives_restart=True)

    async def start(self, *args: Any, needs: Any = frozenset(), **kwargs: Any) -> str:
        return await super().start(*args, needs=needs - {"survives_restart"}, **kwargs)


class TakesBack(Good):
    """Says no more that it cancels, once it has a run."""

    started = False

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), cancels=not self.started)

    async def start(self, *args: Any, **kwargs: Any) -> str:
        run = await super().start(*args, **kwargs)
        self.started = True
        return run


class RunsFirst(Good):
    """Answers a start when the run has ended."""

    async def start(self, *args: Any, **kwargs: Any) -> str:
        run = await super().start(*args, **kwargs)
        await self.good.wait(run)
        return run


class WaitsInPoll(Good):
    """Answers a poll when something has happened."""

    async def poll(self, run: str) -> Observation:
        before = await super().poll(run)
        while not before.terminal and await super().poll(run) == before:  # noqa: ASYNC110
            await trio.sleep(0.01)
        return await super().poll(run)


class CreatesThenRefuses(Good):
    """What it cannot do it refuses, and runs it all the same."""

    async def start(self, *args: Any, needs: Any = frozenset(), **kwargs: Any) -> str:
        if self.capabilities().lacks(needs):
            await super().start(*args, **kwargs)
        return await super().start(*args, needs=needs, **kwargs)


class CancelsTheWrongWay(Good):
    """Whatever is asked of it, a run is interrupted."""

    async def cancel(self, run: str, reason: Any = "cancelled") -> Observation:
        return await super().cancel(run, "interrupted")


class NeverCancels(Good):
    """Acknowledges, and lets the run go on."""

    async def cancel(self, run: str, reason: Any = "cancelled") -> Observation:
        return await self.good.poll(run)


class SaysItCannotCancel(Good):
    """It can, and takes any need."""

    def capabilities(self) -> Capabilities:
        return replace(super().capabilities(), cancels=False)


class CannotCancel(SaysItCannotCancel):
    """It says so, refuses what needs it, and cancels nothing."""

    async def start(self, *args: Any, needs: Any = frozenset(), **kwargs: Any) -> str:
        if self.capabilities().lacks(needs):
            raise Unsupported("it cancels nothing")
        return await super().start(*args, needs=needs, **kwargs)

    async def cancel(self, run: str, reason: Any = "cancelled") -> Observation:
        await self.poll(run)
        raise Unsupported("it cancels nothing")


class MistakesItsEnds(Good):
    """Takes a run that failed for one that a limit stopped."""

    async def poll(self, run: str) -> Observation:
        seen = await super().poll(run)
        return replace(seen, state=State.STOPPED, reason=StopReason.MAX_ROUNDS) if seen.state is State.FAILED else seen


class AsksNobody(Good):
    """Takes people's word for given."""

    async def start(self, agent: Any, *args: Any, **kwargs: Any) -> str:
        tools = []
        for tool in agent.tools:
            tools.append(copy.copy(tool))
            tools[-1].approval = "never"
        return await super().start(replace(agent, tools=tuple(tools)), *args, **kwargs)


class WaiterTakesRunAway(Good):
    """Whoever stops waiting for a run cancels it."""

    async def wait(self, run: str) -> RunResult:
        try:
            return await super().wait(run)
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await self.good.cancel(run)
            raise


class StartsTwice(Good):
    """Gives a second run of an id the first one's place."""

    async def start(self, *args: Any, run: str = "", **kwargs: Any) -> str:
        try:
            return await super().start(*args, run=run, **kwargs)
        except DuplicateRun:
            return run


class WaitsForEver(Good):
    """Whoever waits for a run that has ended is not told."""

    async def wait(self, run: str) -> RunResult:
        await super().wait(run)
        await trio.sleep_forever()
        raise AssertionError


class AnotherResult(Good):
    """Polls and the result differ over what was used."""

    async def wait(self, run: str) -> RunResult:
        return replace(await super().wait(run), usage=Usage())


def made_bad(bad: type[Good]) -> Callable[[Material], AbstractAsyncContextManager[Subject]]:
    """The local runtime, made bad."""

    @asynccontextmanager
    async def opened(material: Material) -> AsyncIterator[Subject]:
        async with local(material) as subject:
            runtime = bad(subject.runtime)
            good_restart = subject.restart
            assert good_restart is not None

            async def restart() -> Runtime:
                await good_restart()
                runtime.restarted = True
                return runtime

            yield Subject(runtime, restart)

    return opened
