"""The rules of the fair order written down as plainly as possible: lists, full scans, no heaps, nothing cached."""

from agents.port import Priority
from orchestrator.policy.ticket import Ticket

Path = tuple[str, ...]


class Naive:
    """Counters, virtual times and debts in dicts; eligibility is looked up anew each time. O(n) everything.

    A path is (priority, tenant) or (priority, tenant, job); its parent is the path without the last word.
    """

    def __init__(self, share: float, credit_calls: float) -> None:
        self.share = share
        self.credit_calls = credit_calls
        self.waiting: list[Ticket] = []
        self.keys: dict[int, float] = {}
        self.flying: dict[int, tuple[Ticket, float]] = {}
        self.parked: set[str] = set()
        self.weights: dict[Path, float] = {}
        self.counter: dict[Path, float] = {}
        self.virtual: dict[Path, float] = {}
        self.since: dict[Path, int] = {}
        self.debt = dict.fromkeys(Priority, 0.0)
        self.costs: list[float] = []
        self.mean = 0.0
        self.attained: dict[Path, float] = {}
        self.clock = 0

    def paths(self, ticket: Ticket) -> tuple[Path, Path]:
        top = (ticket.priority.name, ticket.tenant)
        return top, (*top, ticket.job)

    def weight(self, path: Path) -> float:
        return self.weights.get(path[1:], 1.0)

    def active(self) -> set[Path]:
        """Tenants with an eligible call, and jobs with a queued one (a parked tenant's jobs keep their places)."""
        tenants = {self.paths(ticket)[0] for ticket in self.waiting if ticket.tenant not in self.parked}
        return tenants | {self.paths(ticket)[1] for ticket in self.waiting}

    def eligible(self, priority: Priority) -> bool:
        return any(t.priority == priority and t.tenant not in self.parked for t in self.waiting)

    def lift(self, before: set[Path]) -> None:
        for path in sorted(self.active() - before, key=len, reverse=True):
            self.clock += 1
            self.since[path] = self.clock
            floor = self.virtual.get(path[:-1], 0.0) - self.credit_calls * self.mean / self.weight(path)
            self.counter[path] = max(self.counter.get(path, 0.0), floor)

    def settle_debts(self) -> None:
        for priority in Priority:
            if not self.eligible(priority):
                self.debt[priority] = min(self.debt[priority], 0.0)

    def push(self, ticket: Ticket, now: float) -> None:
        if ticket.seq not in self.keys:
            had = self.attained.get((ticket.tenant, ticket.job, ticket.run), 0.0)
            self.keys[ticket.seq] = now + min(600.0, 0.5 * had)
        before = self.active()
        self.waiting.append(ticket)
        self.lift(before)

    def discard(self, ticket: Ticket) -> None:
        self.waiting.remove(ticket)
        self.settle_debts()

    def park(self, tenant: str) -> None:
        self.parked.add(tenant)
        self.settle_debts()

    def unpark(self, tenant: str) -> None:
        before = self.active()
        self.parked.discard(tenant)
        self.lift(before)

    def spend(self, priority: Priority, service: float, own: float) -> None:
        for other in Priority:
            if other != priority:
                self.debt[other] += self.share * service
        self.debt[priority] = own
        self.settle_debts()

    def start(self, ticket: Ticket, charge: float) -> None:
        for path in self.paths(ticket):
            parent = path[:-1]
            self.virtual[parent] = max(self.virtual.get(parent, 0.0), self.counter[path])
            self.counter[path] += charge / self.weight(path)
        mine = max(self.debt[ticket.priority], 0.0) - (1.0 - self.share) * charge
        self.spend(ticket.priority, charge, mine)
        self.waiting.remove(ticket)
        self.settle_debts()
        self.flying[ticket.seq] = (ticket, charge)

    def charge(self, ticket: Ticket, more: float) -> None:
        self.flying[ticket.seq] = (ticket, self.flying[ticket.seq][1] + more)
        self.correct(ticket, more)

    def correct(self, ticket: Ticket, change: float) -> None:
        for path in self.paths(ticket):
            self.counter[path] += change / self.weight(path)
        mine = self.debt[ticket.priority]
        after = mine - (1.0 - self.share) * change
        self.spend(ticket.priority, change, min(after, max(mine, 0.0)) if change < 0 else after)

    def settle(self, ticket: Ticket, actual: float, seconds: float) -> None:
        _, charged = self.flying.pop(ticket.seq)
        self.correct(ticket, actual - charged)
        if actual > 0:
            self.costs.append(actual)
            self.mean += (actual - self.mean) / min(len(self.costs), 100)
            run = (ticket.tenant, ticket.job, ticket.run)
            if ticket.run:
                self.attained[run] = self.attained.get(run, 0.0) + seconds

    def reweigh(self, path: Path, weight: float) -> None:
        """`path` is (tenant,) or (tenant, job). What is in flight counts at the new weight."""
        for priority in Priority:
            full = (priority.name, *path)
            flying = sum(charge for t, charge in self.flying.values() if full in self.paths(t))
            if full in self.counter:
                self.counter[full] += flying / weight - flying / self.weight(full)
        self.weights[path] = weight

    def order(self) -> list[Ticket]:
        """One call per priority and tenant, as they would go."""
        tickets: list[Ticket] = []
        left = [p for p in Priority if self.eligible(p)]
        while left:
            claims = [p for p in left if self.debt[p] > 0]
            priority = max(claims) if claims else min(left)
            left.remove(priority)
            waiting = [t for t in self.waiting if t.priority == priority and t.tenant not in self.parked]
            for top in sorted({self.paths(t)[0] for t in waiting}, key=self.place):
                mine = [t for t in waiting if self.paths(t)[0] == top]
                tickets.append(min(mine, key=lambda t: (self.place(self.paths(t)[1]), self.keys[t.seq], t.seq)))
        return tickets

    def place(self, path: Path) -> tuple[float, int]:
        return self.counter[path], self.since[path]
