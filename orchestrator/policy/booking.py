"""What a live call tells, booked everywhere it counts: leases, fairness, estimates, the run's memory.

The policy reads an attempt's progress from fields that the attempt writes (`AttemptView`), so that a token costs no
message. The end of a call is booked in one pass with whatever had not been booked before.
"""

from collections.abc import Sequence
from typing import Protocol

from agents.errors import ModelError
from agents.messages import SILENT, ModelReply, Usage
from orchestrator.policy.estimate import Estimator, ServiceWeights
from orchestrator.policy.fairness import FairQueue
from orchestrator.policy.feedback import Reading
from orchestrator.policy.lease import Lease
from orchestrator.policy.settlement import Settlement, settle
from orchestrator.policy.ticket import Ticket


class AttemptView(Protocol):
    """What the policy reads of an attempt; times on the owner's clock, None while it has not happened."""

    written_at: float | None
    headers_at: float | None
    first_token_at: float | None
    streamed: int
    usage_so_far: Usage | None
    readings: Sequence[Reading]


class Booking:
    """The books of live calls."""

    __slots__ = ("_estimator", "_fair", "_weights")

    def __init__(self, fair: FairQueue, estimator: Estimator, weights: ServiceWeights) -> None:
        self._fair = fair
        self._estimator = estimator
        self._weights = weights

    def progressed(self, ticket: Ticket, attempt: AttemptView, now: float) -> bool:
        """Books what is new; True if room may have become free, or a time is known at which it will."""
        lease = ticket.lease
        assert lease is not None, "only a live call progresses"
        freed = False
        if attempt.headers_at is not None and ticket.stage == "sent":
            ticket.stage = "answering"
            if attempt.written_at is not None:
                lease.written(attempt.written_at)
            freed = lease.headers(attempt.headers_at)
        if attempt.readings:
            self._read(ticket, attempt, now)
            freed = True
        if attempt.first_token_at is not None and ticket.stage != "streaming":
            ticket.stage = "streaming"
            freed |= lease.first_token(attempt.first_token_at)
        if attempt.streamed > ticket.streamed:
            self._stream(ticket, lease, attempt.streamed, now)
        usage = attempt.usage_so_far
        if usage is not None and usage.all_input is not None:
            freed |= lease.input_known(usage.all_input, now, cached=usage.cached or 0)
        return freed

    def ended(self, ticket: Ticket, attempt: AttemptView, outcome: ModelReply | ModelError, now: float) -> Settlement:
        """Settles an ended attempt in its lease and the fair order, and learns from it."""
        lease = ticket.lease
        assert lease is not None, "only a live call ends"
        if attempt.streamed > ticket.streamed:
            self._stream(ticket, lease, attempt.streamed, now)
        booked = settle(ticket, outcome, self._weights)
        if attempt.written_at is not None:
            lease.written(attempt.written_at)
        lease.settle(
            input=booked.input,
            output=booked.output,
            now=now,
            worked=booked.worked,
            cached=booked.cached,
            answered=attempt.headers_at,
        )
        if attempt.readings:
            self._read(ticket, attempt, now)
        ticket.lease = None
        self._fair.settle(ticket, booked.service, now - ticket.started)
        self._learn(ticket, booked)
        return booked

    def _read(self, ticket: Ticket, attempt: AttemptView, now: float) -> None:
        ticket.endpoint.limits.observe(attempt.readings, now)
        attempt.readings = ()

    def _stream(self, ticket: Ticket, lease: Lease, streamed: float, now: float) -> None:
        lease.streamed(streamed - ticket.streamed, now)
        beyond = streamed - max(ticket.output, ticket.streamed)
        ticket.streamed = streamed
        if beyond > 0:
            self._fair.charge(ticket, self._weights.w_out * beyond)

    def _learn(self, ticket: Ticket, booked: Settlement) -> None:
        state, request = ticket.run_state, ticket.call.request
        usage = booked.usage
        if usage is not None and request.wire is not None and request.wire.dialect in SILENT:
            # they say nothing of answers, and a count of tokens is free, so that it says nothing at all
            usage = Usage(input=usage.input, cached=usage.cached) if usage.input else None
        if usage is not None:
            self._estimator.observe(
                key=(ticket.tenant, ticket.job),
                bytes=ticket.bytes,
                messages=len(request.messages),
                usage=usage,
                previous_input=None if state is None else state.previous_input,
            )
        if state is not None and booked.worked:
            state.endpoint = ticket.endpoint.index
            state.previous_input = ticket.input if booked.input is None else booked.input
