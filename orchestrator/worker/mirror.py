"""The budgets above a run, as far as a worker can know them: what the daemon last said of others, and the run's own.

The run decides against these at once; the daemon, which has the budgets themselves, has the last word when it appends.
So a mirror that is behind costs a refusal at most. Whoever waits for others' reservations waits at a mirrored scope,
and then the daemon is asked when there is room.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from agents.amounts import NOTHING, Amounts
from agents.budget import Scope, Waiter
from orchestrator.views.workers import ScopeView

AskRoom = Callable[[Amounts], Awaitable[tuple[ScopeView, ...]]]

_PAUSE: Final = 0.05
"""Seconds between two questions for room at least: the daemon may see room where the run does not."""


class MirrorScope(Scope):
    """A scope whose amounts are the daemon's. `need` is what others were last in the way of."""

    __slots__ = ("_noticed", "need")

    def __init__(self, view: ScopeView, parent: "MirrorScope | None", noticed: Callable[[], None]) -> None:
        super().__init__(view.name, view.limits, parent)
        self._noticed = noticed
        self.need = NOTHING

    def is_held(self, need: Amounts) -> bool:
        held = super().is_held(need)
        if held:
            self.need = need
        return held

    def wait(self, waiter: Waiter) -> None:
        super().wait(waiter)
        self._noticed()


class Mirror:
    """All budgets above one run, the outermost first. `scope` is the one for the run to stand below, None for none."""

    def __init__(self, above: Sequence[ScopeView]) -> None:
        self._waits = trio.Event()
        self._own: Scope | None = None
        self._views = tuple(above)
        self.scopes: list[MirrorScope] = []
        for view in above:
            self.scopes.append(MirrorScope(view, self.scope, self._noticed))
        self.refresh(self._views)

    @property
    def scope(self) -> MirrorScope | None:
        return self.scopes[-1] if self.scopes else None

    def of(self, own: Scope) -> None:
        """The run's own scope, which stands below: what it holds and used is counted above from here on."""
        self._own = own
        self.refresh(self._views)

    def refresh(self, above: tuple[ScopeView, ...]) -> None:
        """What others have by now. Wakes who waits for that."""
        if [view.name for view in above] != [scope.name for scope in self.scopes]:
            return  # nothing is said
        self._views = above
        own = self._own
        for scope, view in zip(self.scopes, above, strict=True):
            scope.limits = view.limits
            scope.used = view.used + (NOTHING if own is None else own.used)
            scope.reserved = view.reserved + (NOTHING if own is None else own.reserved)
            scope.unknown = view.unknown + (NOTHING if own is None else own.unknown)
            if view.elapsed is not None:
                scope.started = trio.current_time() - view.elapsed
        for scope in self.scopes:
            scope.wake()

    def count(self, used: Amounts, unknown: Amounts) -> None:
        """What runs below this one have come to since they were last counted, counted in its own budget and above."""
        assert self._own is not None
        for scope in self._own.path():
            scope.used += used
            scope.unknown += unknown

    async def follow(self, ask: AskRoom) -> None:
        """For as long as anybody waits at a mirrored scope, asks how the budgets stand; until cancelled."""
        while True:
            await self._waits.wait()
            self._waits = trio.Event()
            while (waits := next((scope for scope in self.scopes if scope.waiting), None)) is not None:
                asked = trio.current_time()
                self.refresh(await ask(waits.need))
                await trio.sleep_until(asked + _PAUSE)

    def _noticed(self) -> None:
        self._waits.set()
