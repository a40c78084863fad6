"""Max-min fair shares by water-filling: an oracle that shares nothing with the scheduler it judges."""

from collections.abc import Mapping


def max_min(capacity: float, demands: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Each flow's share: nobody gets more than it demands, and no share can grow without taking from one that is
    smaller for its weight. Raises the water level until the next flow is satisfied, again and again.
    """
    shares = dict.fromkeys(demands, 0.0)
    thirsty = {name for name, demand in demands.items() if demand > 0.0}
    left = capacity
    while thirsty and left > 1e-9:
        weight = sum(weights[name] for name in thirsty)
        rise = min(left / weight, *((demands[name] - shares[name]) / weights[name] for name in thirsty))
        for name in thirsty:
            shares[name] += rise * weights[name]
        left -= rise * weight
        thirsty = {name for name in thirsty if demands[name] - shares[name] > 1e-9}
    return shares


def max_min_tree(
    capacity: float,
    demands: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, float],
    job_weights: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Two levels: tenants share the capacity, then each tenant's jobs share what the tenant got."""
    tenants = max_min(capacity, {name: sum(jobs.values()) for name, jobs in demands.items()}, weights)
    return {name: max_min(tenants[name], jobs, job_weights[name]) for name, jobs in demands.items()}
