"""What follows an attempt that failed: another one, at once or later, or the end of the call."""

import random
from collections.abc import Sequence

from agents.errors import ModelError, Refused
from agents.port import Call
from orchestrator.policy.endpoints import EndpointState, Placement
from orchestrator.policy.outage import outage
from orchestrator.policy.retry import GiveUp, RetryAt, RetryConfig, decide, is_own_try
from orchestrator.policy.ticket import Ticket


class AfterFailure:
    """Decides for one backend's calls. `config` may be replaced at any time."""

    def __init__(
        self, config: RetryConfig, endpoints: Sequence[EndpointState], placement: Placement, rng: random.Random
    ) -> None:
        self.config = config
        self._endpoints = endpoints
        self._placement = placement
        self._rng = rng

    def follows(self, error: ModelError, ticket: Ticket, probed_after: float | None, now: float) -> RetryAt | GiveUp:
        """What follows this error. `probed_after` is what the endpoint's breaker says of the attempt, None if it was no
        probe. Counts the call's tries.
        """
        call: Call = ticket.call
        if call.elsewhere and error.retryable and outage(self._endpoints, now) is not None:
            return GiveUp(error)
        streamed = ticket.streamed > 0 and call.deltas is not None and not call.restartable
        if not streamed and now < ticket.deadline and self._another_may_take(error, ticket, now):
            return RetryAt(now)
        ticket.tries += is_own_try(error, probed_after, self.config)
        return decide(
            error,
            attempt=max(1, ticket.tries),
            streamed=streamed,
            now=now,
            deadline=ticket.deadline,
            config=self.config,
            rng=self._rng,
        )

    def _another_may_take(self, error: ModelError, ticket: Ticket, now: float) -> bool:
        """Whether the call need not wait, since an endpoint is open to it that has not failed it.

        Going there is no new try of the call's, or its tries would be over before their waits have outlasted anything.
        """
        if isinstance(error, Refused):
            return error.endpoint_fault and self._placement.another(ticket, now)
        left = self.config.attempts - ticket.tries
        return error.retryable and left > 1 and self._placement.another(ticket, now)
