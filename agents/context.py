"""What a tool may ask of the run that called it."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

import trio

from agents.amounts import Limits
from agents.result import RunResult

T = TypeVar("T")


class Delegates(Protocol):
    """What starts a run for a tool call."""

    async def run(self, agent: str, task: str, limits: Limits, *, depth: int, width: int) -> RunResult:
        """How that run ended; at most `depth` runs may be above it, and one run may start `width`.

        Raises `agents.tools.ToolError` where there is none.
        """
        ...


class ToolContext:
    """Handed to a tool that has a parameter of this type; usable from a coroutine and from a tool's thread.

    `key` is unique for this call for ever: a tool that acts outside hands it on, so that the thing is done once.
    `generation` is that of the run's executor, and rises with each that takes the run over: whoever gets both can
    refuse one that was overtaken. `delegation` is for tools that are agents; None for all others.
    """

    __slots__ = ("_cancel_run", "_cancelled", "call", "delegation", "generation", "key", "run")

    def __init__(
        self,
        *,
        run: str,
        call: str,
        key: str,
        cancel_run: Callable[[], None],
        generation: int = 0,
        delegation: Delegates | None = None,
    ) -> None:
        self.run = run
        self.call = call
        self.key = key
        self.generation = generation
        self.delegation = delegation
        self._cancel_run = cancel_run
        self._cancelled = threading.Event()

    def cancel_run(self) -> None:
        """Ends the run as `cancelled` when this tool has returned. Other tool calls of the run are cut off now."""
        if _in_trio():
            self._cancel_run()
        else:
            trio.from_thread.run_sync(self._cancel_run)

    @property
    def cancelled(self) -> bool:
        """Whether this call should end at once. A long blocking tool looks at it now and then."""
        return self._cancelled.is_set()

    def wait_cancelled(self, seconds: float) -> bool:
        """For blocking tools: sleeps in this thread, but returns True at once when the call is cancelled."""
        return self._cancelled.wait(seconds)

    def mark_cancelled(self) -> None:
        """Called by the loop: tells a blocking tool that its call was cut off."""
        self._cancelled.set()


def _in_trio() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True
