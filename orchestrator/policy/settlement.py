"""What an ended attempt cost: one pure function from its outcome to what limits and fairness are told.

| ended by                            | tokens to limits    | service to fairness                   |
|-------------------------------------|---------------------|---------------------------------------|
| reply                               | as reported         | as reported, else as estimated        |
| refused before work (429, 529, connect) | returned        | none                                  |
| anything else                       | as reported, else kept | input and what was streamed        |

A timeout or a truncated answer is charged: else a tenant whose calls always fail would hold the slots for nothing. A
provider's request limit counts the failed request in every case, so a request is never returned.
"""

from msgspec import Struct

from agents.errors import ConnectTimeout, ModelError, Overloaded, Throttled, Unavailable
from agents.messages import ModelReply, Usage
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.ticket import Ticket


class Settlement(Struct, frozen=True, gc=False):
    """Amounts in tokens, None where nobody knows; `service` in service units (`ServiceWeights`)."""

    input: float | None
    cached: float
    output: float | None
    worked: bool
    service: float
    usage: Usage | None


def settle(ticket: Ticket, outcome: ModelReply | ModelError, weights: ServiceWeights) -> Settlement:
    """What the attempt that ended with `outcome` is to be booked as."""
    usage = outcome.usage
    if usage is not None and usage.input is not None:
        whole = usage.input + (usage.cached or 0) + (usage.cache_write or 0)
        cached = float(usage.cached or 0)
        output = usage.output
        streamed = ticket.streamed if output is None else output
        service = weights.cost(whole - cached, cached, streamed)
        return Settlement(whole, cached, output, True, service, usage)
    if not worked(outcome, ticket):
        return Settlement(None, 0.0, None, False, 0.0, usage)
    service = weights.cost(ticket.input - ticket.cached, ticket.cached, ticket.streamed)
    return Settlement(None, 0.0, None, True, service, usage)


def worked(outcome: ModelReply | ModelError, ticket: Ticket) -> bool:
    """False where the provider certainly did no work for this attempt."""
    if ticket.streamed:
        return True
    if isinstance(outcome, Throttled | Overloaded | ConnectTimeout):
        return False
    return not (isinstance(outcome, Unavailable) and not outcome.worked)
