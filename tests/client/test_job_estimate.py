"""What is foretold of a job: calls, tokens, money, and the time that limits alone make it last."""

import pytest
from msgspec.structs import replace

from agents.amounts import Limits
from agents.errors import UnknownModel
from orchestrator.cli.job_estimate import Volume, estimate
from orchestrator.views.jobs import DebateRequest, GatherRequest, JobRequest, PlannerRequest, SynthesisRequest
from orchestrator.views.queue import (
    AgentFacts,
    BackendView,
    CapabilitiesView,
    EndpointView,
    LimitView,
    ModelFacts,
    QueueView,
)
from orchestrator.views.runs import AgentChoice

KNOWN = CapabilitiesView(
    version="1",
    survives_restart=True,
    cancels=True,
    streams=True,
    models=("m", "free"),
    default_model="m",
    agents=("clerk",),
    tenants=(),
    model_facts={
        "m": ModelFacts(backends=("b", "c"), max_output=1000, input_price=1_000_000, output_price=2_000_000),
        "free": ModelFacts(backends=("c",), max_output=10),
    },
    agent_facts={"clerk": AgentFacts(model="m", max_tokens=50, system_bytes=40, tools=2)},
)
JOB = JobRequest(prompt="{text}", who=AgentChoice(max_tokens=100))
HUNDRED = Volume(100, 8000)


def backend(name: str, *endpoints: dict[str, float]) -> BackendView:
    """Limits per minute, or per day where the name says so."""
    return BackendView(
        name=name,
        inbox=0,
        queued=3,
        in_flight=1,
        retrying=0,
        endpoints=tuple(
            EndpointView(
                name=f"{name}{n}",
                in_flight=0,
                concurrency_limit=1,
                cuts=0,
                breaker="closed",
                opens_in=None,
                limits=tuple(
                    LimitView(name=limit, amount=amount, per=86400 if limit.endswith("day") else 60, used=0)
                    for limit, amount in limits.items()
                ),
            )
            for n, limits in enumerate(endpoints)
        ),
        tenants=(),
    )


def queue(*backends: BackendView) -> QueueView:
    return QueueView(now=0, uptime=1, version="1", draining=False, backends=backends, runs={}, jobs=0)


def test_tokens_and_money_follow_from_inputs_and_longest_answers() -> None:
    """Input by its bytes, output by the most it may be, both by the model's price; no limit says no time."""
    told = estimate(JOB, HUNDRED, KNOWN, queue(backend("b", {})))
    assert (told.calls, told.input_tokens, told.output_tokens) == (100, 2400, 10_000)
    assert told.micro_dollars == 2400 + 20_000
    assert (told.seconds, told.limited_by, told.stops) == (None, "", ())
    free = estimate(replace(JOB, who=AgentChoice(model="free")), HUNDRED, KNOWN, queue())
    assert (free.output_tokens, free.micro_dollars) == (1000, None)


@pytest.mark.parametrize(
    ("endpoints", "seconds", "by"),
    [
        ([{"requests/min": 50}], 120, "b requests/min"),
        ([{"requests/min": 50}, {"requests/min": 50}], 60, "b requests/min"),
        ([{"requests/min": 50}, {}], None, ""),
        ([{"requests/min": 1000, "total_tokens/min": 1240}], 600, "b total_tokens/min"),
        ([{"requests/day": 100}], 0, "b requests/day"),
        ([{"requests/day": 40}], 2 * 86400, "b requests/day"),
    ],
)
def test_the_tightest_limit_of_the_first_backend_says_how_long(
    endpoints: list[dict[str, float]], seconds: float | None, by: str
) -> None:
    """Endpoints add up, one without the limit lifts it, and a day's limit is no pace but a wait for the next day."""
    told = estimate(JOB, HUNDRED, KNOWN, queue(backend("b", *endpoints), backend("c", {"requests/min": 1})))
    assert (told.seconds, told.limited_by) == (seconds, by)


def test_planner_and_synthesis_have_a_call_each() -> None:
    """A planned job has as many items as its planner may make, and the synthesis reads all of their answers."""
    request = JobRequest(
        prompt="{text}",
        who=AgentChoice(agent="clerk"),
        planner=PlannerRequest(task="x" * 40, most=10),
        synthesis=SynthesisRequest(prompt="y" * 40, who=AgentChoice(model="free")),
        gather=GatherRequest(policy="first", count=3),
    )
    told = estimate(request, Volume(0, 0), KNOWN, queue(backend("b", {})))
    planner, items, last = 10 + 10 + 8, 10 * ((6 + 200) / 4 + 10 + 8), 10 + 4 + 10 * 50
    assert (told.calls, told.input_tokens) == (12, planner + items + last)
    assert told.output_tokens == 50 + 500 + 10
    words = " ".join(told.assumptions)
    assert all(part in words for part in ("tools", "10 subtasks", "first may close it", "4 calls wait"))


def test_a_plan_in_the_prompt_is_read_by_every_item() -> None:
    """The items are those that are given, and each reads the longest plan there may be."""
    planned = replace(JOB, prompt="{plan} {text}", planner=PlannerRequest(task="x" * 40, most=10, to="prompt"))
    told = estimate(planned, HUNDRED, KNOWN, queue(backend("b", {})))
    assert told.calls == 101
    assert told.input_tokens == 10 + 4 + (8000 + 100 * 10 * 200) / 4 + 400
    assert "one call for each input" in told.assumptions[0]


def test_a_debate_has_all_its_rounds_and_reads_what_was_said() -> None:
    """Proposer and critics have half of the rounds each, and the volume of inputs is nothing to it."""
    debate = DebateRequest(critics=(AgentChoice(agent="clerk"), AgentChoice(model="free")), most_rounds=8)
    request = replace(JOB, prompt="y" * 40, gather=GatherRequest(policy="converge"), debate=debate)
    told = estimate(request, Volume(0, 0), KNOWN, queue(backend("b", {})))
    said = 4 * 100 + 2 * 50 + 2 * 10
    assert (told.calls, told.output_tokens) == (8, said)
    assert told.input_tokens == 6 * (10 + 4) + 2 * (10 + 10 + 8) + 8 * (said * 7 // 16)
    assert "one call for each round" in told.assumptions[0]
    assert "tools" in " ".join(told.assumptions)


def test_a_budget_that_does_not_suffice_is_told() -> None:
    """Each part of the budget is compared with what the job may take of it."""
    budget = Limits(rounds=99, tokens=12_399, micro_dollars=22_399, timeout=119)
    told = estimate(replace(JOB, budget=budget), HUNDRED, KNOWN, queue(backend("b", {"requests/min": 50})))
    assert [words.partition(":")[0] for words in told.stops] == ["rounds", "tokens", "dollars", "timeout"]
    enough = Limits(rounds=100, tokens=12_400, micro_dollars=22_400, timeout=120)
    assert estimate(replace(JOB, budget=enough), HUNDRED, KNOWN, queue(backend("b", {"requests/min": 50}))).stops == ()


@pytest.mark.parametrize("who", [AgentChoice(agent="clerc"), AgentChoice(model="n")])
def test_nobody_of_that_name_is_an_error(who: AgentChoice) -> None:
    """A dry run refuses what a start would refuse."""
    with pytest.raises(UnknownModel, match="there is no"):
        estimate(replace(JOB, who=who), HUNDRED, KNOWN, queue())
