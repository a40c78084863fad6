"""The work of one tool call, which may go on after everybody stopped waiting for it.

A call is made in a task of the event loop itself, not of its run: nothing can stop code that ignores its cancellation,
and a nursery would wait for it for ever, and with it the run. A blocking call is made in a thread, watched by such a
task. Cancelled from outside, a coroutine is cancelled, and a thread is told so (`ToolContext.cancelled`). What has not
ended after the tool's patience is abandoned, and what it comes to in the end is told to its `Watch`.

Slots are given back when the work has really ended, so that abandoned work stays bounded as well. Known limit: a
coroutine that shields itself for ever keeps its event loop from ending.
"""

import contextvars
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from agents.context import ToolContext
from agents.late import Watch
from agents.outcome import Outcome, ended_open
from agents.tool_slots import ToolSlots
from agents.tools import BaseTool, EffectUnknown, ToolError, call_async, render

AT_ONCE: Final = 0.05
"""Seconds that any cancelled call has: what ends at once must not be taken for what does not end."""

CANCELLED: Final = "It ended when it was cancelled."


class ToolWork:
    """One call under way. `outcome` is None until it has ended, and where it ended because it was cancelled."""

    __slots__ = ("_begun", "_call", "_context", "_done", "_fatal", "_scope", "_slots", "_tool", "_watch", "outcome")

    def __init__(
        self,
        tool: BaseTool,
        call: Callable[[], object],
        context: ToolContext,
        slots: ToolSlots,
        begun: Callable[[], None],
    ) -> None:
        self._tool = tool
        self._call = call
        self._context = context
        self._slots = slots
        self._begun = begun
        self._scope = trio.CancelScope()
        self._done = trio.Event()
        self._fatal: BaseException | None = None
        self._watch: Watch | None = None
        self.outcome: Outcome | None = None

    def start(self) -> None:
        """Begins the work, with the caller's context variables."""
        name = f"tool {self._tool.name}"
        trio.lowlevel.spawn_system_task(self._run, name=name, context=contextvars.copy_context())

    async def wait(self) -> None:
        """Until it has ended. Raises what ends more than a call, as `SystemExit` does."""
        await self._done.wait()
        if self._fatal is not None:
            raise self._fatal

    async def stop(self, watch: Watch | None) -> bool:
        """Cancels it; whether it has ended within the tool's patience. If not, it is abandoned, and `watch` is told."""
        self._context.mark_cancelled()
        if not self._tool.blocking:
            self._scope.cancel()
        patience = max(self._tool.patience, AT_ONCE)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + patience):
            await self._done.wait()
        if self._done.is_set():
            return True
        self._watch = watch
        if watch is not None:
            watch.abandoned()
        return False

    async def _run(self) -> None:
        try:
            with self._scope:
                self.outcome = await self._ended()
        except BaseException as error:
            if trio.current_effective_deadline() == -math.inf:
                raise  # the event loop ends
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._fatal = error
            else:
                self.outcome = self._failed(error)
        finally:
            self._begun()
            self._slots.release()
            self._done.set()
        if self._watch is not None:
            await self._tell(self._watch)

    async def _ended(self) -> Outcome:
        tool = self._tool
        await trio.lowlevel.checkpoint_if_cancelled()
        self._begun()
        made: Awaitable[object] = self._in_thread() if tool.blocking else call_async(self._call)
        try:
            return Outcome("ok", render(await made))
        except ToolError as error:
            return Outcome("error", str(error))
        except EffectUnknown as error:
            return ended_open("error", str(error), repeatable=tool.repeatable)
        except Exception as error:
            return self._failed(error)

    async def _in_thread(self) -> object:
        limiter: Any = self._slots
        return await trio.to_thread.run_sync(self._call, abandon_on_cancel=True, limiter=limiter)

    def _failed(self, error: BaseException) -> Outcome:
        return Outcome("error", f"{self._tool.name} failed: {type(error).__name__}: {error}")

    async def _tell(self, watch: Watch) -> None:
        if self.outcome is None:
            await watch.ended("error", CANCELLED)
        else:
            await watch.ended("ok" if self.outcome.finish == "ok" else "error", self.outcome.content)
