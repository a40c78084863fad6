"""A worker's claim to one run, for as long as it counts."""

from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

import trio

from agents.errors import HeadraceError
from agents.events import Event
from agents.loop import AgentRun
from orchestrator.client.errors import Refusal
from orchestrator.client.requests import path_of
from orchestrator.views.workers import Holding
from orchestrator.worker.link import Link

T = TypeVar("T")

CLAIM_GONE: Final = "claim_gone"
"""The daemon's word for a claim that does not count any more."""


class ClaimGone(HeadraceError):
    """The claim does not count any more: the run is left at once, and nothing is said about it."""

    kind: ClassVar[str] = CLAIM_GONE


class Hold:
    """One run that is this worker's. `gone` says that it is not any more: no request is sent for it then."""

    __slots__ = ("_asks", "_leave", "_link", "_run", "claim", "gone", "run")

    def __init__(self, link: Link, holding: Holding) -> None:
        self._link = link
        self._asks: set[trio.CancelScope] = set()
        self._run: AgentRun | None = None
        self._leave: Callable[[AgentRun], None] | None = None
        self.run = holding.run
        self.claim = holding.claim
        self.gone = False

    @property
    def holding(self) -> Holding:
        return Holding(run=self.run, claim=self.claim)

    async def ask(self, type: type[T], *what: str, body: Any, hold: float = 0.0) -> T:
        """Asks the daemon something about the run. Raises `ClaimGone`, and what `Link.ask` raises."""
        if not self.gone:
            with trio.CancelScope() as scope:
                self._asks.add(scope)
                path = path_of("workers", "runs", self.run, *what)
                try:
                    return await self._link.ask(type, "POST", path, body, hold=hold)
                except Refusal as refusal:
                    if refusal.kind != CLAIM_GONE:
                        raise
                    self.lose()
                finally:
                    self._asks.discard(scope)
        await trio.lowlevel.checkpoint()
        raise ClaimGone(f"run {self.run} is not this worker's any more")

    def drives(self, run: AgentRun) -> None:
        """This is what drives it."""
        self._run = run
        if self._leave is not None:
            self._leave(run)

    def receive(self, events: tuple[Event, ...]) -> None:
        """What others have appended to its log."""
        if self._run is not None:
            self._run.receive(events)

    def leave_soon(self) -> None:
        """Leaves it when it has no call under way."""
        self._left_by(AgentRun.leave_soon)

    def leave(self) -> None:
        """Leaves it now."""
        self._left_by(AgentRun.leave)

    def lose(self) -> None:
        """The claim does not count any more."""
        self.leave()
        self.gone = True
        for scope in tuple(self._asks):
            scope.cancel()

    def _left_by(self, leave: Callable[[AgentRun], None]) -> None:
        self._leave = leave
        if self._run is not None:
            leave(self._run)

    def __repr__(self) -> str:
        return f"<Hold {self.claim} on {self.run}{' gone' if self.gone else ''}>"
