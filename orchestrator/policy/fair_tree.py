"""One priority's tree of siblings ordered by virtual counters: tenants under a root, jobs under a tenant.

The theory is told in `fairness.py`; this file is its data structure. A `Branch` orders its active children by
`(counter, order of activation)` in a binary heap with lazy entries:

- an entry is a tuple `(counter, order, child)`, and a child has at most one current entry, `child.entry`; every other
  tuple that names it is stale and is thrown away when it comes to the top;
- a current entry's counter is never above the child's own. When a counter rises nothing is done: the entry is
  refreshed when it comes to the top. When a counter falls a new entry is pushed and the old one becomes stale;
- when more than twice as many entries are stale as live, the heap is rebuilt. So a heap holds O(active children),
  and one operation costs O(log active) amortised, whatever the number of idle ones.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from orchestrator.policy.fair_node import Node
from orchestrator.policy.ticket import Ticket

IDLE_KEPT = 1024
"""Idle children of one branch whose counters are remembered although they are ahead of the virtual time."""

_SLACK = 16
"""Stale entries that are not worth a rebuild."""

_Call = tuple[float, int, int, Ticket, "JobNode"]


class JobNode(Node):
    """A leaf: the queued calls of one job, by key, then arrival. Cancelled ones are tombstones until they surface."""

    __slots__ = ("calls", "tenant")

    def __init__(self, name: str, weight: float, tenant: "TenantNode") -> None:
        super().__init__(name, weight)
        self.tenant = tenant
        self.calls: list[_Call] = []

    def add(self, key: float, count: int, ticket: Ticket) -> _Call:
        """Queues a call; `count` rises with every addition, so that no two entries are alike."""
        entry = (key, ticket.seq, count, ticket, self)
        heappush(self.calls, entry)
        self.queued += 1
        return entry

    def first(self) -> Ticket:
        """The job's next call. The job must have one."""
        calls = self.calls
        while True:
            entry = calls[0]
            ticket = entry[3]
            if ticket.queue_node is entry:
                return ticket
            heappop(calls)

    def forget(self, entry: _Call) -> None:
        """Takes out a call that is no longer queued: at the top at once, elsewhere by and by."""
        self.queued -= 1
        calls = self.calls
        if not self.queued:
            calls.clear()
        elif calls[0] is entry:
            heappop(calls)
        elif len(calls) > 3 * self.queued + _SLACK:
            self.calls = [call for call in calls if call[3].queue_node is call]
            heapify(self.calls)


C = TypeVar("C", bound=Node)


class Branch(Node, Generic[C]):
    """A parent's side: its children, those that are active in order of their counters, and the virtual time V.

    `virtual` is the greatest counter, before its charge, at which a child was dispatched. It never goes back.
    """

    __slots__ = ("_activations", "_aside", "_heap", "_stale", "_sweep_at", "_walker", "active", "children", "virtual")

    def __init__(self, name: str, weight: float) -> None:
        super().__init__(name, weight)
        self.children: dict[str, C] = {}
        self.active = 0
        self.virtual = 0.0
        self._heap: list[tuple[float, int, C]] = []
        self._stale = 0
        self._aside: list[tuple[float, int, C]] = []  # what a walk has passed
        self._walker: object = None
        self._activations = 0
        self._sweep_at = 64

    def adopt(self, child: C, credit: float) -> None:
        """Adds a new, idle child; now and then lets go of idle ones that nobody will miss."""
        if len(self.children) >= self._sweep_at:
            self.sweep(credit)
        self.children[child.name] = child

    def activate(self, child: C, credit: float) -> None:
        """The child has eligible queued calls from now on: lifts its counter to V less `credit` (service units)."""
        lead = credit * child.scale
        child.lead = lead
        if child.counter < self.virtual - lead:
            child.counter = self.virtual - lead
        child.mark = None
        self._activations += 1
        child.order = self._activations
        if not self.active:
            self._heap.clear()
            self._aside.clear()
            self._stale = 0
        self.active += 1
        self._enter(child)

    def deactivate(self, child: C) -> None:
        """The child has no eligible queued call any more."""
        child.entry = None
        self.active -= 1
        self._stale += 1

    def lowered(self, child: C) -> None:
        """The child's counter fell: moves it forward."""
        entry = child.entry
        if entry is not None and child.counter < entry[0]:
            self._stale += 1
            self._enter(child)

    def _enter(self, child: C) -> None:
        child.entry = entry = (child.counter, child.order, child)
        self._restore()
        heappush(self._heap, entry)
        if self._stale > 2 * self.active + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].entry is entry]
            heapify(self._heap)
            self._stale = 0

    def first(self) -> C:
        """The active child with the least counter. There must be one."""
        if self._aside:
            self._restore()
        child = self._top()
        assert child is not None, "no child is active"
        return child

    def _top(self) -> C | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            child = entry[2]
            if child.entry is not entry:
                heappop(heap)
                self._stale -= 1
            elif entry[0] < child.counter:
                child.entry = entry = (child.counter, child.order, child)
                heapreplace(heap, entry)
            else:
                return child
        return None

    def walk(self) -> Iterator[C]:
        """Active children by counter, lazily: O(log active) for each.

        Those passed are taken off the heap and put back by whatever needs the heap next, so the refreshing of old
        entries is paid once and not by every walk. Children may become inactive meanwhile (they are left out) or be
        charged; after any other change the walk ends in a RuntimeError, as with a dict.
        """
        self._restore()
        walker = self._walker = object()
        heap = self._heap
        while (child := self._top()) is not None:
            yield child
            if self._walker is not walker:
                raise RuntimeError("the fair queue changed while its candidates were looked at")
            if heap[0] is child.entry:
                self._aside.append(heappop(heap))

    def _restore(self) -> None:
        self._walker = None
        for entry in self._aside:
            heappush(self._heap, entry)
        self._aside.clear()

    def sweep(self, credit: float) -> None:
        """Forgets idle children: all whose counter the next activation would lift anyway, and of the rest all but
        the `IDLE_KEPT` that are furthest ahead."""
        ahead: list[tuple[float, C]] = []
        for child in list(self.children.values()):
            if not child.queued and not child.live:
                lead = child.counter - (self.virtual - credit * child.scale)
                if lead <= 0.0:
                    del self.children[child.name]
                else:
                    ahead.append((lead, child))
        if len(ahead) > IDLE_KEPT:
            ahead.sort(key=lambda pair: pair[0])
            for _, child in ahead[:-IDLE_KEPT]:
                del self.children[child.name]
        self._sweep_at = max(64, 2 * len(self.children))


class Tree(Branch["TenantNode"]):
    """The root: the tenants of one priority."""

    __slots__ = ("priority",)

    def __init__(self, priority: int) -> None:
        super().__init__("", 1.0)
        self.priority = priority


class TenantNode(Branch[JobNode]):
    """A tenant within one priority: a child of the tree, and the parent of its jobs.

    `since` has when each queued call came, by the number of its arrival: so the first of it waits longest.
    """

    __slots__ = ("parked", "since", "tree")

    def __init__(self, name: str, weight: float, tree: Tree) -> None:
        super().__init__(name, weight)
        self.tree = tree
        self.parked = False
        self.since: dict[int, float] = {}
