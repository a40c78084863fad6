"""What the fair order has to show: each tenant's standing, and how far apart flows are against the bound."""

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from orchestrator.policy.fair_node import Node
from orchestrator.policy.fair_tree import TenantNode, Tree
from orchestrator.policy.ticket import Ticket


class TenantShare(Struct, frozen=True):
    """One tenant's standing, over all priorities. `service` is what was booked since the tenant was last forgotten.

    `queued_by_priority` splits `queued`, the most urgent priority first. `queued_since` is when the call that waits
    longest became eligible, infinite without one; `held_by` what stopped the next call when it was last looked at,
    empty if it never was: it waits for its turn.
    """

    weight: float
    service: float
    queued: int
    live: int
    active: bool
    parked: bool
    queued_by_priority: tuple[int, ...] = ()
    queued_since: float = math.inf
    held_by: str = ""


class Queued(Struct, frozen=True):
    """What one tenant has queued in one priority (0 is the most urgent): how many calls, since when the first of them,
    which one is next. `counter` is the tenant's in that priority's order."""

    tenant: str
    priority: int
    calls: int
    since: float
    next: Ticket
    weight: float
    counter: float
    parked: bool


def queued_by_tenant(trees: Iterable[Tree]) -> list[Queued]:
    """Every tenant with calls queued, by priority."""
    return [
        Queued(
            tenant=name,
            priority=tree.priority,
            calls=node.queued,
            since=next(iter(node.since.values())),
            next=node.first().first(),
            weight=node.weight,
            counter=node.counter,
            parked=node.parked,
        )
        for tree in trees
        for name, node in tree.children.items()
        if node.queued
    ]


def tenant_shares(trees: Iterable[Tree]) -> dict[str, TenantShare]:
    """Every tenant that is remembered in any of the trees."""
    by_priority = tuple(trees)
    nodes: dict[str, list[TenantNode]] = {}
    for tree in by_priority:
        for name, node in tree.children.items():
            nodes.setdefault(name, []).append(node)
    return {
        name: TenantShare(
            weight=own[0].weight,
            service=sum(node.booked for node in own),
            queued=sum(node.queued for node in own),
            live=sum(node.live for node in own),
            active=any(node.entry is not None for node in own),
            parked=own[0].parked,
            queued_by_priority=tuple(
                tree.children[name].queued if name in tree.children else 0 for tree in by_priority
            ),
            queued_since=min((next(iter(node.since.values())) for node in own if node.since), default=math.inf),
            held_by=_held_by(own),
        )
        for name, own in nodes.items()
    }


def _held_by(nodes: Sequence[TenantNode]) -> str:
    """What holds the next call of a tenant's most urgent priority that has one."""
    for node in nodes:
        if node.queued:
            return node.first().first().held_by
    return ""


def worst_spread(trees: Iterable[Tree]) -> tuple[float, float]:
    """The largest `spread` among the tenants of any tree and the jobs of any tenant."""
    worst = (0.0, 0.0)
    for tree in trees:
        worst = max(worst, spread(tree.children.values()))
        for tenant in tree.children.values():
            worst = max(worst, spread(tenant.children.values()))
    return worst


def spread(siblings: Iterable[Node]) -> tuple[float, float]:
    """The largest difference of booked service per weight between siblings that were active ever since they were last
    measured, and the bound for that pair; (0, 0) without such a pair. Service units. Starts the next measurement.
    """
    low: tuple[float, Node] | None = None
    high: tuple[float, Node] | None = None
    for node in siblings:
        if node.entry is None:
            continue
        if node.mark is not None:
            served = (node.booked - node.mark) * node.scale
            if low is None or served < low[0]:
                low = (served, node)
            if high is None or served > high[0]:
                high = (served, node)
        node.mark = node.booked
    if low is None or high is None or low[1] is high[1]:
        return (0.0, 0.0)
    bound = low[1].bound_term() + high[1].bound_term() + max(low[1].lead, high[1].lead)
    return (high[0] - low[0], bound)
