"""Budgets of tenants: what each may spend in a day, in a month, or in all, over agents, jobs and the gateway together.

Every period has a scope of its own (`agents.budget.Scope`), in UTC. When a period ends, its scope is replaced by a
fresh one; calls that began before are settled in the old one, where they were reserved. A tenant's runs and jobs hang
below a node (`tenant_budget`) whose parent is the scope of the present period, so a job that lives through midnight
spends from the new day's budget from its next call on.

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

from agents.budget import Blocked, Exhausted, Reservation, Scope
from agents.errors import BudgetExceeded, InvalidLimits
from agents.model_need import model_need
from agents.money import Prices
from agents.reserve import when_room
from agents.spec import DEFAULT_MAX_TOKENS
from orchestrator.budget_periods import Per, Spent, period_of, spent_in
from orchestrator.held_call import NOT_SENT, HeldCall, announce
from orchestrator.store.ledger_port import CallRow, Ledger, SpentRow
from orchestrator.tenant_budget import TenantBudget, TenantScopes
from orchestrator.views.queue import BudgetView

__all__ = ["LEAST_ANSWER", "HeldCall", "Per", "Spent", "TenantBudget", "TenantBudgets", "period_of", "spent_in"]

LEAST_ANSWER: Final = 256
"""Output tokens below which an answer is not worth asking for, where the program left its length to us."""


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
        self._tenants: dict[str, TenantScopes] = {}
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
                tenant = self._tenants[name] = TenantScopes(name, self._wall, history)
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
