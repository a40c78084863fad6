"""What a request for a run means here and now: everything that can be refused before anything is created."""

import math

import msgspec
from msgspec import Struct

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.money import Prices
from agents.port import Flow, Priority
from agents.snapshot import RunSnapshot
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.runs.priorities import PRIORITIES
from orchestrator.views.names import check_name
from orchestrator.views.runs import AgentChoice, RunRequest

_encoder = msgspec.json.Encoder()


class RunPlan(Struct, frozen=True, kw_only=True):
    """What is to be run, for whom and how urgently; `expiry` is on trio's clock, infinite for none,
    `trace` the trace context of whoever asks for it.

    `who` is the agent as it was asked for, as the log keeps it.
    """

    flow: Flow
    session: str
    agent: AgentSpec
    who: str
    priority: Priority
    prices: Prices
    expiry: float
    trace: str = ""


def plan_run(
    request: RunRequest,
    run: str,
    catalogue: Catalogue,
    now: float,
    *,
    agent: AgentSpec | None = None,
    before: RunSnapshot | None = None,
) -> RunPlan:
    """The plan of a request; `agent` stands in for the one it asks for, `before` is the run that it goes on from.

    Raises `InvalidLimits`, `UnknownAgent`, `UnknownModel`. The id is not checked here, since the daemon makes longer
    ones for itself than it lets clients choose.
    """
    tenant = check_name("tenant", request.tenant)
    if request.job:
        check_name("job", request.job)
    if before is None and not request.task:
        there = f"; there is no session {request.session} to go on with" if request.session else ""
        raise InvalidLimits("task", f"must not be empty{there}")
    if before is None and request.grant != Limits():
        raise InvalidLimits("grant", "is for a session that goes on; a new one has its agent's limits and no others")
    who = request.who if before is None or request.who != AgentChoice() else choice_of(before)
    spec = agent or catalogue.agent(who)
    if before is not None:
        spec = msgspec.structs.replace(spec, limits=_granted(spec.limits, request.grant))
    spec = lowered(spec, request.budget)
    catalogue.targets(spec.model)
    return RunPlan(
        flow=Flow(tenant, request.job, run),
        session=request.session or run,
        agent=spec,
        who=_worded(who, spec),
        priority=catalogue.priority(tenant, None if request.priority is None else PRIORITIES[request.priority]),
        prices=catalogue.prices,
        expiry=now + _seconds_to_expiry(request.expires_in),
        trace=request.traceparent,
    )


def choice_of(run: RunSnapshot) -> AgentChoice:
    """Who works in this run, as it was asked for. Raises `InvalidLimits` where its log says so in other words."""
    who = run.created.who
    if not who:
        return AgentChoice(agent=run.created.agent)
    try:
        return msgspec.json.decode(who, type=AgentChoice)
    except msgspec.DecodeError as error:
        raise InvalidLimits("who", f"run {run.created.run} says in its log who works, but not so: {error}") from error


def _worded(who: AgentChoice, spec: AgentSpec) -> str:
    """A plain agent keeps its model, whatever the default one is when it is taken up."""
    if not who.agent:
        who = msgspec.structs.replace(who, model=spec.model)
    return _encoder.encode(who).decode()


def _granted(own: Limits, grant: Limits) -> Limits:
    """A grant never lowers a limit, and does not limit what had none."""
    given = {}
    for field in Limits.__struct_fields__:
        had, given_now = getattr(own, field), getattr(grant, field)
        if had is not None and given_now is not None and given_now > had:
            given[field] = given_now
    return msgspec.structs.replace(own, **given)


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
