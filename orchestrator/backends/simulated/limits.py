"""The simulated provider's own enforcement: the oracle that a client's limits are tested against.

A call is admitted by every limit and by the bound on calls in flight, or by none. What it then counts, and when,
follows `SimLimit.counted`:

- `at_admission`: input + max_tokens, fixed, also for a call that fails afterwards.
- `reconciled`: the same, and at the end corrected to what was used; the place in time stays the admission.
- `as_produced`: input at admission, each output token when it is produced. While a window is full nobody is
  admitted, so the output of calls already running can overshoot it: that is the nature of the method.

A request always counts as one request, whatever became of it.
"""

import math

from agents.errors import InvalidLimits
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.backends.simulated.meters import Entry, Meter, meter
from orchestrator.backends.simulated.stats import Series
from orchestrator.policy.feedback import LimitKind, Reading


class Refusal:
    """Why a call is not admitted. `kind` is the limit that has room last; None means too many calls in flight.

    `wait` is the time in seconds after which the limits would admit it if nothing else came; None is unknown,
    infinity is never.
    """

    __slots__ = ("kind", "wait")

    def __init__(self, kind: LimitKind | None = None, wait: float | None = None) -> None:
        self.kind = kind
        self.wait = wait

    @property
    def reason(self) -> str:
        if self.kind is None:
            return "concurrency"
        return "too_large" if self.wait is not None and math.isinf(self.wait) else self.kind


class EnforcedLimit:
    """One configured limit with its meters and the record of what it counted."""

    def __init__(self, limit: SimLimit) -> None:
        self.limit = limit
        self.counted = Series()
        self.peak = 0.0
        self._meter = meter(limit.algorithm, limit.amount, limit.per)
        self._short: Meter | None = None
        if limit.window is not None:
            amount = limit.amount * limit.window / limit.per
            if amount < 1:
                raise InvalidLimits(f"limits.{limit.kind}.window", f"holds {amount:.2f} of the limit, less than 1")
            self._short = meter(limit.algorithm, amount, limit.window)

    def amount(self, given: int, output: int, cached: int = 0) -> int:
        """What a call with that input, of it cached, and output counts against this limit."""
        kind = self.limit.kind
        if kind == "requests":
            return 1
        if self.limit.free_cached:
            given -= min(given, cached)
        return (given if kind != "output_tokens" else 0) + (output if kind != "input_tokens" else 0)

    def at_arrival(self, given: int, max_output: int, cached: int = 0) -> int:
        """What it counts when it is admitted."""
        return self.amount(given, 0 if self.limit.counted == "as_produced" else max_output, cached)

    def wait(self, now: float, need: float) -> float:
        """Seconds until `need` is admitted; one unit of room is the least that anybody needs.

        A call larger than a short window passes when that window is empty, or no large call ever could.
        """
        need = max(1, need)
        wait = self._meter.wait(now, need)
        if self._short is not None:
            wait = max(wait, self._short.wait(now, min(need, self._short.amount)))
        return wait

    def count(self, now: float, amount: float) -> tuple[Entry, ...]:
        """Counts an amount, and returns what is needed to correct it."""
        self.counted.add(now, amount)
        entries = [self._meter.add(now, amount)]
        if self._short is not None:
            entries.append(self._short.add(now, amount))
        self.peak = max(self.peak, self._meter.used(now))
        return tuple(entries)

    def correct(self, entries: tuple[Entry, ...], delta: float, now: float) -> None:
        self.counted.add(entries[0].at, delta)
        self._meter.correct(entries[0], delta, now)
        if self._short is not None:
            self._short.correct(entries[1], delta, now)

    def reading(self, now: float) -> Reading:
        limit = self.limit
        remaining = max(0.0, limit.amount - self._meter.used(now))
        return Reading(limit.kind, limit.amount, remaining, self._meter.reset(now), limit.per)

    def utilisation(self, start: float, end: float) -> float:
        """The share of the limit that was counted in [start, end), to the second. 1 is full use."""
        return self.counted.between(start, end) / (self.limit.amount * (end - start) / self.limit.per)


class Grant:
    """An admitted call: what it counts so far. `output` is what it has produced."""

    __slots__ = ("cached", "given", "held", "open", "output")

    def __init__(self, given: int, held: list[tuple[EnforcedLimit, tuple[Entry, ...], int]], cached: int = 0) -> None:
        self.given = given
        self.cached = cached
        self.held = held
        self.output = 0
        self.open = True


class Enforcer:
    """All limits of one key. `now` is passed in and must not go back."""

    def __init__(self, limits: tuple[SimLimit, ...] = (), max_concurrency: int | None = None) -> None:
        self.limits = tuple(EnforcedLimit(limit) for limit in limits)
        self.max_concurrency = max_concurrency
        self.in_flight = 0

    def admit(self, now: float, given: int, max_output: int, cached: int = 0) -> Grant | Refusal:
        """Admits a call of `given` input tokens and at most `max_output` output tokens by all limits, or refuses it."""
        if not self.limits and self.max_concurrency is None:
            return self.exempt(given)
        needs = [(limit, limit.at_arrival(given, max_output, cached)) for limit in self.limits]
        refusal = self._refusal(now, needs)
        if refusal is not None:
            for limit, need in needs:
                if limit.limit.counts_refused:
                    limit.count(now, need)
            return refusal
        self.in_flight += 1
        return Grant(given, [(limit, limit.count(now, need), need) for limit, need in needs], cached)

    def exempt(self, given: int) -> Grant:
        """Admits a call that no limit is about."""
        self.in_flight += 1
        return Grant(given, [])

    def _refusal(self, now: float, needs: list[tuple[EnforcedLimit, int]]) -> Refusal | None:
        if self.max_concurrency is not None and self.in_flight >= self.max_concurrency:
            return Refusal()
        longest, kind = 0.0, None
        for limit, need in needs:
            wait = limit.wait(now, need)
            if wait > longest:
                longest, kind = wait, limit.limit.kind
        return None if kind is None else Refusal(kind, longest)

    def produced(self, grant: Grant, now: float, tokens: int) -> None:
        """Output tokens came into being."""
        grant.output += tokens
        for limit, _, _ in grant.held:
            if limit.limit.counted == "as_produced" and limit.limit.kind in ("output_tokens", "total_tokens"):
                limit.count(now, tokens)

    def settle(self, grant: Grant, now: float, *, worked: bool = True) -> None:
        """The call is over, however it ended; idempotent. `worked` is False for one that failed before any work."""
        if not grant.open:
            return
        grant.open = False
        self.in_flight -= 1
        given, cached = (grant.given, grant.cached) if worked else (0, 0)
        for limit, entries, reserved in grant.held:
            if limit.limit.counted == "reconciled":
                delta = limit.amount(given, grant.output, cached) - reserved
                if delta:
                    limit.correct(entries, delta, now)

    def readings(self, now: float) -> tuple[Reading, ...]:
        """What the response headers say of every limit."""
        return tuple([limit.reading(now) for limit in self.limits]) if self.limits else ()
