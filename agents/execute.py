"""Runs one tool call to its one outcome: a value, an error, a timeout, or an effect nobody knows.

A call that is cut off, by its tool's timeout or from outside, is cancelled, and has as long to end as its tool says
(see `agents.tool_work`). If it does end in time, its value or its error counts, because then nothing is unknown; after
that it is abandoned. A tool that cleans up in several steps, as one that ends a process does, has its own ladder in
that time.

A call that is cut off leaves an unknown effect, unless its tool is idempotent or read-only. An error that the tool
itself raised is an observation.
"""

import math
from collections.abc import Callable

import trio

from agents.context import ToolContext
from agents.events import Finish
from agents.late import Watch
from agents.outcome import Outcome, ended_open
from agents.tool_slots import ToolSlots, slots_for
from agents.tool_work import ToolWork
from agents.tools import BaseTool

__all__ = ["Outcome", "ToolSlots", "cut_off", "ended_open", "execute", "slots_for"]


async def execute(
    tool: BaseTool,
    call: Callable[[], object],
    context: ToolContext,
    slots: ToolSlots,
    *,
    watch: Watch | None = None,
    begun: Callable[[], None] = lambda: None,
) -> Outcome:
    """Makes a bound call whose slots are held; they are given back when its work has ended.

    `begun` is called in the moment in which the tool itself begins, or else when it is clear that it never will.
    Where the call had to be abandoned, `watch` is told, and later of its end. Raises `trio.Cancelled` only where the
    call was cut off from outside and nothing is known of its end.
    """
    work = ToolWork(tool, call, context, slots, begun)
    work.start()
    with trio.move_on_after(math.inf if tool.timeout is None else tool.timeout):
        try:
            await work.wait()
        except trio.Cancelled:
            await work.stop(watch)
            if work.outcome is None:
                raise
        if work.outcome is not None:
            return work.outcome
    return cut_off(tool, "timeout", f"it ran longer than {tool.timeout:g} s")


def cut_off(tool: BaseTool, finish: Finish, why: str) -> Outcome:
    """The outcome of a call that was ended from outside."""
    return ended_open(finish, why, repeatable=tool.repeatable)
