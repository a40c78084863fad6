"""What one client's call holds of its tenant's budget, and the ledger's open row that says so.

The row is durable before the call is submitted: a daemon that is killed while the call is out then finds that it may
have been spent. The owner's hook (`orchestrator.ledger`) replaces it when the call goes out, and ends it; a call that
never went out is ended here.
"""

from collections.abc import Callable
from typing import Final

from agents.budget import Reservation
from agents.messages import Usage
from agents.model_need import settlement
from agents.money import Price
from agents.port import Held
from orchestrator.store.ledger_port import CallRow, Ledger

NOT_SENT: Final = "not_sent"
"""The outcome of a call for which no provider did any work, where its owner says nothing else of it."""


class HeldCall:
    """What one call holds of its tenant's budget; see `orchestrator.api.call_services.HeldCall`."""

    __slots__ = ("_close", "_price", "_reservation", "max_tokens")

    def __init__(
        self,
        reservation: Reservation,
        price: Price | None,
        max_tokens: int | None,
        close: Callable[[], object] = lambda: None,
    ) -> None:
        self._reservation = reservation
        self._price = price
        self._close = close
        self.max_tokens = max_tokens

    @property
    def held(self) -> Held:
        """The same for whoever makes the call."""
        need = self._reservation.need
        return Held(need.tokens, need.micro_dollars, self._price)

    def settle(self, usage: Usage | None, *, worked: bool = True) -> None:
        """Counts what was reported and gives the rest back; see `orchestrator.api.call_services.HeldCall`."""
        if self._reservation.settled:
            return
        used, unknown = settlement(self._reservation.need, usage or Usage(), self._price, worked=worked)
        self._reservation.settle(used, unknown)
        if not worked and usage is None:
            self._close()

    def __repr__(self) -> str:
        return f"<HeldCall {self._reservation!r}>"


async def announce(ledger: Ledger, row: CallRow) -> None:
    """Returns when the open row is durable. Raises `StoreError`."""
    ledger.write((row,))
    await ledger.flush()
