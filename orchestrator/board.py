"""What the live board shows: the last minute of every backend and tenant, beside what its owner holds now.

What happens is counted by `Board`, a hook on transitions; what is (queued, in flight, limits, breakers) is read from
the owners' policies when somebody asks, so nothing is counted twice and nothing drifts. Asking costs O(tenants +
endpoints), whatever the number of calls.

The minute is a ring of slots of five seconds, each with the sums of those who did something in it. A slot is dropped
whole, so a tenant that has not been seen for a minute leaves nothing behind; and a slot knows at most `NAMES` tenants
by name, so a flood of invented names costs a few megabytes at most and is gone after a minute.

Known limits: the minute is 55 to 60 seconds long, and sums are scaled to 60. Of tenants beyond `NAMES` in one slot only
the sum is kept: it counts in everybody's share, and is shown nowhere.
"""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from agents.messages import Usage
from agents.port import Priority
from orchestrator.owner import Owner
from orchestrator.policy.dispatch import Dispatcher
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.fair_report import TenantShare
from orchestrator.policy.limits import LimitSet
from orchestrator.policy.standing import Standing, standings
from orchestrator.transitions import Transition
from orchestrator.views.queue import BackendView, CutView, EndpointView, LimitView, TenantView, WaitView

SLOT_SECONDS = 5.0
SLOTS = 12
MINUTE = 60.0

NAMES = 4096
"""Tenants that one slot knows by name, per backend."""

ROWS = 1000
"""Tenants that a view of one backend names."""

OTHERS = ""
"""Stands for all tenants beyond `NAMES`; no tenant is called so."""

UNDECIDED = "caller_gone"
"""A call whose caller left has neither been answered nor failed."""

PRIORITIES = tuple(priority.name.lower() for priority in Priority)

IDLE = TenantShare(weight=1.0, service=0.0, queued=0, live=0, active=False, parked=False, queued_by_priority=(0, 0, 0))


class Sums:
    """What one tenant did at one backend in some time. Waits in seconds, tokens as providers reported them.

    `uncached` includes what was written to a cache; `sent` and `waited` are by attempt.
    """

    __slots__ = ("cached", "calls", "failed", "output", "sent", "uncached", "waited")

    def __init__(self) -> None:
        self.calls = self.failed = self.sent = 0
        self.waited = 0.0
        self.uncached = self.cached = self.output = 0

    def used(self, usage: Usage) -> None:
        """Adds an attempt's tokens; what was not reported adds nothing."""
        self.uncached += (usage.input or 0) + (usage.cache_write or 0)
        self.cached += usage.cached or 0
        self.output += usage.output or 0

    def add(self, other: "Sums") -> None:
        self.calls += other.calls
        self.failed += other.failed
        self.sent += other.sent
        self.waited += other.waited
        self.uncached += other.uncached
        self.cached += other.cached
        self.output += other.output

    @property
    def tokens(self) -> int:
        return self.uncached + self.cached + self.output

    def service(self, weights: ServiceWeights) -> float:
        return weights.cost(self.uncached, self.cached, self.output)


NOTHING = Sums()

Slot = dict[str, dict[str, Sums]]
"""Sums by backend and tenant."""


class Board:
    """Implements `orchestrator.transitions.Hook`. One board serves all owners of a process; they share a clock."""

    wants = frozenset({"started", "attempt_failed", "finished"})

    def __init__(self) -> None:
        self._slot: Slot = {}
        self._ring: deque[tuple[int, Slot]] = deque()
        self._ends = -math.inf

    def __repr__(self) -> str:
        names = {tenant for _, slot in self._ring for sums in slot.values() for tenant in sums}
        return f"<Board {len(names)} tenants in {len(self._ring)} slots>"

    def __call__(self, transition: Transition) -> None:
        if transition.at >= self._ends:
            self._advance(transition.at)
        tenants = self._slot.get(transition.backend)
        if tenants is None:
            tenants = self._slot[transition.backend] = {}
        sums = tenants.get(transition.flow.tenant)
        if sums is None:
            sums = _named(tenants, transition.flow.tenant)
        if transition.kind == "started":
            sums.sent += 1
            sums.waited += transition.waited
            return
        if transition.usage is not None:
            sums.used(transition.usage)
        if transition.kind == "finished":
            if transition.outcome == "ok":
                sums.calls += 1
            elif transition.outcome != UNDECIDED:
                sums.failed += 1

    def backends(self, owners: Sequence[Owner], now: float) -> tuple[BackendView, ...]:
        """The owners' backends at `now`, on their clock. Every owner must run, or have run."""
        self._advance(now)
        return tuple(self._backend(owner, now) for owner in owners)

    def _backend(self, owner: Owner, now: float) -> BackendView:
        policy = owner.policy
        minute = self._minute(owner.config.name)
        tenants = _Tenants(policy, minute, owner.config.dispatch.weights, MINUTE / self._seconds(now), now)
        names = tenants.busiest()
        return BackendView(
            name=owner.config.name,
            inbox=owner.inbox.waiting(),
            queued=len(policy.fair),
            in_flight=sum(endpoint.concurrency.in_flight for endpoint in policy.endpoints),
            retrying=policy.retrying,
            endpoints=tuple(_endpoint(endpoint, now) for endpoint in policy.endpoints),
            tenants=tuple(tenants.view(name) for name in names[:ROWS]),
            hidden_tenants=max(0, len(names) - ROWS),
            held_by=policy.held_by,
            held_until=policy.held_until(now),
        )

    def _minute(self, backend: str) -> dict[str, Sums]:
        """The sums over all slots."""
        minute: dict[str, Sums] = {}
        for _, slot in self._ring:
            for tenant, sums in slot.get(backend, {}).items():
                minute.setdefault(tenant, Sums()).add(sums)
        return minute

    def _seconds(self, now: float) -> float:
        """How much time a full ring stands for. A first minute that is not over counts as whole: no rate is guessed."""
        begun = self._ends - SLOT_SECONDS
        return (SLOTS - 1) * SLOT_SECONDS + max(now - begun, 0.0)

    def _advance(self, now: float) -> None:
        """Begins a new slot if it is time for one, and forgets those that are a minute old."""
        if now < self._ends:
            return
        number = int(now // SLOT_SECONDS)
        self._ends = (number + 1) * SLOT_SECONDS
        self._slot = {}
        self._ring.append((number, self._slot))
        while self._ring[0][0] <= number - SLOTS:
            self._ring.popleft()


def _named(tenants: dict[str, Sums], tenant: str) -> Sums:
    """A tenant's sums in a slot that does not know it yet."""
    name = tenant if len(tenants) < NAMES else OTHERS
    return tenants.setdefault(name, Sums())


class _Tenants:
    """The tenants of one backend at one moment: what they did in the last minute, and how they stand now."""

    def __init__(
        self, policy: Dispatcher, minute: Mapping[str, Sums], weights: ServiceWeights, scale: float, now: float
    ) -> None:
        self._policy = policy
        self._minute = minute
        self._scale = scale
        self._now = now
        self._shares = policy.fair.tenants()
        self._service = {name: sums.service(weights) for name, sums in minute.items()}
        self._total = sum(self._service.values())
        self._standings: dict[str, list[Standing]] = {}
        for standing in standings(policy, now):
            self._standings.setdefault(standing.tenant, []).append(standing)

    def busiest(self) -> list[str]:
        """Everybody with calls now or in the last minute: those with most calls now first, then by service."""
        calls = {name: share.queued + share.live for name, share in self._shares.items()}
        present = {name for name, count in calls.items() if count}
        names = (present | self._minute.keys()) - {OTHERS}
        return sorted(names, key=lambda name: (-calls.get(name, 0), -self._service.get(name, 0.0), name))

    def view(self, name: str) -> TenantView:
        share = self._shares.get(name, IDLE)
        sums = self._minute.get(name, NOTHING)
        own = self._policy.tenant_limits.get(name)
        waiting = self._standings.get(name, [])
        return TenantView(
            tenant=name,
            weight=self._policy.fair.weight(name),
            queued=dict(zip(PRIORITIES, share.queued_by_priority, strict=True)),
            in_flight=share.live,
            calls_per_minute=sums.calls * self._scale,
            tokens_per_minute=sums.tokens * self._scale,
            share=self._service.get(name, 0.0) / self._total if self._total else 0.0,
            mean_wait=sums.waited / sums.sent if sums.sent else 0.0,
            oldest_wait=max(0.0, self._now - share.queued_since),
            held_by=waiting[0].held_by if waiting else "",
            limits=() if own is None else _limits(own, self._now),
            failed_per_minute=sums.failed * self._scale,
            waits=tuple(_wait(standing) for standing in waiting),
        )


def _wait(standing: Standing) -> WaitView:
    expected = standing.expected
    return WaitView(
        priority=PRIORITIES[standing.priority],
        queued=standing.calls,
        held_by=standing.held_by,
        oldest=standing.oldest,
        next_in=None if expected is None else expected.next_in,
        last_in=None if expected is None else expected.last_in,
    )


def _endpoint(endpoint: EndpointState, now: float) -> EndpointView:
    concurrency = endpoint.concurrency
    newest_first = reversed(concurrency.last_cuts)
    return EndpointView(
        name=endpoint.name,
        in_flight=concurrency.in_flight,
        concurrency_limit=concurrency.limit,
        cuts=concurrency.cuts,
        breaker=endpoint.breaker.state(now),
        opens_in=endpoint.opens_in(now),
        limits=_limits(endpoint.limits, now),
        last_cuts=tuple(CutView(ago=now - cut.at, before=cut.before, after=cut.after) for cut in newest_first),
        failing_with=endpoint.breaker.failing_with,
    )


def _limits(limits: LimitSet, now: float) -> tuple[LimitView, ...]:
    books = limits.statistics(now)
    windows = [
        LimitView(
            name=limit.name,
            amount=limit.configured,
            per=limit.per,
            used=(limit.used + limit.held) / limit.configured,
            others=limit.withheld,
            opens_in=limit.closed_until - now if limit.closed_until > now else None,
        )
        for limit in books.limits
    ]
    caps = (
        ("calls in flight", books.in_flight_calls, books.most_calls),
        ("tokens in flight", books.tokens_in_flight, books.most_tokens),
        ("calls without a first token", books.awaiting_first_token, books.most_awaiting),
    )
    return (*windows, *_caps(caps))


def _caps(caps: Iterable[tuple[str, int, float]]) -> Iterable[LimitView]:
    for name, held, most in caps:
        if most < math.inf:
            yield LimitView(name=name, amount=most, per=0.0, used=held / most)
