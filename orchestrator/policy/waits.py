"""What a call waited for, and for how long: told afterwards, from a record of what held whoever was next.

While calls queue, something holds the one that would go next: a limit, a breaker, a `retry-after`. `Holds` records
what, and for how long in all, whenever that changes. A call that starts, or ends unsent, after more than `MOMENT` gets
its wait told in parts that add up to the whole:

- while its tenant was parked: `tenant` and the name of the tenant's own limit;
- between two attempts: `retry`;
- in the rest of the time the next call was held, and by what is known. What closes an endpoint to everybody is named
  as it is. But room that came free under a limit went to somebody: in part to calls of the call's own tenant, and in
  part to those of others that had their turn before. The first part is the limit's, since the tenant would have waited
  for as long had it been alone; the second is `fair_order`, since it was others who went. Parts are by the service
  sent while the call waited, its own included.

So a tenant with a queue to itself waits for the limit. Of two with the same weight each waits half for the limit and
half for the other. Night work behind a stream of urgent calls waits for the fair order, whatever limit the urgent ones
are held by; what that is, the backend says of itself.

A dispatch does not end what holds: the look after it finds the same obstacle at the same time, or none.

Known limits. Time is divided evenly: while a tenant was parked the backend is taken to have been held as in the rest
of the call's wait. Of the record `SPANS` changes are kept; before that it gets coarser with age, each change standing
for two, four, eight: a long wait is then divided as the average of its neighbours. Cost: O(log SPANS) for a call that
waited, nothing for one that did not.
"""

from bisect import bisect_right
from copy import copy
from itertools import islice
from typing import Final

from orchestrator.policy.endpoints import ALONE, CLOSED_OFF
from orchestrator.policy.ticket import Ticket

MOMENT: Final = 0.05
"""A wait up to this many seconds is not worth a reason."""

SPANS: Final = 512

FAIR_ORDER: Final = "fair_order"
RETRY: Final = "retry"
TENANT_LIMIT: Final = "tenant_limit"
"""Stands for all limits of all tenants where no tenant may be named."""

NOBODYS: Final = ALONE | CLOSED_OFF
"""Obstacles that no other call's going has to do with."""

Waits = dict[str, float]
"""Seconds by what held the call."""

Told = tuple[tuple[str, float], ...]
"""The same as a ticket has it and a transition tells it, most first."""


class Holds:
    """What held the next call, and for how long since the beginning. Times on the owner's clock."""

    __slots__ = ("_at", "_before", "_sums", "changed", "what")

    def __init__(self, now: float) -> None:
        self.what = ""
        """What holds it now, empty if nothing does."""
        self.changed = now
        """Since when."""
        self._before: str | None = None
        self._at = [now]
        self._sums: list[Waits] = [{}]

    def note(self, what: str, now: float) -> None:
        """From now on it is this, or nothing."""
        if what == self.what:
            return
        if now > self._at[-1]:
            if len(self._at) >= SPANS:
                self._thin()
            self._sums.append(self._sums_now(now))
            self._at.append(now)
            self._before = self.what
        elif what == self._before:
            # what was between has lasted no time, so nothing has changed
            self._at.pop()
            self._sums.pop()
            self._before = None
        self.changed = self._at[-1]
        self.what = what

    def _sums_now(self, now: float) -> Waits:
        sums = dict(self._sums[-1])
        sums[self.what] = sums.get(self.what, 0.0) + max(0.0, now - self._at[-1])
        return sums

    def _thin(self) -> None:
        """Lets go of every second change in the older half."""
        half = SPANS // 2
        self._at[:half] = islice(self._at, 0, half, 2)
        self._sums[:half] = islice(self._sums, 0, half, 2)

    def between(self, since: float, now: float) -> Waits:
        """For how long it was held by what (empty: nothing) from `since`, not before it began, until now, not before
        the last change."""
        if since >= self.changed:
            return {self.what: now - since}
        index = max(bisect_right(self._at, since) - 1, 0)
        sums = self._sums_now(now)
        begin, end = self._at[index], self._at[index + 1]
        before, after = self._sums[index], self._sums[index + 1]
        passed = min(1.0, max(0.0, (since - begin) / (end - begin)))
        found = {}
        for what, total in sums.items():
            old = before.get(what, 0.0)
            seconds = total - old - passed * (after.get(what, 0.0) - old)
            if seconds > 0.0:
                found[what] = seconds
        return found

    def __len__(self) -> int:
        return len(self._at)

    def __repr__(self) -> str:
        return f"<Holds {self.what or 'nothing'} after {len(self._at) - 1} changes>"


class Reasons:
    """The waits of one backend's calls: what holds its next call, whose tenants are parked, and sums over all calls.

    `held_seconds` is a sum for ever, by limits, `fair_order`, `retry` and `tenant_limit`.
    """

    __slots__ = ("_began", "_own", "backend", "held_seconds")

    def __init__(self, now: float) -> None:
        self._began = now
        self.backend = Holds(now)
        self.held_seconds: Waits = {}
        self._own: dict[str, Holds] = {}

    def parked(self, tenant: str, limit: str, now: float) -> None:
        """A limit of the tenant's own stops it."""
        own = self._own.get(tenant)
        if own is None:
            own = self._own[tenant] = Holds(self._began)
        own.note(limit, now)

    def released(self, tenant: str, now: float) -> None:
        """It may go on."""
        own = self._own.get(tenant)
        if own is not None:
            own.note("", now)

    def queued(self, ticket: Ticket, sent: float, now: float) -> None:
        """Adds to a call's `waits` what it waited for in the queue that it leaves now; `sent` is all that was sent to
        the backend so far, the call included if it goes."""
        since = ticket.eligible_since
        whole = now - since
        if whole <= MOMENT:
            return
        everybody = sent - ticket.all_before
        others = 1.0 - (ticket.account.sent - ticket.own_before) / everybody if everybody > 0.0 else 0.0
        own = self._own.get(ticket.tenant) if self._own else None
        if own is None and since >= self.backend.changed and not ticket.waits:
            # by far the most frequent case: the same obstacle all the while
            ticket.waits = self._divided(self.backend.what, whole, others)
            return
        waits = dict(ticket.waits)
        part = 1.0
        if own is not None:
            for limit, seconds in own.between(since, now).items():
                if limit:
                    self._add(waits, f"tenant {limit}", TENANT_LIMIT, seconds)
                    part -= seconds / whole
        # what is left of a wait that was spent parked is rounding
        held = self.backend.between(since, now).items() if part > 1e-9 else ()
        for held_by, seconds in held:
            for what, share in self._divided(held_by, seconds * part, others):
                waits[what] = waits.get(what, 0.0) + share
        ticket.waits = most_first(waits)

    def so_far(self, ticket: Ticket, sent: float, now: float) -> Told:
        """What a call that still waits has waited for by now; nothing is booked."""
        look = Reasons(self._began)
        look.backend, look._own = self.backend, self._own
        seen = copy(ticket)
        if ticket.state == "waiting":
            look.between_attempts(seen, now)
        else:
            look.queued(seen, sent, now)
        return seen.waits

    def _divided(self, what: str, seconds: float, others: float) -> Told:
        """The parts of a time in which `what` held the next call, and `others` got so much of what was sent."""
        sums = self.held_seconds
        if not what:
            what = FAIR_ORDER
        elif others > 0.0 and what not in NOBODYS:
            theirs = seconds if others >= 1.0 else others * seconds
            sums[FAIR_ORDER] = sums.get(FAIR_ORDER, 0.0) + theirs
            seconds -= theirs
            if seconds <= 0.0:
                return ((FAIR_ORDER, theirs),)
            sums[what] = sums.get(what, 0.0) + seconds
            if seconds >= theirs:
                return ((what, seconds), (FAIR_ORDER, theirs))
            return ((FAIR_ORDER, theirs), (what, seconds))
        sums[what] = sums.get(what, 0.0) + seconds
        return ((what, seconds),) if seconds > 0.0 else ()

    def between_attempts(self, ticket: Ticket, now: float) -> None:
        """Adds to a call's `waits` that it waited for its next attempt since `eligible_since`."""
        seconds = now - ticket.eligible_since
        if seconds > MOMENT:
            waits = dict(ticket.waits)
            self._add(waits, RETRY, RETRY, seconds)
            ticket.waits = most_first(waits)

    def _add(self, waits: Waits, what: str, name: str, seconds: float) -> None:
        if seconds > 0.0:
            waits[what] = waits.get(what, 0.0) + seconds
            self.held_seconds[name] = self.held_seconds.get(name, 0.0) + seconds

    def __repr__(self) -> str:
        return f"<Reasons {self.backend!r} parked={sum(bool(own.what) for own in self._own.values())}>"


def most_first(waits: Waits) -> Told:
    """For people."""
    return tuple(sorted(waits.items(), key=lambda part: -part[1]))
