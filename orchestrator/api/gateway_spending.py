"""What a call may cost its tenant: reserved before it is queued, settled when it has ended, however it ended.

Each call gets a key of its own here, under which the ledger keeps it. Counts of tokens cost nothing and get none.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager

from msgspec import structs

from agents.errors import ModelError
from agents.messages import ModelRequest, Usage
from agents.port import Held, Receipt
from agents.size import input_bound as plain_input_bound
from orchestrator.api.gateway_asked import Asked
from orchestrator.api.services import Services
from orchestrator.dialects.input_bound import input_bound
from orchestrator.dialects.parse import bounded


class Spending:
    """One call's request with the bound that its reservation needs, and what is known of its cost so far."""

    __slots__ = ("receipt", "request", "usage")

    def __init__(self, request: ModelRequest, key: str = "", held: Held | None = None) -> None:
        self.request = request
        self.receipt = Receipt(key, held)
        self.usage: Usage | None = None

    @contextmanager
    def told(self) -> Iterator[None]:
        """What a call that fails in the block says that it has used all the same."""
        try:
            yield
        except ModelError as error:
            self.usage = error.usage
            raise


@asynccontextmanager
async def spending(services: Services, asked: Asked) -> AsyncGenerator[Spending, None]:
    """Holds the most that the call can cost from its tenant's budget; behind the block, what it did cost.

    Whoever makes the call gives it the `receipt`, and sets `usage`. Raises `BudgetExceeded`, `InvalidLimits`.
    """
    request = asked.request(services.max_tokens(asked.model))
    if asked.dialect == "count_tokens":
        yield Spending(request)
        return
    held = await services.budgets.reserve_call(
        asked.flow.tenant,
        asked.model,
        input_tokens=input_bound(asked.parsed.wire),
        max_tokens=0 if asked.dialect == "embeddings" else asked.parsed.max_tokens,
        choices=asked.parsed.choices,
        key=asked.key,
    )
    if held is None:
        yield Spending(request, asked.key)
        return
    spent = Spending(_within(request, asked, held.max_tokens), asked.key, held.held)
    try:
        yield spent
    finally:
        held.settle(spent.usage, worked=bool(spent.receipt.sent))


@asynccontextmanager
async def plain_spending(
    services: Services, tenant: str, request: ModelRequest, key: str
) -> AsyncGenerator[Spending, None]:
    """The same for a call that is no program's own request, but one in the words of `agents.messages`."""
    held = await services.budgets.reserve_call(
        tenant, request.model, input_tokens=plain_input_bound(request), max_tokens=request.max_tokens, key=key
    )
    if held is None:
        yield Spending(request, key)
        return
    bound = request.max_tokens if held.max_tokens is None else held.max_tokens
    spent = Spending(structs.replace(request, max_tokens=bound), key, held.held)
    try:
        yield spent
    finally:
        held.settle(spent.usage, worked=bool(spent.receipt.sent))


def _within(request: ModelRequest, asked: Asked, bound: int | None) -> ModelRequest:
    """The request with each answer bounded to this many tokens."""
    if bound is None or request.wire is None or asked.dialect == "embeddings":
        return request
    wire = bounded(request.wire, bound)
    return ModelRequest(request.model, (), max_tokens=bound * asked.parsed.choices, wire=wire)
