"""Whether a call may wait here at all, and if not, when its caller should come back.

A queue without an end only moves the failure to later and makes it larger, so HTTP callers are capped: per tenant and
in all, in calls and in bytes held in memory. The calls of agents do not count and are never evicted: live runs
are bounded and have one call at a time each, and a run that lost its call would have lost its work.

- At its tenant's cap a call of a higher priority takes the place of the tenant's newest `batch` calls; at the global
  cap of the newest `batch` calls of the tenant that holds most bytes per weight. The newest have waited the least. Who
  is evicted gets the same error as who is refused.
- `retry_after` = (work to drain until there is room) / (rate at which it drains, see `drain`), between 1 and 120 s.
- A deadline that has passed, or that the tenant's own earlier work misses even at full rate, ends the call at once;
  every other deadline is taken as it comes.

Work is in weighted tokens. "Earlier work" is what the tenant's HTTP callers have waiting at the same or a higher
priority; rates are those at which such work drains beside the agents' calls, so that both sides leave agents out.

Known limits: choosing a victim at the global cap looks through the tenants that hold `batch` calls, so it costs as many
steps. Within a tenant jobs share fairly, so a call of a light job may have made a deadline that this rule gives up.
"""

import math
from collections.abc import Callable

from msgspec import Struct

from agents.errors import ModelError, QueueFull, QueueTimeout, Refused, TooLarge
from agents.port import Priority
from orchestrator.policy.checks import require
from orchestrator.policy.drain import DrainRates
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.waiting import Waiting, over, part_to_drain, seconds_to_drain


class AdmissionConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How much HTTP callers may have waiting, and the bounds of `retry_after` in seconds. Raises `InvalidLimits`."""

    tenant_calls: int = 1_000
    tenant_bytes: int = 64 * 1024 * 1024
    calls: int = 10_000
    bytes: int = 512 * 1024 * 1024
    retry_after_at_least: float = 1.0
    retry_after_at_most: float = 120.0

    def __post_init__(self) -> None:
        for field in ("tenant_calls", "tenant_bytes", "calls", "bytes"):
            require(f"admission.{field}", getattr(self, field))
        require("admission.retry_after_at_least", self.retry_after_at_least, at_most=86_400)
        require("admission.retry_after_at_most", self.retry_after_at_most, at_least=self.retry_after_at_least)


class Evicted(Struct, frozen=True):
    """A waiting call that had to go, and what its caller is told."""

    ticket: Ticket
    error: QueueFull


class Admitted(Struct, frozen=True):
    """The call may wait. `evicted` names the calls whose place it took; they no longer count."""

    evicted: tuple[Evicted, ...] = ()


ADMITTED = Admitted()


class _Tenant:
    """One tenant's share of what waits. `batch` holds its evictable calls in order of arrival."""

    __slots__ = ("batch", "waiting", "work_by_priority")

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.batch: dict[int, Ticket] = {}
        self.work_by_priority = [0.0] * len(Priority)

    def work_before(self, priority: Priority) -> float:
        return sum(self.work_by_priority[: priority + 1])


def plain_work(ticket: Ticket) -> float:
    """The expected service of a call in weighted tokens, with the default weights of the fair order."""
    return ticket.input - 0.9 * ticket.cached + 2.0 * ticket.output


class Admission:
    """The caps of one owner's queue. Times are on the owner's clock.

    Every call that is admitted (or rejoins) is released once: when it is sent or when it leaves.
    """

    __slots__ = ("_config", "_held", "_tenants", "_weight", "_work", "all", "drain")

    def __init__(
        self,
        config: AdmissionConfig | None = None,
        *,
        weight: Callable[[str], float] = lambda tenant: 1.0,
        work: Callable[[Ticket], float] = plain_work,
        drain: DrainRates | None = None,
    ) -> None:
        self._config = config or AdmissionConfig()
        self._weight = weight
        self._work = work
        self._tenants: dict[str, _Tenant] = {}
        self._held: dict[int, float] = {}
        self.drain = drain or DrainRates()
        self.all = Waiting()

    def __repr__(self) -> str:
        return f"<Admission {self.all.calls} waiting, {self.all.http_calls} of them from HTTP>"

    def configure(self, config: AdmissionConfig) -> None:
        """Puts other caps in force. Nobody who waits already is sent away."""
        self._config = config

    @property
    def tenant_calls(self) -> int:
        """How many calls of HTTP callers one tenant may have waiting."""
        return self._config.tenant_calls

    @property
    def room(self) -> int:
        """How many more calls of HTTP callers may wait, whosever they are."""
        return max(0, self._config.calls - self.all.http_calls)

    def waiting(self, tenant: str) -> Waiting:
        """What the tenant has waiting."""
        entry = self._tenants.get(tenant)
        return Waiting() if entry is None else entry.waiting

    def tenants(self) -> dict[str, Waiting]:
        """What each tenant that has anything waiting has."""
        return {tenant: entry.waiting for tenant, entry in self._tenants.items()}

    def admit(self, ticket: Ticket, now: float) -> Admitted | ModelError:
        """Counts the call in, or says with which error it ends."""
        error = self._misses_deadline(ticket, now)
        if error is not None:
            return error
        if ticket.agent:
            return ADMITTED
        return self._admit_http(ticket, now)

    def rejoin(self, ticket: Ticket, now: float) -> None:
        """A call that was sent waits again. It was admitted once, so no cap refuses it and nobody evicts it."""
        if ticket.agent:
            return
        self._join(ticket, now, evictable=False)

    def release(self, ticket: Ticket, now: float, *, sent: bool) -> None:
        """The call is sent, or leaves without (`sent` false). Does nothing for a call that does not wait here."""
        work = self._held.pop(ticket.seq, None)
        if work is None:
            return
        entry = self._tenants[ticket.tenant]
        evictable = entry.batch.pop(ticket.seq, None) is not None
        self._count(entry, ticket, work, -1, evictable=evictable)
        if entry.waiting.calls == 0:
            del self._tenants[ticket.tenant]
            self.drain.emptied(ticket.tenant, now)
        if sent:
            self.drain.served(ticket.tenant, work, now)

    def retry_after(self, tenant: str, now: float, *, bytes: int = 0) -> float:
        """Seconds until a call of `bytes` probably finds room, within the configured bounds."""
        config, entry = self._config, self._tenants.get(tenant)
        own = 0.0
        if entry is not None:
            part = part_to_drain(entry.waiting, config.tenant_calls, config.tenant_bytes, bytes)
            own = seconds_to_drain(part * entry.waiting.work, self.drain.tenant(tenant, self._weight(tenant), now))
        part = part_to_drain(self.all, config.calls, config.bytes, bytes)
        everybody = seconds_to_drain(part * self.all.work, self.drain.total(now))
        return min(max(own, everybody, config.retry_after_at_least), config.retry_after_at_most)

    def _admit_http(self, ticket: Ticket, now: float) -> Admitted | ModelError:
        config = self._config
        entry = self._tenants.get(ticket.tenant)
        own = Waiting() if entry is None else entry.waiting
        size = ticket.memory
        if size > min(config.tenant_bytes, config.bytes):
            allowed = min(config.tenant_bytes, config.bytes)
            return TooLarge(f"the request holds {size} bytes, more than the {allowed} that may wait (admission.bytes)")
        own_full = over(own, config.tenant_calls, config.tenant_bytes, size)
        all_full = over(self.all, config.calls, config.bytes, size)
        if not own_full and not all_full:
            self._join(ticket, now, evictable=ticket.priority is Priority.BATCH)
            return ADMITTED
        may_evict = (
            ticket.priority is not Priority.BATCH
            and not over(own, config.tenant_calls, config.tenant_bytes, size, without_batch=True)
            and not over(self.all, config.calls, config.bytes, size, without_batch=True)
        )
        if not may_evict:
            whose = f"tenant {ticket.tenant!r} has" if own_full else "all tenants together have"
            return self._full(ticket, now, f"{whose} as many calls waiting as allowed")
        return self._admit_over_batch(ticket, now)

    def _admit_over_batch(self, ticket: Ticket, now: float) -> Admitted:
        config = self._config
        victims: list[Ticket] = []
        while over(self.waiting(ticket.tenant), config.tenant_calls, config.tenant_bytes, ticket.memory):
            victims.append(self._evict_newest(ticket.tenant, now))
        while over(self.all, config.calls, config.bytes, ticket.memory):
            victims.append(self._evict_newest(self._heaviest(), now))
        self._join(ticket, now, evictable=False)
        why = "a call of a higher priority took its place in the full queue"
        return Admitted(tuple(Evicted(victim, self._full(victim, now, why)) for victim in victims))

    def _evict_newest(self, tenant: str, now: float) -> Ticket:
        victim = next(reversed(self._tenants[tenant].batch.values()))
        self.release(victim, now, sent=False)
        return victim

    def _heaviest(self) -> str:
        """Of the tenants with evictable calls the one with most HTTP bytes waiting per weight, then with most calls."""

        def load(tenant: str) -> tuple[float, float]:
            waiting, weight = self._tenants[tenant].waiting, self._weight(tenant)
            return waiting.http_bytes / weight, waiting.http_calls / weight

        return max((tenant for tenant, entry in self._tenants.items() if entry.batch), key=load)

    def _full(self, ticket: Ticket, now: float, why: str) -> QueueFull:
        retry_after = self.retry_after(ticket.tenant, now, bytes=ticket.memory)
        return QueueFull(f"{why}; try again in {math.ceil(retry_after)} s", retry_after=retry_after)

    def _misses_deadline(self, ticket: Ticket, now: float) -> ModelError | None:
        if ticket.deadline == math.inf:
            return None
        left = ticket.deadline - now
        if math.isnan(left):
            return Refused("deadline: must be a number, not NaN", code="invalid_deadline")
        if left <= 0:
            return QueueTimeout("the call's deadline had passed when it arrived")
        entry = self._tenants.get(ticket.tenant)
        if entry is None:
            return None
        need = entry.work_before(ticket.priority) / self.drain.fastest(now)
        if need <= left:
            return None
        return QueueTimeout(
            f"tenant {ticket.tenant!r} has {need:.1f} s of earlier work waiting even at full rate,"
            f" and the call's deadline is in {left:.1f} s"
        )

    def _join(self, ticket: Ticket, now: float, *, evictable: bool) -> None:
        entry = self._tenants.get(ticket.tenant)
        if entry is None:
            entry = self._tenants[ticket.tenant] = _Tenant()
            self.drain.backlogged(ticket.tenant, self._weight(ticket.tenant), now)
        work = self._held[ticket.seq] = self._work(ticket)
        if evictable:
            entry.batch[ticket.seq] = ticket
        self._count(entry, ticket, work, 1, evictable=evictable)

    def _count(self, entry: _Tenant, ticket: Ticket, work: float, sign: int, *, evictable: bool) -> None:
        own, every = entry.waiting, self.all
        work *= sign
        entry.work_by_priority[ticket.priority] += work
        own.calls += sign
        own.work += work
        every.calls += sign
        every.work += work
        if not ticket.agent:
            for waiting in (own, every):
                waiting.http_calls += sign
                waiting.http_bytes += sign * ticket.memory
                if evictable:
                    waiting.batch_calls += sign
                    waiting.batch_bytes += sign * ticket.memory
        if self.all.calls == 0:
            # what rounding has left over
            self.all.work = 0.0
