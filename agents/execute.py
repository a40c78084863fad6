"""Runs one tool call to its one outcome: a value, an error, a timeout, or an effect nobody knows.

A coroutine tool is cancelled as any trio task is. A blocking tool runs in a thread, which nothing can stop: when its
call is cut off it is told so (`ToolContext.cancelled`), gets `grace` seconds to end, and is then abandoned. If it does
end in time, its value counts, because then nothing is unknown.

A call that is cut off leaves an unknown effect, unless its tool is idempotent or read-only. An error that the tool
itself raised is an observation.
"""

from collections.abc import Callable

import trio
from msgspec import Struct

from agents.answers import CUT_OFF, UNKNOWN_EFFECT
from agents.context import ToolContext
from agents.events import Finish
from agents.tools import BaseTool, EffectUnknown, ToolError, call_async, render


class Outcome(Struct, frozen=True):
    """How a started call ended, and what the model is told."""

    finish: Finish
    content: str


class ToolSlots:
    """Lets `to_thread` run at once under slots that are held already, and gives them back when the thread ends.

    An abandoned thread keeps its slots until then, so that abandoned work stays bounded as well.
    """

    __slots__ = ("_limiters",)

    def __init__(self, limiters: list[trio.CapacityLimiter]) -> None:
        self._limiters = limiters

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    def release_on_behalf_of(self, borrower: object) -> None:
        self.release()

    async def acquire(self) -> None:
        """Takes every slot, or none when cancelled."""
        taken: list[trio.CapacityLimiter] = []
        try:
            for limiter in self._limiters:
                await limiter.acquire_on_behalf_of(self)
                taken.append(limiter)
        except BaseException:
            for limiter in taken:
                limiter.release_on_behalf_of(self)
            raise

    def release(self) -> None:
        for limiter in self._limiters:
            limiter.release_on_behalf_of(self)
        self._limiters = []


def slots_for(tool: BaseTool) -> ToolSlots:
    """The slots that a call to this tool needs: the tool's own, and a thread's if it blocks."""
    limiters = [] if tool.limiter is None else [tool.limiter]
    if tool.blocking:
        limiters.append(trio.to_thread.current_default_thread_limiter())
    return ToolSlots(limiters)


async def execute(tool: BaseTool, call: Callable[[], object], context: ToolContext, slots: ToolSlots) -> Outcome:
    """Makes a bound call whose slots are held, and gives them back.

    Raises `trio.Cancelled` only where the call was cut off from outside and nothing is known of its end.
    """
    with trio.move_on_after(tool.timeout if tool.timeout is not None else float("inf")):
        try:
            value = await (_in_thread(tool, call, context, slots) if tool.blocking else _as_task(call, slots))
            return Outcome("ok", render(value))
        except ToolError as error:
            return Outcome("error", str(error))
        except EffectUnknown as error:
            return cut_off(tool, "error", str(error))
        except Exception as error:
            return Outcome("error", f"{tool.name} failed: {type(error).__name__}: {error}")
    return cut_off(tool, "timeout", f"it ran longer than {tool.timeout:g} s")


def cut_off(tool: BaseTool, finish: Finish, why: str) -> Outcome:
    """The outcome of a call that was ended from outside."""
    return ended_open(finish, why, repeatable=tool.repeatable)


def ended_open(finish: Finish, why: str, *, repeatable: bool) -> Outcome:
    """The outcome of a started call of whose end nothing is known."""
    if repeatable:
        return Outcome(finish, CUT_OFF.format(why=why))
    return Outcome("unknown_effect", UNKNOWN_EFFECT.format(why=why))


async def _as_task(call: Callable[[], object], slots: ToolSlots) -> object:
    try:
        return await call_async(call)
    finally:
        slots.release()


class _Thread:
    """One blocking call in a thread, watched by a task that outlives its caller's cancellation by the grace."""

    __slots__ = ("_call", "_slots", "done", "guard", "result")

    def __init__(self, call: Callable[[], object], slots: ToolSlots) -> None:
        self._call = call
        self._slots = slots
        self.guard = trio.CancelScope(shield=True)
        self.done = trio.Event()
        self.result: Callable[[], object] | None = None

    async def watch(self) -> None:
        with self.guard:
            try:
                value = await trio.to_thread.run_sync(self._call, abandon_on_cancel=True, limiter=self._slots)  # type: ignore[arg-type]
            except Exception as error:
                self.result = _raiser(error)
            else:
                self.result = lambda: value
        self.done.set()


def _raiser(error: Exception) -> Callable[[], object]:
    def raise_it() -> object:
        raise error

    return raise_it


async def _in_thread(tool: BaseTool, call: Callable[[], object], context: ToolContext, slots: ToolSlots) -> object:
    thread = _Thread(call, slots)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.watch)
        try:
            await thread.done.wait()
        except trio.Cancelled:
            context.mark_cancelled()
            thread.guard.deadline = trio.current_time() + tool.grace
            with trio.CancelScope(shield=True):
                await thread.done.wait()
            if thread.result is None:
                raise
    assert thread.result is not None
    # Cancelled or not, the end is known here; a cancellation is delivered at the next checkpoint.
    return thread.result()
