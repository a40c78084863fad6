"""The fair order of queued calls: priority, tenant, job, run, arrival.

The problem. Calls of many tenants wait for one model server. Calls differ in size by a factor of a thousand, and their
size is known only when they end. Each tenant shall get service in proportion to its weight while it has work waiting;
what one does not use goes to the others; and having been idle earns nothing. The same again for the jobs of a tenant.

Counters. Service is what a call costs: input, cached input and output tokens, each at its price. Each child of a node
has a counter: the service it has had, divided by its weight. The active child with the least counter goes next. That is
the Virtual Token Counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024).

Lift. A child that comes back after an hour has the least counter by far, and would have the server to itself until it
had caught up. So each node keeps a virtual time V: the greatest counter, before its charge, at which a child was
dispatched, as the start tags in start-time fair queuing (Goyal, Vin, Cheng, SIGCOMM 1996). V never goes back. A child
that goes from no eligible queued call to one continues from max(own counter, V - credit). Calls in flight, calls of a
tenant that is parked at its own limit, and calls that wait for a retry are not eligible: they keep nobody active, so
nobody banks claims with them. The credit, three mean calls unless configured otherwise, lets a light tenant's first
call go at once instead of after everybody else's next one. It is counted in calls of the child's own weight, so that
multiplying all weights by the same number changes nothing.

Charging. A call is charged at dispatch with its predicted cost, then with what it streams beyond that, and at its end
the difference is booked. Charging at the end only would let one tenant fill all slots before its first bill arrives.

The bound. Take two siblings of one priority that both have eligible calls throughout some interval. Let W be the
service booked for each within it, and w the weight. When f was last dispatched before an instant, its counter was not
above g's. Since then f's grew by that one charge q_f and by under-predictions E_f of its calls in flight, and g's fell
by at most the refunds S_g of its calls in flight. Written down for both ends of the interval and both siblings:

    |W_f/w_f - W_g/w_g|  <=  (q_f + E_f + S_f)/w_f + (q_g + E_g + S_g)/w_g + credit

Service delivered, rather than booked, differs by what is predicted and not yet streamed; with that, E becomes
I = the output of the calls in flight at the greater of prediction and truth.

Above the tenants, `priorities.py` picks a priority: strict, with a minimum share. Each priority has a tree of its own,
and a tenant has separate counters in each. Below the jobs, `run_order.py` gives each call its key.

Known limits. The bound holds for a dispatcher that always starts the head. One that lets later calls pass a head that a
limit holds adds what it lets pass. The order knows nothing of limits, endpoints or time except in a call's key.
Weights changed live hold from then on. Shares between priorities are not fair but strict, and one tenant with work in
two priorities gets its share in each. An idle child is forgotten once V has passed it; if more than
`fair_tree.IDLE_KEPT` siblings are idle and ahead of V, those least ahead are forgotten early.

Cost: every operation is O(log n) in the number n of *active* siblings at its node, amortised.
"""

from collections.abc import Iterator

from agents.port import Priority
from orchestrator.policy.fair_config import FairConfig, Weights
from orchestrator.policy.fair_report import Queued, TenantShare, queued_by_tenant, tenant_shares, worst_spread
from orchestrator.policy.fair_tree import JobNode, TenantNode, Tree
from orchestrator.policy.priorities import Debts
from orchestrator.policy.run_order import RunOrder
from orchestrator.policy.run_table import RunTable
from orchestrator.policy.ticket import Ticket

__all__ = ["FairConfig", "FairQueue", "TenantShare"]

_PRIORITIES = len(Priority)


class FairQueue:
    """The queued calls of one backend in fair order.

    Plain data: no await, no clock of its own. Tickets come in with `push`, leave with `discard` or `start`, and a
    started one is closed with `settle`. `head` and `candidates` only look.
    """

    __slots__ = (
        "_count",
        "_credit_calls",
        "_debts",
        "_order",
        "_parked",
        "_queued",
        "_trees",
        "_weights",
        "runs",
    )

    def __init__(self, config: FairConfig) -> None:
        self.runs = RunTable()
        self._order = RunOrder(config.order, config.overtaking, config.put_back, self.runs)
        self._credit_calls = config.credit_calls
        self._weights = Weights(config)
        self._debts = Debts(config.minimum_share, _PRIORITIES)
        self._trees = tuple(Tree(priority) for priority in Priority)
        self._parked: set[str] = set()
        self._queued = 0
        self._count = 0

    def push(self, ticket: Ticket, now: float) -> None:
        """The call is eligible and waits from now on. Its key, once set, is kept: a retry has its old place."""
        assert ticket.queue_node is None, "the call is already queued or in flight"
        tree = self._trees[ticket.priority]
        tenant = tree.children.get(ticket.tenant)
        if tenant is None:
            tenant = self._new_tenant(tree, ticket.tenant)
        job = tenant.children.get(ticket.job)
        if job is None:
            job = self._new_job(tenant, ticket.job)
        key = ticket.key
        if key is None:
            key = ticket.key = self._order.key(ticket, now)
        self._count += 1
        ticket.queue_node = job.add(key, self._count, ticket)
        self._queued += 1
        tenant.queued += 1
        tenant.since[self._count] = now
        if job.queued == 1:
            tenant.activate(job, self.credit)
            if tenant.queued == 1 and not tenant.parked:
                self._activate(tenant)

    def discard(self, ticket: Ticket) -> None:
        """The queued call vanishes. Nothing happens to one that is not queued."""
        entry = ticket.queue_node
        if type(entry) is tuple:
            ticket.queue_node = None
            self._remove(entry, entry[4])

    def head(self) -> Ticket | None:
        """The call that should go next, None if there is no eligible one."""
        priority = self._debts.due()
        if priority < 0:
            return None
        return self._trees[priority].first().first().first()

    def candidates(self) -> Iterator[Ticket]:
        """The head, then the first call of each other eligible tenant, by its counter, in the priority that is due;
        then the same in the other priorities, in the order in which they would be due.

        Lazy, and changes nothing. During the iteration calls may be discarded, tenants parked and one call started;
        after any other change it raises RuntimeError.
        """
        for priority in self._debts.order():
            for tenant in self._trees[priority].walk():
                yield tenant.first().first()

    def start(self, ticket: Ticket, charge: float) -> None:
        """The queued call is dispatched: it leaves the queue, and `charge` (in service units) is booked."""
        entry = ticket.queue_node
        assert type(entry) is tuple, "only a queued call can start"
        job: JobNode = entry[4]
        tenant = job.tenant
        tree = tenant.tree
        ticket.queue_node = job
        ticket.charge = charge
        if job.counter > tenant.virtual:
            tenant.virtual = job.counter
        if tenant.counter > tree.virtual:
            tree.virtual = tenant.counter
        job.dispatched(charge)
        tenant.dispatched(charge)
        self._debts.dispatched(tree.priority, charge)
        self._remove(entry, job)

    def charge(self, ticket: Ticket, more: float) -> None:
        """Books service of a call in flight beyond its charge; nothing once it is settled."""
        job = ticket.queue_node
        if type(job) is JobNode:
            ticket.charge += more
            self._correct(job, more)

    def settle(self, ticket: Ticket, actual: float, seconds: float = 0.0) -> None:
        """The attempt ended after `seconds` in flight and cost `actual` (0 if it was refused before any work): books
        the difference, once.
        """
        job = ticket.queue_node
        if type(job) is not JobNode:
            return
        ticket.queue_node = None
        tenant = job.tenant
        tree = tenant.tree
        change = actual - ticket.charge
        ticket.charge = actual
        job.settled(change, actual)
        tenant.settled(change, actual)
        if change:
            self._debts.corrected(tree.priority, change)
            if change < 0.0:
                tenant.lowered(job)
                tree.lowered(tenant)
        self._order.served(ticket, actual, seconds)

    def park(self, tenant: str) -> None:
        """The tenant is stopped by a limit of its own: none of its calls is eligible, in any priority."""
        if tenant not in self._parked:
            self._parked.add(tenant)
            for node in self._nodes(tenant):
                node.parked = True
                if node.queued:
                    self._deactivate(node)

    def unpark(self, tenant: str) -> None:
        """The tenant's calls are eligible again; it comes back like one that was idle."""
        if tenant in self._parked:
            self._parked.remove(tenant)
            for node in self._nodes(tenant):
                node.parked = False
                if node.queued:
                    self._activate(node)

    def weight(self, tenant: str) -> float:
        """A tenant's weight now."""
        return self._weights.tenant(tenant)

    def set_weight(self, tenant: str, weight: float) -> None:
        """Changes a tenant's weight from now on. Raises `InvalidLimits`."""
        self._weights.set_tenant(tenant, weight)
        for node in self._nodes(tenant):
            node.reweigh(weight)
            node.tree.lowered(node)

    def set_job_weight(self, tenant: str, job: str, weight: float) -> None:
        """Changes a job's weight from now on. Raises `InvalidLimits`."""
        self._weights.set_job(tenant, job, weight)
        for parent in self._nodes(tenant):
            node = parent.children.get(job)
            if node is not None:
                node.reweigh(weight)
                parent.lowered(node)

    def __len__(self) -> int:
        return self._queued

    @property
    def credit(self) -> float:
        """How far behind V a child of weight 1 may start, in service units."""
        return self._credit_calls * self._order.mean

    @property
    def mean_service(self) -> float:
        """The moving average of a call's service, 0 until one has ended."""
        return self._order.mean

    @property
    def virtual_times(self) -> tuple[float, ...]:
        """V of each priority's tenants, in service units per weight, highest priority first. Never decreases."""
        return tuple(tree.virtual for tree in self._trees)

    @property
    def debts(self) -> tuple[float, ...]:
        """The priorities' debts in service units, highest priority first."""
        return self._debts.debts

    def queued(self, priority: Priority, tenant: str) -> int:
        """How many of a tenant's calls are queued in a priority, eligible or not."""
        node = self._trees[priority].children.get(tenant)
        return 0 if node is None else node.queued

    def tenants(self) -> dict[str, TenantShare]:
        """Every tenant that is remembered, with its service and standing over all priorities."""
        return tenant_shares(self._trees)

    def queued_by_tenant(self) -> list[Queued]:
        """What each tenant has queued, by priority, the most urgent first. O(remembered tenants)."""
        return queued_by_tenant(self._trees)

    @property
    def minimum_share(self) -> float:
        """The part of the service that a lower priority has for sure while it has calls."""
        return self._debts.share

    def spread_and_bound(self) -> tuple[float, float]:
        """The largest difference of booked service per weight between siblings that were eligible ever since this was
        last asked, and the bound for that pair; (0, 0) if there is no such pair. Service units. O(remembered flows).
        """
        return worst_spread(self._trees)

    def __repr__(self) -> str:
        active = [tree.active for tree in self._trees]
        return f"<FairQueue queued={self._queued} active_tenants={active} parked={len(self._parked)}>"

    def _nodes(self, tenant: str) -> list[TenantNode]:
        return [tree.children[tenant] for tree in self._trees if tenant in tree.children]

    def _new_tenant(self, tree: Tree, name: str) -> TenantNode:
        tenant = TenantNode(name, self._weights.tenant(name), tree)
        tenant.parked = name in self._parked
        tree.adopt(tenant, self.credit)
        return tenant

    def _new_job(self, tenant: TenantNode, name: str) -> JobNode:
        job = JobNode(name, self._weights.job(tenant.name, name), tenant)
        tenant.adopt(job, self.credit)
        return job

    def _activate(self, tenant: TenantNode) -> None:
        tree = tenant.tree
        tree.activate(tenant, self.credit)
        if tree.active == 1:
            self._debts.filled(tree.priority)

    def _deactivate(self, tenant: TenantNode) -> None:
        tree = tenant.tree
        tree.deactivate(tenant)
        if not tree.active:
            self._debts.emptied(tree.priority)

    def _remove(self, entry: tuple[float, int, int, Ticket, JobNode], job: JobNode) -> None:
        tenant = job.tenant
        self._queued -= 1
        tenant.queued -= 1
        del tenant.since[entry[2]]
        job.forget(entry)
        if not job.queued:
            tenant.deactivate(job)
            if not tenant.queued and not tenant.parked:
                self._deactivate(tenant)

    def _correct(self, job: JobNode, change: float) -> None:
        tenant = job.tenant
        tree = tenant.tree
        job.corrected(change)
        tenant.corrected(change)
        self._debts.corrected(tree.priority, change)
        if change < 0.0:
            tenant.lowered(job)
            tree.lowered(tenant)
