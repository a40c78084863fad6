"""The limits of tenants: which tenant has limits of its own, and how they change while calls are live."""

from collections.abc import Mapping

from orchestrator.policy.config import TenantConfig
from orchestrator.policy.limits import LimitSet


def set_tenant_limits(limits: dict[str, LimitSet], tenants: Mapping[str, TenantConfig], now: float) -> None:
    """Puts the tenants' limits in force, in place. Raises `InvalidLimits`, with some of them changed.

    A limit that stays keeps its log, and live calls keep their leases; for their sake a tenant that has no limit any
    more keeps its set, with nothing in it.
    """
    for name in {*limits, *tenants}:
        tenant = tenants.get(name) or TenantConfig()
        if name in limits:
            limits[name].reconfigure(tenant.limits, tenant.in_flight, now)
        elif tenant.limits or tenant.in_flight is not None:
            limits[name] = LimitSet(tenant.limits, tenant.in_flight, now=now)
