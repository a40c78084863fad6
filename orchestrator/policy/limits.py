"""All limits of one endpoint, or of one tenant: a call reserves in every one of them or in none.

`check` answers None where a call fits, or the obstacle; `reserve` then takes its amounts everywhere and answers the
`Lease` that gives them back. Between the two nothing may happen, so there is nothing to roll back: a call that is
refused has taken nothing. The books of one limit are in `window`, what a live call holds in `lease`.

What a call takes of a limit, by the limit's kind and `counted`:

| kind           | `at_admission`         | `reconciled`                     | `as_produced`               |
|----------------|------------------------|----------------------------------|-----------------------------|
| requests       | 1                      | 1                                | 1                           |
| input tokens   | estimate, only raised  | estimate, settled                | estimate, settled           |
| output tokens  | its bound, kept        | its bound, settled               | logged as it comes          |
| total tokens   | both                   | both                             | both                        |

Estimates get a margin of four standard deviations of all unsettled input together. Where output counts as produced a
call starts while less than 99 % of the window is used, and the pacer charges the predicted output.

Known limits: a limit added to a live set knows nothing of the calls already in flight.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.policy.all_limits import hold_in_all, obstacle_among
from orchestrator.policy.feedback import LimitKind, Reading
from orchestrator.policy.lease import WRITE_GRACE, Lease
from orchestrator.policy.limitspec import Counted, InFlightSpec, LimitSpec
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.window import LEAST_BURST, Window

__all__ = [
    "WRITE_GRACE",
    "Blocked",
    "Counted",
    "InFlightSpec",
    "Lease",
    "LimitKind",
    "LimitSet",
    "LimitSetStatistics",
    "LimitSpec",
    "LimitStatistics",
    "Window",
]

HALVING_BELOW = 0.9
"""A 429 while less than this share of a limit is used speaks of bursts, not of the limit."""


class Blocked(Struct, frozen=True, gc=False):
    """Why a call cannot start: the limit's name, what the call needs of it, and when to look again.

    `until` is infinite where only live calls are in the way: look again when a lease says that it freed something.
    `window` identifies the limit for `LimitSet.amount_of`; None where the room in flight is short.
    """

    limit: str
    until: float
    amount: float
    short_of: Literal["window", "in_flight"]
    window: Window | None = None


class LimitStatistics(Struct, frozen=True):
    """One limit's books at one time, in its own unit, per `per` seconds; `foreign` is what others probably use.

    `amount` is what the provider allows, at most what is `configured`; `withheld` is the part of that which is not ours
    to use: what others use, and what the provider took away.

    `pace_share` is the part of the limit at which it is paced, below 1 after refusals that nothing explains.
    """

    name: str
    amount: float
    used: float
    held: float
    foreign: float
    burst_seconds: float
    closed_until: float
    pace_share: float = 1.0
    per: float = 60.0
    configured: float = 0.0
    withheld: float = 0.0


class LimitSetStatistics(Struct, frozen=True):
    """What a set of limits holds at one time; the caps on what is in flight are infinite where there is none."""

    in_flight_calls: int
    tokens_in_flight: int
    awaiting_first_token: int
    limits: tuple[LimitStatistics, ...]
    most_calls: float = math.inf
    most_tokens: float = math.inf
    most_awaiting: float = math.inf


class LimitSet:
    """The limits of one endpoint or one tenant. Times are on the owner's clock, in seconds.

    Raises `InvalidLimits` where two limits have the same kind and span.
    """

    def __init__(
        self,
        specs: Sequence[LimitSpec] = (),
        in_flight: InFlightSpec | None = None,
        *,
        now: float = 0.0,
    ) -> None:
        self._windows: tuple[Window, ...] = ()
        self.in_flight_calls = 0
        self.tokens_in_flight = 0
        self.awaiting_first_token = 0
        self.reconfigure(specs, in_flight, now)

    def reconfigure(self, specs: Sequence[LimitSpec], in_flight: InFlightSpec | None, now: float) -> None:
        """Puts other limits in force. One whose kind and span remain keeps its log; live calls keep their leases."""
        keys = [(spec.kind, spec.per) for spec in specs]
        for spec, key in zip(specs, keys, strict=True):
            if keys.count(key) > 1:
                raise InvalidLimits("limits", f"{spec.name} is given more than once")
        kept = {(window.spec.kind, window.span): window for window in self._windows}
        windows = []
        for spec, key in zip(specs, keys, strict=True):
            window = kept.get(key)
            if window is None:
                window = Window(spec, now)
            elif window.spec != spec:
                window.configure(spec)
            windows.append(window)
        # a new tuple: leases keep the one that their amounts go with
        self._windows = tuple(windows)
        caps = in_flight or InFlightSpec()
        self._max_calls = math.inf if caps.calls is None else caps.calls
        self._max_tokens = math.inf if caps.tokens is None else caps.tokens
        self._max_awaiting = math.inf if caps.first_token is None else caps.first_token
        self._produced = any(window.per_paced for window in windows)
        self._note_smallest()

    def _note_smallest(self) -> None:
        """A call below the smallest limit is too large for none."""
        self._smallest = min((window.amount for window in self._windows), default=math.inf)

    # Deciding

    def check(self, ticket: Ticket, now: float) -> Blocked | None:
        """None if the call fits in all limits; else the one that it waits for longest. Takes nothing."""
        if self.in_flight_calls >= self._max_calls:
            return Blocked("calls in flight", math.inf, 1.0, "in_flight")
        if self.awaiting_first_token >= self._max_awaiting:
            return Blocked("calls without a first token", math.inf, 1.0, "in_flight")
        if self._max_tokens < math.inf and self.in_flight_calls:
            tokens = ticket.whole_input + ticket.whole_output
            if self.tokens_in_flight + tokens > self._max_tokens:
                return Blocked("tokens in flight", math.inf, tokens, "in_flight")
        found = obstacle_among(self._windows, ticket.whole_input, ticket.max_output, ticket.variance, now)
        if found is None:
            return None
        window, until = found
        return Blocked(window.name, until, self.amount_of(ticket, window), "window", window)

    def reserve(self, ticket: Ticket, now: float, also: "LimitSet | None" = None) -> Lease:
        """Takes what the call needs in every limit of this set, and of `also`: an endpoint's and a tenant's.

        Only right after `check` of both answered None.
        """
        taken, predicted, bound, variance = ticket.whole_input, ticket.whole_output, ticket.max_output, ticket.variance
        windows, produced = self._windows, self._produced
        rooms: tuple[LimitSet, ...] = (self,)
        if also is not None:
            rooms = (self, also)
            windows += also._windows
            produced = produced or also._produced
        amounts = hold_in_all(windows, taken, predicted, bound, variance, now)
        for room in rooms:
            room.in_flight_calls += 1
            room.awaiting_first_token += 1
            room.tokens_in_flight += taken + predicted
        return Lease(rooms, windows, amounts, (taken, predicted, bound), variance, produced)

    def amount_of(self, ticket: Ticket, window: Window | None) -> float:
        """What the call would take of that limit in the end, predicted output included where it counts as produced."""
        if window is None:
            return 1.0
        return (
            window.unit
            + window.per_input * ticket.whole_input
            + window.per_output * ticket.max_output
            + window.per_paced * ticket.whole_output
        )

    def owns(self, window: Window | None) -> bool:
        """Whether a `Blocked.window` is one of this set's."""
        return any(window is own for own in self._windows)

    def too_large(self, ticket: Ticket) -> str | None:
        """What to tell a call that no waiting could ever admit; None for every other call."""
        taken = ticket.whole_input
        tokens = taken + ticket.whole_output
        if taken + ticket.max_output < self._smallest and tokens <= self._max_tokens:
            return None
        for window in self._windows:
            need = window.unit + window.per_input * taken + window.per_output * ticket.max_output
            if need > window.amount:
                return f"the call needs {need} of the limit {window.name}, which is {window.amount:g}"
        if tokens > self._max_tokens:
            return f"the call needs {tokens} of the limit tokens in flight, which is {self._max_tokens:g}"
        return None

    # What the provider says

    def observe(self, readings: Sequence[Reading], now: float) -> None:
        """Takes in what response headers say; readings of limits that are not in this set teach nothing."""
        for reading in readings:
            for window in self._windows:
                if window.spec.kind == reading.kind and window.span == reading.per:
                    window.read(reading.limit, reading.remaining, reading.reset, now)
        self._note_smallest()

    def throttled(self, exhausted: frozenset[str], retry_after: float | None, now: float) -> bool:
        """A 429 came, naming these limits (by kind or name) as used up; True if one of them is in this set.

        A kind names its shortest span that is not over before `retry_after` is, else the longest. Where less than 90 %
        of a limit is used, it was too much at once: the limits named (all, if none is) are paced more evenly, and
        once that is at its least, those named more slowly.
        """
        named = [window for window in self._windows if window.name in exhausted]
        for kind in exhausted:
            spans = sorted((w for w in self._windows if w.spec.kind == kind), key=lambda w: w.span)
            if spans:
                named.append(next((w for w in spans if retry_after is None or retry_after <= w.span), spans[-1]))
        for window in named if exhausted else self._windows:
            if window.tolerance > LEAST_BURST:
                if window.taken(now) < HALVING_BELOW * window.amount:
                    window.halve_burst(now)
            elif exhausted:
                window.slow_down(now)
        for window in named:
            window.exhausted(retry_after, now)
        return bool(named)

    # Seeing

    @property
    def most_tokens(self) -> float:
        """How many tokens may be in flight at one time, infinite where that is not bounded."""
        return self._max_tokens

    @property
    def windows(self) -> Sequence[Window]:
        """The limits, each with its books; to be read only."""
        return self._windows

    def used(self, now: float) -> Mapping[str, float]:
        """Logged and held, as a share of each limit as configured, by its name."""
        return {window.name: window.taken(now) / window.spec.amount for window in self._windows}

    def statistics(self, now: float) -> LimitSetStatistics:
        """The books, for people and tests."""
        return LimitSetStatistics(
            self.in_flight_calls,
            self.tokens_in_flight,
            self.awaiting_first_token,
            tuple(_row(window, now) for window in self._windows),
            self._max_calls,
            self._max_tokens,
            self._max_awaiting,
        )

    def __repr__(self) -> str:
        return f"<LimitSet in_flight={self.in_flight_calls} {list(self._windows)}>"


def _row(window: Window, now: float) -> LimitStatistics:
    held = window.held
    return LimitStatistics(
        name=window.name,
        amount=window.amount,
        used=window.taken(now) - held,
        held=held,
        foreign=0.0 if window.foreign is None else window.foreign.amount(now),
        burst_seconds=window.tolerance,
        closed_until=window.gate,
        pace_share=window.share,
        per=window.span,
        configured=float(window.spec.amount),
        withheld=window.withheld(now),
    )
