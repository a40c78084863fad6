"""What a request for a run means here and now: everything that can be refused before anything is created."""

import math
import secrets

import msgspec
from msgspec import Struct

from agents.budget import Limits
from agents.errors import InvalidLimits
from agents.money import Prices
from agents.port import Flow, Priority
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.runs.record import PRIORITIES
from orchestrator.views.names import check_name
from orchestrator.views.runs import RunRequest


class RunPlan(Struct, frozen=True, kw_only=True):
    """What is to be run, for whom and how urgently; `expiry` is on trio's clock, infinite for none."""

    flow: Flow
    agent: AgentSpec
    priority: Priority
    prices: Prices
    expiry: float


def plan_run(request: RunRequest, catalogue: Catalogue, now: float, *, agent: AgentSpec | None = None) -> RunPlan:
    """The plan of a request; `agent` stands in for the one it asks for.

    Raises `InvalidLimits`, `UnknownAgent`, `UnknownModel`. The id is not checked here, since the daemon makes longer
    ones for itself than it lets clients choose.
    """
    tenant = check_name("tenant", request.tenant)
    if request.job:
        check_name("job", request.job)
    spec = lowered(agent or catalogue.agent(request.who), request.budget)
    catalogue.targets(spec.model)
    return RunPlan(
        flow=Flow(tenant, request.job, request.run or secrets.token_hex(8)),
        agent=spec,
        priority=catalogue.priority(tenant, None if request.priority is None else PRIORITIES[request.priority]),
        prices=catalogue.prices,
        expiry=now + _seconds_to_expiry(request.expires_in),
    )


def lowered(spec: AgentSpec, by: Limits) -> AgentSpec:
    """The agent with the lesser of its own limit and the other one, field by field."""
    changed = {}
    for field in Limits.__struct_fields__:
        own, asked = getattr(spec.limits, field), getattr(by, field)
        if asked is not None and (own is None or asked < own):
            changed[field] = asked
    if not changed:
        return spec
    return msgspec.structs.replace(spec, limits=msgspec.structs.replace(spec.limits, **changed))


def _seconds_to_expiry(seconds: float | None) -> float:
    if seconds is None:
        return math.inf
    if not math.isfinite(seconds) or seconds <= 0:
        raise InvalidLimits("expires_in", f"must be more than 0 seconds and finite, not {seconds!r}")
    return seconds
