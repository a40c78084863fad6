"""What is known here of a run that a worker drives: what its log has come to, and the state that follows from that."""

from collections.abc import Sequence

from agents.budget import Scope
from agents.events import ApprovalRequested, Event
from agents.fold import said_so_far
from agents.folding import Folding
from agents.lifecycle import State
from agents.messages import Message, Usage
from agents.money import Price
from agents.snapshot import CallSnapshot, RunSnapshot, SessionSnapshot
from orchestrator.runs.driven import Progress


class RemoteProgress:
    """Implements `orchestrator.runs.driven.Progress`. `number` is that of the last event of the session it knows."""

    def __init__(self, snapshot: RunSnapshot, number: int, scope: Scope, price: Price | None, expiry: float) -> None:
        self.number = number
        self.scope = scope
        self.price = price
        self.expiry = expiry
        self._run = snapshot.created.run
        self._folding = Folding(snapshot)

    def add(self, events: Sequence[Event]) -> None:
        """The session's next events."""
        self.number += len(events)
        for event in events:
            if event.run == self._run:
                self._folding.add(event)

    def freeze(self) -> RunSnapshot:
        return self._folding.freeze()

    @property
    def rounds(self) -> int:
        return self._folding.rounds

    @property
    def tool_calls(self) -> int:
        return self._folding.tool_calls

    @property
    def usage(self) -> Usage:
        return self._folding.usage

    @property
    def micro_dollars(self) -> int | None:
        return None if self.price is None else self._folding.micro_dollars

    @property
    def unknown_effects(self) -> Sequence[str]:
        return self._folding.unknown_effects

    @property
    def messages(self) -> Sequence[Message]:
        return said_so_far(self._folding.freeze())

    @property
    def abandoned(self) -> "RemoteProgress":
        return self

    @property
    def quiescent(self) -> bool:
        """Whether none of its abandoned calls is at work any more, as far as its log tells."""
        ended = self._folding.ended
        return ended is None or ended.quiescent or any(late.quiescent for late in self._folding.late)

    @property
    def started_calls(self) -> frozenset[int]:
        """The places of the open step's calls that were started."""
        return frozenset(call.index for call in self._calls if call.started)

    @property
    def state(self) -> State:
        """Named by the first thing it has open, as everywhere."""
        folding = self._folding
        if folding.ended is not None:
            return folding.ended.state
        if folding.started is None:
            return State.QUEUED
        if folding.cancel is not None:
            return State.CANCELLING
        open_calls = [call for call in self._calls if call.outcome is None and call.started]
        if any(not call.children for call in open_calls):
            return State.WAITING_TOOL
        asked = [call.asked for call in self._calls if call.asked is not None]
        if asked:
            approval = any(isinstance(one, ApprovalRequested) for one in asked)
            return State.WAITING_APPROVAL if approval else State.WAITING_INPUT
        if open_calls:
            return State.WAITING_CHILDREN
        return State.RUNNING if folding.open_request is None else State.WAITING_MODEL

    @property
    def _calls(self) -> tuple[CallSnapshot, ...]:
        return () if self._folding.open_step is None else self._folding.open_step.calls


def progress_of(snapshot: SessionSnapshot, own: Progress) -> RemoteProgress:
    """That of the session's last run; `own` has its clocks and its budget."""
    assert snapshot.last is not None, "the session has no run"
    return RemoteProgress(snapshot.last, snapshot.events, own.scope, own.price, own.expiry)
