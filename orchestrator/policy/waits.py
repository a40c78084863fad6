"""What a call waited for, and for how long: told afterwards, from a record of what held whoever was next.

While calls queue, something holds the one that would go next: a limit, a breaker, a `retry-after`. `Holds` keeps that
as spans of time, and adds one only when it changes. A call that starts, or ends unsent, after more than `MOMENT` looks
up its own wait in it:

- while its tenant was parked: `tenant` and the name of the tenant's own limit;
- of the rest, the spans in which something held the next call of the backend: that obstacle. Whoever stood before the
  call only stood there because of it, so it is named for all who waited meanwhile;
- what is left: `fair_order`, calls that went one after the other while this one had others before it;
- between two attempts: `retry`.

So the parts add up to the whole. A dispatch in the middle of a span does not end it: the next look finds the same
obstacle at the same time, and the two spans are one again.

Known limits: what held the next call need not hold this one, where a limit counts tokens and this one is small. At most
`SPANS` are kept; what was before them counts as the oldest one.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

MOMENT: Final = 0.05
"""A wait up to this many seconds is not worth a reason."""

SPANS: Final = 2048

FAIR_ORDER: Final = "fair_order"
RETRY: Final = "retry"
TENANT_LIMIT: Final = "tenant_limit"
"""Stands for all limits of all tenants where no tenant may be named."""

Waits = dict[str, float]
"""Seconds by what held the call."""


class Holds:
    """What held the next call, and from when on. Times on the owner's clock, none before the last one."""

    __slots__ = ("_at", "_what")

    def __init__(self, now: float) -> None:
        self._at = [now]
        self._what = [""]

    @property
    def what(self) -> str:
        """What holds it now, empty if nothing does."""
        return self._what[-1]

    def note(self, what: str, now: float) -> None:
        """From now on it is this, or nothing."""
        if what == self._what[-1]:
            return
        if self._at[-1] >= now and len(self._at) > 1:
            # a span that has lasted no time was none
            self._at.pop()
            self._what.pop()
            if what == self._what[-1]:
                return
        elif len(self._at) >= SPANS:
            del self._at[: SPANS // 2], self._what[: SPANS // 2]
        self._at.append(now)
        self._what.append(what)

    def between(self, since: float, now: float) -> Iterator[tuple[str, float, float]]:
        """What held it from `since` until `now`: obstacle (empty: none), beginning and end, without gaps."""
        index = max(bisect_right(self._at, since) - 1, 0)
        while since < now:
            end = self._at[index + 1] if index + 1 < len(self._at) else now
            if end > since:
                yield self._what[index], since, min(end, now)
                since = end
            index += 1

    def __repr__(self) -> str:
        return f"<Holds {self.what or 'nothing'} since {self._at[-1]:.3f}>"


def parts(since: float, now: float, backend: Holds, own: Holds | None) -> Iterator[tuple[str, float]]:
    """What a call waited for that was queued `since`: by its tenant's limits, if it has any, and its backend."""
    for parked_by, begin, end in (("", since, now),) if own is None else own.between(since, now):
        if parked_by:
            yield f"tenant {parked_by}", end - begin
        else:
            for what, first, last in backend.between(begin, end):
                yield what or FAIR_ORDER, last - first


class Reasons:
    """The waits of one backend's calls: what holds its next call, whose tenants are parked, and sums over all calls.

    `held_seconds` is a sum for ever, by limits, `fair_order`, `retry` and `tenant_limit`.
    """

    __slots__ = ("_own", "backend", "held_seconds")

    def __init__(self, now: float) -> None:
        self.backend = Holds(now)
        self.held_seconds: Waits = {}
        self._own: dict[str, Holds] = {}

    def parked(self, tenant: str, limit: str, now: float) -> None:
        """A limit of the tenant's own stops it."""
        own = self._own.get(tenant)
        if own is None:
            own = self._own[tenant] = Holds(now)
        own.note(limit, now)

    def released(self, tenant: str, now: float) -> None:
        """It may go on."""
        own = self._own.get(tenant)
        if own is not None:
            own.note("", now)

    def queued(self, tenant: str, since: float, now: float, waits: Waits | None) -> Waits | None:
        """What a call waited for that leaves the queue now, added to its earlier `waits`; None for a moment's wait."""
        if now - since <= MOMENT:
            return waits
        waits = {} if waits is None else waits
        for what, seconds in parts(since, now, self.backend, self._own.get(tenant)):
            self._add(waits, what, seconds)
        return waits

    def between_attempts(self, since: float, now: float, waits: Waits | None) -> Waits | None:
        """The same for one that waited for its next attempt."""
        if now - since <= MOMENT:
            return waits
        waits = {} if waits is None else waits
        self._add(waits, RETRY, now - since)
        return waits

    def _add(self, waits: Waits, what: str, seconds: float) -> None:
        waits[what] = waits.get(what, 0.0) + seconds
        name = TENANT_LIMIT if what.startswith("tenant ") else what
        self.held_seconds[name] = self.held_seconds.get(name, 0.0) + seconds

    def __repr__(self) -> str:
        return f"<Reasons {self.backend!r} parked={sum(bool(own.what) for own in self._own.values())}>"


def most_first(waits: Waits | None) -> tuple[tuple[str, float], ...]:
    """For a transition."""
    return () if not waits else tuple(sorted(waits.items(), key=lambda part: (-part[1], part[0])))
