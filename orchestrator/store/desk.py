"""A thread that does work for the event loop, in the order in which it is handed over, many pieces at a time.

What comes in while the thread is busy is its next group. Results go back to the loop a group at once: one wake-up,
however many tasks wait. A thread of its own, and not one of trio's pool: its connection stays in it, and ten thousand
waiting tasks are ten thousand entries of a deque.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import outcome
import trio

from orchestrator.store.errors import StoreClosed

GROUP: Final = 4_096
"""How much work is one group at most."""


class Work:
    """One piece of work: what is to be done, and what came of it. `task` waits for it; nobody does where it is None."""

    __slots__ = ("creates", "error", "failed", "move", "own", "session", "task", "value")

    def __init__(
        self,
        move: Callable[[Any], Any],
        *,
        session: str = "",
        creates: tuple[str, ...] = (),
        own: bool = False,
        failed: Callable[[Exception], object] | None = None,
    ) -> None:
        self.move = move
        self.session = session
        self.creates = creates
        self.own = own
        self.failed = failed
        self.task: trio.lowlevel.Task | None = None
        self.value: Any = None
        self.error: Exception | None = None

    def leave(self, _: object) -> trio.lowlevel.Abort:
        """Nobody waits for it any more; it is done all the same."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Desk:
    """The thread, and the way to it. `handle` gets a group of work, and sets each one's `value` or `error`; what
    it raises is everybody's error. `then` hears of each group on the loop's thread, once those who waited are awake.
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[list[Work]], None],
        *,
        then: Callable[[list[Work]], None] | None = None,
        last: Callable[[], None] | None = None,
        group: int = GROUP,
    ) -> None:
        self._handle = handle
        self._then = then
        self._last = last
        self._group = group
        self._queue: deque[Work] = deque()
        self._bell = threading.Event()
        self._token = trio.lowlevel.current_trio_token()
        self._closing = False
        self._ended = trio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def do(self, work: Work) -> Any:
        """Hands work over and waits for what comes of it. Cancelled, it may still be done."""
        await trio.lowlevel.checkpoint_if_cancelled()
        work.task = trio.lowlevel.current_task()
        self.hand_over(work)
        return await trio.lowlevel.wait_task_rescheduled(work.leave)

    def hand_over(self, work: Work) -> None:
        """Hands work over. Raises `StoreClosed`."""
        if self._closing:
            raise StoreClosed("the store is closed")
        self._queue.append(work)
        if not self._bell.is_set():
            self._bell.set()

    @property
    def waiting(self) -> int:
        """How much work waits for its group."""
        return len(self._queue)

    async def aclose(self) -> None:
        """Takes nothing more, and returns when all that was handed over is done."""
        self._closing = True
        self._bell.set()
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    def _run(self) -> None:
        queue = self._queue
        while True:
            self._bell.wait()
            self._bell.clear()
            # Read before the queue: work handed over before the end is then seen.
            closing = self._closing
            while queue:
                group = [queue.popleft() for _ in range(min(len(queue), self._group))]
                try:
                    self._handle(group)
                except Exception as error:
                    # A fault of this program: whoever waits has to hear of it, or would wait for ever.
                    for work in group:
                        work.error = error
                self._tell(self._deliver, group)
            if closing:
                break
        if self._last is not None:
            self._last()
        self._tell(self._ended.set)

    def _tell(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function, *args)

    def _deliver(self, group: list[Work]) -> None:
        reschedule, value_of = trio.lowlevel.reschedule, outcome.Value
        for work in group:
            task = work.task
            if task is not None:
                work.task = None
                error = work.error
                reschedule(task, value_of(work.value) if error is None else outcome.Error(error))
            elif work.error is not None and work.failed is not None:
                work.failed(work.error)
        if self._then is not None:
            self._then(group)
