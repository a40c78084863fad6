"""What the HTTP surface needs to lead one model call through the queue and its tenant's budget, as narrow ports."""

import math
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from agents.messages import ModelReply, ModelRequest, Usage
from agents.owner_port import ReplyStream
from agents.port import Flow, Held, Priority, Receipt


class CallPort(Protocol):
    """A model for one flow; see `agents.owner_port.OwnerPort`."""

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply: ...

    def stream(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        restartable: bool = True,
        receipt: Receipt | None = None,
    ) -> AbstractAsyncContextManager[ReplyStream]: ...


class Calls(Protocol):
    """Single model calls through the queue."""

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = True) -> CallPort:
        """A port whose calls go where their model is served."""
        ...


class HeldCall(Protocol):
    """What one call holds of its tenant's budget, until it is settled, exactly once."""

    @property
    def max_tokens(self) -> int | None:
        """What each answer must be bounded to upstream, or the reservation is no bound; None: as the program said."""
        ...

    @property
    def held(self) -> Held:
        """The same for the call's receipt, so that whoever keeps a book of calls knows it."""
        ...

    def settle(self, usage: Usage | None, *, worked: bool = True) -> None:
        """Counts what the provider reported, and gives the rest back; what it did not report stays held as unknown.

        `worked` is False only where no provider did any work for the call; everything unreported is then given back. A
        second settlement changes nothing.
        """
        ...


class Budgets(Protocol):
    """What tenants may spend."""

    async def reserve_call(
        self, tenant: str, model: str, *, input_tokens: int, max_tokens: int | None, choices: int = 1, key: str = ""
    ) -> HeldCall | None:
        """Reserves the most that a call can use, before it is submitted; None where the tenant has no budget.

        `input_tokens` is an upper bound (`orchestrator.dialects.input_bound`), `max_tokens` what the program said
        of each of its `choices`. With a `key`, the ledger knows durably what the call under that key may cost when this
        returns. Waits where only what other calls hold is in the way. Raises `BudgetExceeded`, and
        `InvalidLimits` where money is limited and the model has no price; `StoreError` where the ledger fails.
        """
        ...
