"""What a call may cost its tenant: reserved before it is queued, settled when it has ended, however it ended."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agents.messages import ModelRequest, Usage
from agents.port import Receipt
from orchestrator.api.gateway_asked import Asked
from orchestrator.api.services import Services
from orchestrator.dialects.input_bound import input_bound
from orchestrator.dialects.parse import bounded


class Spending:
    """One call's request with the bound that its reservation needs, and what is known of its cost so far."""

    __slots__ = ("receipt", "request", "usage")

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.receipt = Receipt()
        self.usage: Usage | None = None


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
    )
    if held is None:
        yield Spending(request)
        return
    spent = Spending(_within(request, asked, held.max_tokens))
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
