"""Budgets of tenants: what each may spend in a day, in a month, or in all, over agents, jobs and the gateway together.

Every period has a scope of its own (`agents.budget.Scope`), in UTC. When a period ends, its scope is replaced by a
fresh one; calls that began before are settled in the old one, where they were reserved. A tenant's runs and jobs hang
below a node (`_Node`) whose parent is the scope of the present period, so a job that lives through midnight spends from
the new day's budget from its next call on.

What a gateway's call could use at most is reserved before it is submitted, as for an agent's (`agents.model_need`). So
concurrent calls of any kind overshoot a tenant's budget by nothing. Where a program names no `max_tokens`, the model's
maximum is reserved, or what is left of the budget if that is less and still worth an answer; the call then goes out
with that bound, or it would be none.

Known limits: a call may cost more than was reserved for it where its input cannot be bounded (see
`orchestrator.dialects.input_bound`). What is reported is what counts, so the next call finds the budget overdrawn.

What earlier daemons spent is the ledger's to know: it is given in, by tenant and day. A client's call has an open row
there before it is submitted (`held_call`), so that a daemon that is killed forgives nothing.

Nothing here knows a clock: `wall` is passed in.
"""

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from agents.budget import Amounts, Blocked, Exhausted, Limits, Reservation, Scope
from agents.errors import BudgetExceeded, InvalidLimits
from agents.model_need import model_need
from agents.money import Prices
from agents.reserve import when_room
from agents.spec import DEFAULT_MAX_TOKENS
from orchestrator.budget_periods import Per, Spent, period_of, spent_in
from orchestrator.held_call import NOT_SENT, HeldCall, announce
from orchestrator.store.ledger_port import CallRow, Ledger, SpentRow
from orchestrator.views.queue import BudgetView

__all__ = ["LEAST_ANSWER", "HeldCall", "Per", "Spent", "TenantBudget", "TenantBudgets", "period_of", "spent_in"]

LEAST_ANSWER: Final = 256
"""Output tokens below which an answer is not worth asking for, where the program left its length to us."""


class TenantBudget(Struct, frozen=True, kw_only=True):
    """What a tenant may use in one period; None is no limit."""

    micro_dollars: int | None = None
    tokens: int | None = None
    per: Per = "ever"

    @property
    def limits(self) -> Limits:
        return Limits(tokens=self.tokens, micro_dollars=self.micro_dollars)


class TenantBudgets:
    """The budgets in force. Implements `orchestrator.api.call_services.Budgets`.

    `prices` are those of the moment, `longest` says how long a model's answer can be; `spent` is what the `ledger` says
    of earlier daemons' calls (`Ledger.spent`).
    """

    def __init__(
        self,
        budgets: Mapping[str, TenantBudget],
        *,
        prices: Callable[[], Prices],
        wall: Callable[[], float],
        longest: Callable[[str], int] = lambda model: DEFAULT_MAX_TOKENS,
        spent: Iterable[SpentRow] = (),
        ledger: Ledger | None = None,
    ) -> None:
        self._prices = prices
        self._wall = wall
        self._longest = longest
        self._tenants: dict[str, _Tenant] = {}
        self._ledger = ledger
        self._history: dict[str, list[SpentRow]] = {}
        self.refused: Counter[str] = Counter()
        """Calls that were refused, by tenant."""
        self.configure(budgets, spent)

    def __bool__(self) -> bool:
        """Whether any tenant has a budget."""
        return any(tenant.budget is not None for tenant in self._tenants.values())

    def __repr__(self) -> str:
        return f"<TenantBudgets of {len(self._tenants)}>"

    def configure(self, budgets: Mapping[str, TenantBudget], spent: Iterable[SpentRow] = ()) -> None:
        """Puts other budgets in force, also for work under way. What was spent of a period stays spent.

        Budgets that are new, or of another period than before, begin with what `spent` says (`Ledger.spent`).
        """
        for row in spent:
            days = self._history.setdefault(row.tenant, [])
            days[:] = [*(day for day in days if day.day != row.day), row]
        for name in self._tenants.keys() - budgets.keys():
            self._tenants[name].configure(None)
        for name, budget in budgets.items():
            tenant = self._tenants.get(name)
            if tenant is None:
                history = self._history.setdefault(name, [])
                tenant = self._tenants[name] = _Tenant(name, self._wall, history)
            tenant.configure(budget)

    def scope(self, tenant: str) -> Scope | None:
        """The scope above a tenant's runs and jobs; None where it has no budget. It follows the periods by itself."""
        found = self._tenants.get(tenant)
        return None if found is None or found.budget is None else found.node

    async def reserve_call(
        self, tenant: str, model: str, *, input_tokens: int, max_tokens: int | None, choices: int = 1, key: str = ""
    ) -> HeldCall | None:
        """Reserves the most that a call can use; see `orchestrator.api.call_services.Budgets`. Raises `StoreError`."""
        scope = self.scope(tenant)
        if scope is None:
            return None
        price = self._prices().price(model)
        if price is None and scope.limited("micro_dollars"):
            raise InvalidLimits("model", f"tenant {tenant} has a budget of money, and model {model!r} has no price")
        each = self._longest(model) if max_tokens is None else max_tokens
        floor = (min(LEAST_ANSWER, each) if max_tokens is None else each) * choices

        def decide() -> HeldCall | Exhausted | Blocked:
            need = model_need(scope, input_tokens, each * choices, floor, price)
            if isinstance(need, Exhausted):
                return need
            granted = scope.reserve(need.amounts)
            if not isinstance(granted, Reservation):
                return granted
            bound = need.max_tokens // choices if max_tokens is None else None
            return HeldCall(granted, price, bound, lambda: self._close(tenant, model, key))

        held: HeldCall | Exhausted = await when_room(decide)
        if isinstance(held, Exhausted):
            raise self._exceeded(tenant, held)
        await self._announce(held, tenant, model, key)
        return held

    def spent(self) -> Iterator[Spent]:
        """What every tenant has used of its present period.

        What calls under way hold counts as unknown: a daemon that is killed never learns what they used.
        """
        for tenant in self._tenants.values():
            record = tenant.spent()
            if record is not None:
                yield record

    def views(self) -> list[BudgetView]:
        """How full every budget is, the fullest first: one for tokens and one for money, where they are bounded."""
        now = self._wall()
        views = [view for tenant in self._tenants.values() for view in tenant.views(now)]
        return sorted(views, key=lambda view: (-(view.used + view.reserved) / (view.allowed or 1.0), view.tenant))

    async def _announce(self, held: HeldCall, tenant: str, model: str, key: str) -> None:
        if self._ledger is None or not key:
            return
        whole = held.held
        row = CallRow(
            key=key,
            tenant=tenant,
            model=model,
            arrived=self._wall(),
            unknown_tokens=whole.tokens,
            unknown_micro_dollars=whole.micro_dollars,
        )
        try:
            await announce(self._ledger, row)
        except BaseException:
            held.settle(None, worked=False)
            raise

    def _close(self, tenant: str, model: str, key: str) -> None:
        """Ends the row of a call that was not sent, unless its owner has."""
        if self._ledger is not None and key:
            now = self._wall()
            row = CallRow(
                key=key,
                tenant=tenant,
                model=model,
                arrived=now,
                ended=now,
                outcome=NOT_SENT,
                input=0,
                output=0,
                micro_dollars=0,
            )
            self._ledger.write((row,))

    def _exceeded(self, tenant: str, exhausted: Exhausted) -> BudgetExceeded:
        self.refused[tenant] += 1
        renews = self._tenants[tenant].renews
        if renews is None:
            return BudgetExceeded(f"the budget is spent: {exhausted.message}")
        when = datetime.datetime.fromtimestamp(renews, datetime.UTC)
        return BudgetExceeded(
            f"the budget is spent until {when:%Y-%m-%d %H:%M} UTC: {exhausted.message}", renews=renews
        )


class _Tenant:
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
