"""Options for when a job has enough, who plans it and who sums it up; each goes before what the job's file says."""

from typing import Annotated, Any, TypeVar

import typer
from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.cli.options import WrongOption
from orchestrator.views.jobs import GatherPolicy, GatherRequest, PlanGoes, PlannerRequest, SynthesisRequest
from orchestrator.views.runs import AgentChoice

T = TypeVar("T", bound=Struct)

Gather = Annotated[
    GatherPolicy | None, typer.Option("--gather", help="When the job has enough; settle, if nothing is said.")
]
Count = Annotated[int | None, typer.Option(help="--gather quorum, first, deadline: how many items are enough.")]
Deadline = Annotated[float | None, typer.Option(help="--gather deadline: seconds from when workers may start.")]
Plan = Annotated[
    str | None, typer.Option(metavar="TASK", help="Have a planner answer this with the job's inputs, a {text} each.")
]
Planner = Annotated[str | None, typer.Option(metavar="AGENT", help="--plan: a configured agent that plans.")]
Most = Annotated[int | None, typer.Option(help="--plan: subtasks at most; 20, if nothing is said.")]
PlanTo = Annotated[
    PlanGoes | None, typer.Option(help="--plan: what the plan is, the inputs or {plan} in the prompt for given inputs.")
]
Synthesis = Annotated[
    str | None, typer.Option(metavar="PROMPT", help="Have an answer written of the {results} at the end.")
]
Synthesizer = Annotated[str | None, typer.Option(metavar="AGENT", help="--synthesis: a configured agent that writes.")]
Share = Annotated[float | None, typer.Option(help="--synthesis: its share of the budget; 0.2, if nothing is said.")]

STAGES = (
    "gather",
    "count",
    "deadline",
    "plan",
    "planner",
    "most",
    "plan_to",
    "synthesis",
    "synthesizer",
    "share",
)
"""All of them, by parameter: a daemon's jobs have them and embedded ones do not."""


def gather_of(
    file: GatherRequest, *, policy: GatherPolicy | None, count: int | None, deadline: float | None
) -> GatherRequest:
    """When the job has enough. Count and seconds of the file hold for its own policy only. Raises `InvalidLimits`."""
    kept = file if policy in (None, file.policy) else GatherRequest()
    fields = {
        "policy": policy or file.policy,
        "count": kept.count if count is None else count,
        "seconds": kept.seconds if deadline is None else deadline,
    }
    return _made(GatherRequest, fields, {"policy": "--gather", "count": "--count", "seconds": "--deadline"})


def planner_of(
    file: PlannerRequest | None, *, task: str | None, agent: str | None, most: int | None, to: PlanGoes | None
) -> PlannerRequest | None:
    """Who plans the job, if somebody does. Raises `InvalidLimits`, and `WrongOption` for options without a plan."""
    given = {"task": task, "who": _agent(agent), "most": most, "to": to}
    options = {"task": "--plan", "who": "--planner", "most": "--most", "to": "--plan-to"}
    return _changed(PlannerRequest, file, given, options, "--plan TASK, or a [planner] in the job's file")


def synthesis_of(
    file: SynthesisRequest | None, *, prompt: str | None, agent: str | None, share: float | None
) -> SynthesisRequest | None:
    """Who sums the job up, if somebody does. Raises as `planner_of` does."""
    given = {"prompt": prompt, "who": _agent(agent), "share": share}
    options = {"prompt": "--synthesis", "who": "--synthesizer", "share": "--share"}
    return _changed(SynthesisRequest, file, given, options, "--synthesis PROMPT, or a [synthesis] in the job's file")


def _agent(name: str | None) -> AgentChoice | None:
    return None if name is None else AgentChoice(agent=name)


def _changed(kind: type[T], file: T | None, given: dict[str, Any], options: dict[str, str], needed: str) -> T | None:
    fields = {name: value for name, value in given.items() if value is not None}
    if not fields:
        return file
    before = {} if file is None else {name: getattr(file, name) for name in file.__struct_fields__}
    first = next(iter(options))
    if first not in {**before, **fields}:
        raise WrongOption(f"{options[next(iter(fields))]}: is of no use by itself; it goes with {needed}")
    return _made(kind, before | fields, options)


def _made(kind: type[T], fields: dict[str, Any], options: dict[str, str]) -> T:
    try:
        return kind(**fields)
    except InvalidLimits as error:
        option = options[error.field]
        raise InvalidLimits(option, error.message.removeprefix(f"{error.field}: ")) from None
