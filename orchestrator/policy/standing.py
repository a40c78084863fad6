"""What waits in a queue, tenant by tenant and priority by priority, and when it is expected to go.

Reads the fair order, the pace and the tenants' own limits, and asks `forecast`. Costs O(tenants) and a sort, whatever
the number of calls.

While every endpoint is broken, or nothing has been answered yet while calls waited, nobody knows when anything goes.
While every endpoint was told to wait, all of it is that much later. A tenant that is held by its own limit on what is
in flight waits for its own answers, which no pace of others tells, so nothing is foretold of it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from orchestrator.policy.fair_report import Queued
from orchestrator.policy.forecast import Backlog, Expected, forecast
from orchestrator.policy.limits import LimitSet
from orchestrator.policy.waits import FAIR_ORDER, RETRY
from orchestrator.policy.window import PACED_SPAN

if TYPE_CHECKING:
    from orchestrator.policy.dispatch import Dispatcher


class Standing(Struct, frozen=True):
    """What one tenant has queued in one priority (0 is the most urgent). Times in seconds; `expected` is None where
    nobody can know."""

    tenant: str
    priority: int
    calls: int
    oldest: float
    held_by: str
    expected: Expected | None


def standings(policy: "Dispatcher", now: float) -> list[Standing]:
    """What every tenant has queued, by priority."""
    queued = policy.fair.queued_by_tenant()
    expected = _expected(policy, queued, now)
    return [
        Standing(one.tenant, one.priority, one.calls, max(0.0, now - one.since), held_by(one), when)
        for one, when in zip(queued, expected, strict=True)
    ]


def held_by(queued: Queued) -> str:
    """What holds the next of these calls: an obstacle, or those that go first."""
    name = queued.next.held_by
    # what an earlier look or attempt has found need not hold it any more
    stale = name in ("", RETRY) or (name.startswith("tenant ") and not queued.parked)
    return FAIR_ORDER if stale else name


def _expected(policy: "Dispatcher", queued: Sequence[Queued], now: float) -> Sequence[Expected | None]:
    nobody_knows = [None] * len(queued)
    opens_in = min(
        (max(0.0, endpoint.gate - now) for endpoint in policy.endpoints if endpoint.breaker.closed), default=math.inf
    )
    rate = policy.pace.per_second(now)
    if rate is None or opens_in == math.inf:
        return nobody_knows
    costs = policy.accounts.costs()
    backlogs = [_backlog(policy, one, costs.of(one.tenant), now) for one in queued]
    foretold = forecast(backlogs, rate, minimum_share=policy.fair.minimum_share)
    later = [Expected(when.next_in + opens_in, when.last_in + opens_in) for when in foretold]
    _know_the_first(later, policy.held_until(now))
    return [None if backlog.own_pace == math.inf else when for backlog, when in zip(backlogs, later, strict=True)]


def _know_the_first(expected: list[Expected], held_until: float | None) -> None:
    """Of the call that goes first what holds it may say until when, which is nearer than any pace."""
    if held_until is None or not expected:
        return
    first = min(range(len(expected)), key=lambda index: expected[index].next_in)
    when = expected[first]
    expected[first] = Expected(min(when.next_in, held_until), when.last_in)


def _backlog(policy: "Dispatcher", queued: Queued, cost: float, now: float) -> Backlog:
    wait, pace = 0.0, 0.0
    own = policy.tenant_limits.get(queued.tenant)
    if own is not None:
        wait, pace = _own_limits(own, queued, now)
    return Backlog(
        priority=queued.priority,
        calls=queued.calls,
        cost=max(cost, 1e-9),
        weight=queued.weight,
        counter=queued.counter,
        own_wait=wait,
        own_pace=pace,
    )


def _own_limits(own: LimitSet, queued: Queued, now: float) -> tuple[float, float]:
    """In how many seconds a tenant's own limits let its next call go, and the seconds per call after that."""
    blocked = own.check(queued.next, now)
    if blocked is not None and blocked.short_of == "in_flight":
        return 0.0, math.inf
    wait = 0.0 if blocked is None or blocked.until == math.inf else max(0.0, blocked.until - now)
    pace = 0.0
    for window in own.windows:
        need = own.amount_of(queued.next, window)
        if window.span > PACED_SPAN:
            # nothing spreads these over their span: what is free goes at once
            free = max(0.0, window.amount - window.taken(now))
            pace = max(pace, window.pace * max(0.0, queued.calls * need - free) / queued.calls)
        else:
            pace = max(pace, window.pace * need)
    return wait, pace
