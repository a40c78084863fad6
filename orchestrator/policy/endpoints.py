"""Where a call may go: the endpoints of one backend, and the choice among them.

An endpoint is a key or a replica with limits, a concurrency limit and a breaker of its own. A run prefers the endpoint
that served it before, whose cache may still hold its prefix, for up to `sticky_seconds`; then it takes any. Among the
others the one with the smallest share of its concurrency in use is asked first.

An endpoint that fails at once is never busy, and would get every call again and again. So a call that failed goes to
endpoints that have not failed it, at once; and while those are only busy it waits for them rather than go back to one
where nothing succeeded since. When all have failed it, all may be tried again, the last one last.
"""

import math
from collections.abc import Sequence

from agents.errors import ModelError, Overloaded, Refused, Throttled
from orchestrator.policy.breaker import Breaker
from orchestrator.policy.concurrency import Concurrency
from orchestrator.policy.headroom import Headroom, Room
from orchestrator.policy.limits import Blocked, Lease, LimitSet
from orchestrator.policy.ticket import Ticket

BREAKER, RETRY_AFTER = "breaker", "retry-after"
CLOSED_OFF = frozenset({BREAKER, RETRY_AFTER})
"""Obstacles that close an endpoint to everybody, whatever room there is."""

STICKY, HEADROOM, ANOTHER = "its own endpoint", "headroom", "another endpoint"
ALONE = frozenset({STICKY, HEADROOM, ANOTHER})
"""Obstacles that stop the call alone: whoever comes after it may go."""


class EndpointState:
    """One endpoint as the policy sees it."""

    __slots__ = ("_busy", "breaker", "concurrency", "gate", "headroom", "ill", "index", "limits", "name")

    def __init__(
        self,
        index: int,
        name: str,
        limits: LimitSet,
        concurrency: Concurrency,
        breaker: Breaker,
        headroom: Headroom | None = None,
    ) -> None:
        self.index = index
        self.name = name
        self.limits = limits
        self.concurrency = concurrency
        self.breaker = breaker
        self.headroom = headroom
        self.gate = -math.inf
        """Nothing is sent before this time, since the provider asked to wait and did not say for which limit."""
        self.ill = False
        """Whether the last call that it could serve failed here by its fault."""
        self._busy = Blocked("calls in flight", math.inf, 1.0, "in_flight")

    def check(self, ticket: Ticket, now: float) -> Blocked | None:
        """None if the call may go out now, else what is in the way and when to look again."""
        concurrency = self.concurrency
        if concurrency.in_flight >= concurrency.limit:
            return self._busy
        if not self.breaker.allows(now):
            return Blocked(BREAKER, self.breaker.until(), 1.0, "in_flight")
        if now < self.gate:
            return Blocked(RETRY_AFTER, self.gate, 1.0, "in_flight")
        if self.headroom is not None:
            kept_until = self._kept_back(self.headroom, ticket, now)
            if kept_until:
                return Blocked(HEADROOM, kept_until, 0.0, "window")
        return self.limits.check(ticket, now)

    def is_open(self, now: float) -> bool:
        """Whether it takes calls at all: neither broken nor told to wait."""
        return now >= self.gate and self.breaker.allows(now)

    def _kept_back(self, headroom: Headroom, ticket: Ticket, now: float) -> float:
        concurrency, limits = self.concurrency, self.limits
        room = Room(
            concurrency.limit,
            concurrency.in_flight,
            limits.awaiting_first_token,
            limits.tokens_in_flight,
            limits.most_tokens,
        )
        return headroom.keeps_back(ticket, now, room)

    def start(self, ticket: Ticket, own: LimitSet | None, now: float) -> Lease:
        """Takes everything the call needs, here and in its tenant's `own` limits, if it has any.

        Only after `check` found nothing in the way.
        """
        self.concurrency.started()
        self.breaker.started(now)
        if self.headroom is not None:
            self.headroom.started(ticket.tenant)
        ticket.endpoint = self
        return self.limits.reserve(ticket, now, own)

    def ended(self, ticket: Ticket, error: ModelError | None, now: float) -> None:
        """Books the end of an attempt that started at `ticket.started`; its lease is settled elsewhere."""
        sent = ticket.started
        if self.headroom is not None:
            self.headroom.ended(ticket.tenant)
        self.concurrency.ended(now, sent=sent, error=error)
        if error is None:
            self.ill = False
            self.breaker.success(now, sent=sent)
            return
        self.breaker.failure(error, now, sent=sent)
        if error.blame == "provider" or (isinstance(error, Refused) and error.endpoint_fault):
            self.ill = True
            ticket.failed_at |= 1 << self.index
        if not isinstance(error, Throttled | Overloaded):
            return
        named = isinstance(error, Throttled) and self.limits.throttled(error.exhausted, error.retry_after, now)
        if not named and error.retry_after is not None:
            self.gate = max(self.gate, now + error.retry_after)

    def opens_in(self, now: float) -> float | None:
        """Seconds until a call may be sent again, as far as the breaker and the provider's `retry-after` go.

        None if one may be sent now; 0 while a probe is out, whose verdict decides.
        """
        until = self.breaker.until()
        if until == math.inf:
            return 0.0
        until = max(until, self.gate)
        return until - now if until > now else None

    def __repr__(self) -> str:
        return f"<EndpointState {self.name} {self.concurrency!r} {self.breaker!r}>"


class Placement:
    """The choice among endpoints."""

    __slots__ = ("_all", "_endpoints", "_single", "_sticky")

    def __init__(self, endpoints: Sequence[EndpointState], sticky_seconds: float) -> None:
        self._endpoints = list(endpoints)
        self._single = self._endpoints[0] if len(self._endpoints) == 1 else None
        self._sticky = sticky_seconds
        self._all = (1 << len(self._endpoints)) - 1

    def place(self, ticket: Ticket, now: float) -> EndpointState | Blocked:
        """An endpoint that takes the call now, or the obstacle that will be gone first.

        A call that only waits for its preferred endpoint, or for another than those that failed it, gets an obstacle
        that blocks nobody else (`ALONE`).
        """
        if self._single is not None:
            return self._single.check(ticket, now) or self._single
        if ticket.failed_at == self._all:
            ticket.failed_at = 1 << ticket.endpoint.index
        failed_at = ticket.failed_at
        favourite = self._favourite(ticket)
        obstacle: Blocked | None = None
        if favourite is not None:
            obstacle = favourite.check(ticket, now)
            if obstacle is None:
                return favourite
        others_busy = False
        for endpoint in self._in_order(failed_at):
            if endpoint is favourite:
                continue
            failed = failed_at >> endpoint.index & 1
            if failed and endpoint.ill and others_busy:
                return Blocked(ANOTHER, math.inf, 0.0, "window")
            blocked = endpoint.check(ticket, now)
            if blocked is None:
                return self._loyalty(ticket, favourite, now) or endpoint
            if not failed and blocked.short_of == "in_flight" and endpoint.is_open(now):
                others_busy = True
            if obstacle is None or blocked.until < obstacle.until:
                obstacle = blocked
        assert obstacle is not None, "a backend has at least one endpoint"
        return obstacle

    def _in_order(self, failed_at: int) -> list[EndpointState]:
        """The least loaded first, but those that failed the call behind all others."""
        order = sorted(self._endpoints, key=_load)
        if failed_at:
            order.sort(key=lambda endpoint: failed_at >> endpoint.index & 1)
        return order

    def _loyalty(self, ticket: Ticket, favourite: EndpointState | None, now: float) -> Blocked | None:
        """What keeps a call from any other endpoint than its favourite, for a while."""
        patience = ticket.eligible_since + self._sticky
        if favourite is None or now >= patience or not favourite.breaker.allows(now):
            return None
        return Blocked(STICKY, patience, 0.0, "window")

    def another(self, ticket: Ticket, now: float) -> bool:
        """Whether an endpoint that has not failed the call is open to it."""
        return any(not ticket.failed_at >> endpoint.index & 1 and endpoint.is_open(now) for endpoint in self._endpoints)

    def _favourite(self, ticket: Ticket) -> EndpointState | None:
        """The endpoint that served the call's run before, unless it has failed this call."""
        preferred = None if ticket.run_state is None else ticket.run_state.endpoint
        if preferred is None or ticket.failed_at >> preferred & 1:
            return None
        return self._endpoints[preferred]


def _load(endpoint: EndpointState) -> float:
    concurrency = endpoint.concurrency
    return concurrency.in_flight / concurrency.limit
