"""Cancelling a task at each of its steps in turn, so that no await point is left out."""

from collections.abc import Awaitable, Callable

import trio


class CancelAtStep(trio.abc.Instrument):
    """Cancels `scope` just before the `step`-th step (from 1) of any task while it is installed."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope = scope
        self._left = step
        self.fired = False

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._left -= 1
        if self._left == 0:
            self.fired = True
            self._scope.cancel()


async def cancel_at_every_step(
    scenario: Callable[[], Awaitable[None]], after: Callable[[], Awaitable[None]], *, at_most: int = 2000
) -> int:
    """Runs `scenario` again and again, cancelled one step later each time, with `after` behind each run.

    Ends with the first run that was over before its turn to be cancelled came; returns how many were cancelled.
    """
    for step in range(1, at_most):
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                await scenario()
            finally:
                trio.lowlevel.remove_instrument(instrument)
        await after()
        if not instrument.fired:
            return step - 1
    raise AssertionError(f"the scenario takes more than {at_most} steps")
