"""Budgets: a tree of scopes, each with limits, in which every effect is paid before it happens.

Check and reserve happen together and for the whole path from leaf to root, with no await in between, so concurrent
workers overshoot a shared budget by nothing: what is reserved is an upper bound, what is settled is at most that.
Each scope keeps three amounts: `used` (settled), `reserved` (held by effects under way) and `unknown` (effects that
ended without saying what they used: it stays held and is shown apart, since it may have been spent).

A scope stops a run only where `used + unknown + need` exceeds a limit, and then the outermost such scope names the
reason. Where only reservations are in the way, somebody else may give back enough, and the run waits for a
settlement. Nobody waits while holding a reservation of its own, so this cannot deadlock.

This file is pure: no await, no clock. `agents.reserve` is the waiting shell.
"""

import math
from collections import OrderedDict
from typing import Final, Protocol

from msgspec import Struct

from agents.amounts import NOTHING, UNLIMITED, Amounts, Limits
from agents.lifecycle import StopReason

REASONS: Final = {
    "rounds": StopReason.MAX_ROUNDS,
    "tool_calls": StopReason.MAX_TOOL_CALLS,
    "tokens": StopReason.TOKEN_BUDGET_EXCEEDED,
    "micro_dollars": StopReason.COST_BUDGET_EXCEEDED,
    "timeout": StopReason.TIMEOUT,
}
"""The stop reason of each limit."""


class Exhausted(Struct, frozen=True):
    """A limit that stops the run: it allows `allowed`, `observed` is spent, and the effect would need `needed`."""

    scope: str
    limit: str
    allowed: float
    observed: float
    needed: float

    @property
    def reason(self) -> StopReason:
        return REASONS[self.limit]

    @property
    def message(self) -> str:
        if self.limit == "timeout":
            return f"{self.scope} allows {self.allowed:g} seconds, and {self.observed:.3g} have passed"
        unit = self.limit.replace("micro_dollars", "micro-dollars").replace("_", " ")
        return f"{self.scope} allows {self.allowed:.15g} {unit}: {self.observed:.15g} spent, {self.needed:.15g} needed"


class Blocked(Struct, frozen=True):
    """Only reservations of others are in the way: a settlement in this scope may make room."""

    scope: "Scope"


class Waiter(Protocol):
    """Somebody who waits for a settlement."""

    def wake(self) -> None: ...


class Scope:
    """One node of the budget tree. `name` is how it is called in results ("run", "job", "tenant acme")."""

    __slots__ = ("_waiters", "limits", "name", "parent", "reserved", "started", "unknown", "used")

    def __init__(self, name: str, limits: Limits = UNLIMITED, parent: "Scope | None" = None) -> None:
        self.name = name
        self.limits = limits
        self.parent = parent
        self.used = NOTHING
        self.reserved = NOTHING
        self.unknown = NOTHING
        self.started: float | None = None
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()

    def child(self, name: str, limits: Limits = UNLIMITED) -> "Scope":
        """A scope below this one; whatever it uses is counted here as well."""
        return Scope(name, limits, self)

    def path(self) -> "tuple[Scope, ...]":
        """This scope and all above it, outermost first."""
        scopes: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        return tuple(reversed(scopes))

    def limited(self, *fields: str) -> bool:
        """Whether any scope of the path limits one of these."""
        return any(getattr(scope.limits, field) is not None for scope in self.path() for field in fields)

    def check(self, need: Amounts) -> Exhausted | Blocked | None:
        """What stands in the way of `need`: a spent limit, reservations of others, or nothing."""
        return _obstacle(self.path(), need)

    def reserve(self, need: Amounts) -> "Reservation | Exhausted | Blocked":
        """Checks and reserves in one move, in every scope of the path or in none."""
        path = self.path()
        obstacle = _obstacle(path, need)
        if obstacle is not None:
            return obstacle
        for scope in path:
            scope.reserved += need
        return Reservation(path, need)

    def spend(self, amounts: Amounts) -> Exhausted | None:
        """Uses amounts that are known beforehand at once, in every scope of the path or in none.

        Nothing is waited for: reservations of others count as spent. That is for effects whose amount needs no
        settlement, like a tool call. Held back by siblings or children of its own run, it could wait for ever.
        """
        path = self.path()
        for scope in path:
            exhausted = scope.exhausted(amounts, scope.reserved)
            if exhausted is not None:
                return exhausted
        for scope in path:
            scope.used += amounts
        return None

    def give_back(self, amounts: Amounts) -> None:
        """Takes a `spend` back, for an effect that never began."""
        path = self.path()
        for scope in path:
            scope.used -= amounts
        for scope in path:
            scope._wake_first()

    def start(self, now: float) -> None:
        """The first running of something in this scope; timeouts count from here. Repeating it changes nothing."""
        for scope in self.path():
            if scope.started is None:
                scope.started = now

    def deadline(self) -> float:
        """When the first timeout of the path runs out, on the clock of `start`; infinity without one."""
        return min((scope._ends_at() for scope in self.path()), default=math.inf)

    def timed_out(self, now: float) -> Exhausted | None:
        """The outermost scope whose timeout has run out."""
        for scope in self.path():
            if now >= scope._ends_at():
                allowed, elapsed = scope.limits.timeout or 0.0, now - (scope.started or 0.0)
                return Exhausted(scope.name, "timeout", allowed, elapsed, 0.0)
        return None

    def wait(self, waiter: Waiter) -> None:
        """Puts a waiter at the end of this scope's queue; one that is in it keeps its place."""
        self._waiters.setdefault(waiter, None)

    def leave(self, waiter: Waiter) -> None:
        """Takes a waiter out and passes the word on to the next."""
        self._waiters.pop(waiter, None)
        self._wake_first()

    def wake(self) -> None:
        """Lets those who wait here look again, one after the other; for after a change of limits or of the tree."""
        self._wake_first()

    @property
    def waiting(self) -> int:
        """How many wait here for a settlement."""
        return len(self._waiters)

    def _ends_at(self) -> float:
        if self.started is None or self.limits.timeout is None:
            return math.inf
        return self.started + self.limits.timeout

    def exhausted(self, need: Amounts, held: Amounts = NOTHING) -> Exhausted | None:
        """This scope's first limit that `need` does not fit into, with `held` counted as spent."""
        for field in Amounts.__struct_fields__:
            allowed, needed = getattr(self.limits, field), getattr(need, field)
            if allowed is None or needed == 0:
                continue
            spent = getattr(self.used, field) + getattr(self.unknown, field) + getattr(held, field)
            if spent + needed > allowed:
                return Exhausted(self.name, field, allowed, spent, needed)
        return None

    def is_held(self, need: Amounts) -> bool:
        """Whether `need` does not fit beside what is used and reserved here."""
        held = self.used + self.unknown + self.reserved + need
        fields = [field for field in Amounts.__struct_fields__ if getattr(need, field)]
        allowed = [(field, getattr(self.limits, field)) for field in fields]
        return any(most is not None and getattr(held, field) > most for field, most in allowed)

    def _wake_first(self) -> None:
        first = next(iter(self._waiters), None)
        if first is not None:
            first.wake()

    def __repr__(self) -> str:
        return f"<Scope {self.name} used={self.used} reserved={self.reserved} unknown={self.unknown}>"


def _obstacle(path: tuple[Scope, ...], need: Amounts) -> Exhausted | Blocked | None:
    for scope in path:
        exhausted = scope.exhausted(need)
        if exhausted is not None:
            return exhausted
    return next((Blocked(scope) for scope in path if scope.is_held(need)), None)


class Reservation:
    """An amount held in every scope of a path until it is settled, exactly once.

    It is settled on the path it was made on, though a scope may have another parent by then.
    """

    __slots__ = ("_path", "need", "settled")

    def __init__(self, path: tuple[Scope, ...], need: Amounts) -> None:
        self._path = path
        self.need = need
        self.settled = False

    def settle(self, used: Amounts, unknown: Amounts = NOTHING) -> None:
        """Gives back what was held and counts what was used; `unknown` stays held. A second call changes nothing."""
        if self.settled:
            return
        self.settled = True
        for scope in self._path:
            scope.reserved -= self.need
            scope.used += used
            scope.unknown += unknown
        for scope in self._path:
            scope._wake_first()

    def release(self) -> None:
        """Nothing was used."""
        self.settle(NOTHING)

    def __repr__(self) -> str:
        return f"<Reservation {self.need} in {self._path[-1].name}{' settled' if self.settled else ''}>"
