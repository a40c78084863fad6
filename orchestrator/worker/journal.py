"""A run's way into its log, which the daemon keeps: one batch after the other, each sent until it is answered."""

from collections.abc import Callable, Sequence

from msgspec import Raw

from agents.events import Event, ToolLate, decode, encode
from agents.port import Newcomers, NoRoom
from orchestrator.views.workers import AppendAnswer, AppendRequest, Done, LateRequest, ScopeView
from orchestrator.worker.hold import Hold
from orchestrator.worker.link import Link

Refresh = Callable[[tuple[ScopeView, ...]], None]


class ClaimJournal:
    """Implements `agents.port.Journal` under a claim. `refresh` is told how the budgets above the run stand.

    A batch is sent again for as long as nobody has answered it: appended once, it is only answered the second time. So
    an append takes as long as the daemon is away, unless the claim is lost meanwhile.
    """

    __slots__ = ("_batches", "_hold", "_link", "_refresh", "number")

    def __init__(self, link: Link, hold: Hold, number: int, refresh: Refresh) -> None:
        self._link = link
        self._hold = hold
        self._refresh = refresh
        self._batches = 0
        self.number = number

    async def append(self, events: Sequence[Event]) -> None:
        """See `agents.port.Journal`. Raises `ClaimGone`, `PatienceOver`, `ClientError` where the daemon cannot."""
        self._batches += 1
        request = AppendRequest(
            claim=self._hold.claim,
            batch=f"{self._hold.claim}-{self._batches}",
            after=self.number,
            events=tuple(Raw(encode(event)) for event in events),
        )
        answer = await self._hold.ask(AppendAnswer, "append", body=request)
        self._refresh(answer.above)
        if answer.outcome == "no_room":
            raise NoRoom(answer.exhausted)
        if answer.outcome == "newcomers":
            newcomers = [decode(bytes(event)) for event in answer.newcomers]
            self.number += len(newcomers)
            raise Newcomers(newcomers)
        self.number += len(events)

    async def late(self, event: ToolLate) -> None:
        """Evidence, whoever drives the run by now; see `agents.port.TakesLate`."""
        await self._link.ask(Done, "POST", f"/api/workers/runs/{event.run}/late", LateRequest(event=Raw(encode(event))))

    def __repr__(self) -> str:
        return f"<ClaimJournal of {self._hold.run} at {self.number}>"
