"""One tenant's budget: the scope of its present period, and the node that its work hangs below all the time."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from agents.amounts import Amounts, Limits
from agents.budget import Scope
from orchestrator.budget_periods import Per, Spent, period_of, spent_in
from orchestrator.store.ledger_port import SpentRow
from orchestrator.views.queue import BudgetView


class TenantBudget(Struct, frozen=True, kw_only=True):
    """What a tenant may use in one period; None is no limit."""

    micro_dollars: int | None = None
    tokens: int | None = None
    per: Per = "ever"

    @property
    def limits(self) -> Limits:
        return Limits(tokens=self.tokens, micro_dollars=self.micro_dollars)


class TenantScopes:
    """One tenant's budget, the scope of its present period, and the node that its work hangs below."""

    def __init__(self, name: str, wall: Callable[[], float], history: list[SpentRow]) -> None:
        self.name = name
        self.budget: TenantBudget | None = None
        self.renews: float | None = None
        self.node = _Node(f"tenant {name}", self._current)
        self._wall = wall
        self._history = history
        self._left: Spent | None = None
        self._period = ""
        self._scope: Scope | None = None

    def configure(self, budget: TenantBudget | None) -> None:
        other = self.budget is None or budget is None or self.budget.per != budget.per
        left = self.spent()
        self.budget = budget
        if other:
            self._end()
            self._left = left  # in case it comes back within its period
        elif self._scope is not None and budget is not None:
            self._scope.limits = budget.limits
            self._scope.wake()

    def spent(self) -> Spent | None:
        scope = self._current()
        if scope is None:
            return self._left
        open_ended = scope.unknown + scope.reserved
        return Spent(
            tenant=self.name,
            period=self._period,
            tokens=scope.used.tokens,
            micro_dollars=scope.used.micro_dollars,
            unknown_tokens=open_ended.tokens,
            unknown_micro_dollars=open_ended.micro_dollars,
        )

    def views(self, now: float) -> Iterator[BudgetView]:
        scope, budget = self._current(), self.budget
        if scope is None or budget is None:
            return
        open_ended = scope.unknown + scope.reserved
        amounts = (
            ("tokens", budget.tokens, scope.used.tokens, open_ended.tokens, 1),
            ("dollars", budget.micro_dollars, scope.used.micro_dollars, open_ended.micro_dollars, 1_000_000),
        )
        for amount, allowed, used, reserved, unit in amounts:
            if allowed is not None:
                yield BudgetView(
                    tenant=self.name,
                    period="total" if budget.per == "ever" else budget.per,
                    amount=amount,
                    used=used / unit,
                    reserved=reserved / unit,
                    allowed=allowed / unit,
                    resets_in=None if self.renews is None else max(0.0, self.renews - now),
                )

    def _current(self) -> Scope | None:
        if self.budget is None:
            return None
        now = self._wall()
        if self._scope is None or (self.renews is not None and now >= self.renews):
            self._end()
            self._begin(self.budget, now)
        return self._scope

    def _begin(self, budget: TenantBudget, now: float) -> None:
        self._period, self.renews = period_of(budget.per, now)
        self._scope = Scope(f"tenant {self.name}", budget.limits)
        left, self._left = self._left, None
        if left is None or left.period != self._period:
            left = spent_in(self._period, self.name, self._history)
        self._scope.used = Amounts(tokens=left.tokens, micro_dollars=left.micro_dollars)
        self._scope.unknown = Amounts(tokens=left.unknown_tokens, micro_dollars=left.unknown_micro_dollars)

    def _end(self) -> None:
        ended, self._scope = self._scope, None
        if ended is not None:
            ended.wake()  # who waits there finds room in the next period


class _Node(Scope):
    """A scope without limits whose parent is whatever `current` answers at the moment.

    A reservation keeps the path that it was made on, so it is settled in its own period.
    """

    __slots__ = ("_parent",)

    def __init__(self, name: str, current: Callable[[], Scope | None]) -> None:
        self._parent = current
        super().__init__(name)

    @property
    def parent(self) -> Scope | None:
        return self._parent()

    @parent.setter
    def parent(self, parent: Scope | None) -> None:
        assert parent is None
