"""What the events of a run that is driven elsewhere do to the budgets: reserved in the move that announces, settled
when the end is in the log. Pure.

A model call that was announced to an earlier daemon is held as unknown by the budgets already, wherever they were made
from; its end gives that back, except in a tenant's budget, which is made from the ledger.
"""

from collections.abc import Sequence

from agents.amounts import NOTHING, Amounts
from agents.budget import Blocked, Exhausted, Reservation, Scope
from agents.events import Event, ModelFailed, ModelReplied, ModelRequested, RunStarted, ToolStarted
from agents.messages import Usage
from agents.model_need import settlement
from agents.money import Price

ONE_CALL = Amounts(tool_calls=1)
ONE_ROUND = Amounts(rounds=1)


class Announced:
    """What a batch holds while it is being appended: kept, or all given back."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.reserved: dict[str, Reservation] = {}
        self.calls = 0

    def undo(self) -> None:
        """Nothing of it happened."""
        for reservation in self.reserved.values():
            reservation.release()
        for _ in range(self.calls):
            self._scope.give_back(ONE_CALL)


class RemoteBooks:
    """The books of one run, whose own budget is `scope`. `left_open` is a call that an earlier daemon reserved for, and
    `told` are the scopes that know of it from the ledger.
    """

    def __init__(
        self, scope: Scope, price: Price | None, left_open: ModelRequested | None, told: Sequence[Scope] = ()
    ) -> None:
        self.scope = scope
        self._price = price
        self._open: dict[str, Reservation] = {}
        self._left_open = left_open
        self._told = told

    def reservation(self, key: str) -> Reservation | None:
        """What the model call of this key holds; None for one that was not announced here, or has ended."""
        return self._open.get(key)

    def announce(self, events: Sequence[Event], again: frozenset[int]) -> Announced | Exhausted | Blocked:
        """Reserves for all effects that these events announce, or for none. `again` are the places of the calls of the
        open step that were started before.
        """
        announced = Announced(self.scope)
        for event in events:
            refused: Exhausted | Blocked | None = None
            if isinstance(event, ModelRequested):
                need = Amounts(rounds=1, tokens=event.reserved_tokens, micro_dollars=event.reserved_micro_dollars)
                reserved = self.scope.reserve(need)
                if isinstance(reserved, Reservation):
                    announced.reserved[event.key] = reserved
                else:
                    refused = reserved
            elif isinstance(event, ToolStarted) and event.index not in again:
                refused = self.scope.spend(ONE_CALL)
                announced.calls += refused is None
            if refused is not None:
                announced.undo()
                return refused
        return announced

    def appended(self, events: Sequence[Event], announced: Announced, now: float) -> None:
        """These events are in the log now."""
        self._open |= announced.reserved
        for event in events:
            if isinstance(event, RunStarted):
                self.scope.start(now)
            elif isinstance(event, ModelReplied | ModelFailed):
                self._settle(event)

    def close(self) -> None:
        """The run has ended: what nobody has settled may have been used."""
        for reservation in self._open.values():
            held = reservation.need
            reservation.settle(NOTHING, Amounts(tokens=held.tokens, micro_dollars=held.micro_dollars))
        self._open.clear()

    def _settle(self, event: ModelReplied | ModelFailed) -> None:
        key = f"{event.run}/{event.step}/{event.attempt}"
        used, unknown = NOTHING, NOTHING
        reservation = self._open.pop(key, None)
        left = self._left_open
        if reservation is not None:
            used, unknown = self._came_to(event, reservation.need)
            reservation.settle(used, unknown)
        elif left is not None and left.key == key:
            self._left_open = None
            held = Amounts(tokens=left.reserved_tokens, micro_dollars=left.reserved_micro_dollars)
            used, unknown = self._came_to(event, held)
            for scope in self.scope.path():
                if scope not in self._told:
                    scope.used += used
                    scope.unknown += unknown - held
                    scope.wake()

    def _came_to(self, event: ModelReplied | ModelFailed, held: Amounts) -> tuple[Amounts, Amounts]:
        if isinstance(event, ModelFailed):
            worked = event.usage != Usage() or bool(event.unknown_tokens or event.unknown_micro_dollars)
            return settlement(held, event.usage, self._price, worked=worked)
        used, unknown = settlement(held, event.reply.usage, self._price, worked=True)
        return (used + ONE_ROUND if event.purpose == "step" else used), unknown
