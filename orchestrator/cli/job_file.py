"""A job in a file: everything that `headrace job start` can be told, and when the job has enough, who plans it, who
sums it up.

    inputs = ["letters/"]                  # or a [planner]
    prompt = "Summarise in one sentence: {text}"
    agent = "clerk"                        # or model, system, max_tokens, temperature, seed
    output = "out.jsonl"
    workers = 16

    [budget]                               # tokens, dollars, timeout, rounds, tool_calls
    dollars = 5.0

    [gather]                               # policy: all, settle, quorum, first, deadline
    policy = "quorum"
    count = 10

    [planner]                              # makes the inputs, a {text} each
    task = "List what is to be looked at ..."
    most = 20

    [synthesis]
    prompt = "What follows from these? {results}"

Paths are relative to the folder of the file. What is wrong is told with its path, all of it at once.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from agents.budget import Limits
from agents.errors import InvalidLimits
from agents.money import MILLION
from orchestrator.config.agent_tables import BudgetTable
from orchestrator.config.decode import parse, read_text
from orchestrator.config.numbers import Count, Positive
from orchestrator.config.problems import ConfigError
from orchestrator.config.reader import Reader
from orchestrator.jobs.inputs import InputFormat
from orchestrator.views.jobs import GatherRequest, PlannerRequest, SynthesisRequest
from orchestrator.views.runs import AgentChoice, PriorityName

OF_A_PLAIN_AGENT: Final = ("model", "system", "max_tokens", "temperature", "seed")
PLANNED_PROMPT: Final = "{text}"
"""The prompt of a planned job that has none: a subtask says itself what is to be done."""

Who = Annotated[AgentChoice, Meta(extra={"flat": ()})]


class PlannerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[planner]`: see `PlannerRequest`. Without an agent and a model it is whoever works at the items."""

    task: str
    who: Who = AgentChoice()
    most: int = 20

    def __post_init__(self) -> None:
        self.request()

    def request(self) -> PlannerRequest:
        return PlannerRequest(task=self.task, who=_somebody(self.who), most=self.most)


class SynthesisTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[synthesis]`: see `SynthesisRequest`. Without an agent and a model it is whoever works at the items."""

    prompt: str
    who: Who = AgentChoice()
    share: float = 0.2

    def __post_init__(self) -> None:
        self.request()

    def request(self) -> SynthesisRequest:
        return SynthesisRequest(prompt=self.prompt, who=_somebody(self.who), share=self.share)


class JobFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job as it is written in a file."""

    REFUSED: ClassVar = {"input": 'inputs are an array here, as `inputs = ["letters/"]`'}

    inputs: tuple[str, ...] = ()
    format: InputFormat | None = None
    prompt: str | None = None
    prompt_file: str | None = None
    who: Who = AgentChoice()
    output: str | None = None
    name: str | None = None
    tenant: str | None = None
    priority: PriorityName | None = None
    weight: Positive | None = None
    workers: Count | None = None
    ordered: bool = False
    fail_fast: bool = False
    budget: BudgetTable = BudgetTable()
    gather: GatherRequest = GatherRequest()
    planner: PlannerTable | None = None
    synthesis: SynthesisTable | None = None

    def __post_init__(self) -> None:
        _somebody(self.who)
        if self.prompt is not None and self.prompt_file is not None:
            raise InvalidLimits("prompt_file", "give this or prompt, not both")
        if self.inputs and self.planner is not None:
            raise InvalidLimits("inputs", "the planner makes them; give inputs or a planner, not both")


class JobPlan(Struct, frozen=True, kw_only=True):
    """What a file says of a job. `options` are for those of the command line, by parameter; the rest has none there."""

    options: dict[str, Any]
    budget: Limits
    gather: GatherRequest
    planner: PlannerRequest | None
    synthesis: SynthesisRequest | None


NO_FILE: Final = JobPlan(options={}, budget=Limits(), gather=GatherRequest(), planner=None, synthesis=None)


def read_job_file(name: str) -> JobPlan:
    """The job in a file. Raises `ConfigError`."""
    path = Path(name)
    reader = Reader()
    file = reader.read(parse(read_text(path), name), JobFile)
    if file is None:
        raise ConfigError(reader.problems, name)
    limits = file.budget.limits()
    return JobPlan(
        options=_options(file, limits, path.parent),
        budget=limits,
        gather=file.gather,
        planner=None if file.planner is None else file.planner.request(),
        synthesis=None if file.synthesis is None else file.synthesis.request(),
    )


def _options(file: JobFile, limits: Limits, folder: Path) -> dict[str, Any]:
    def beside(name: str) -> str:
        return name if name == "-" else str(folder / name)

    prompt = file.prompt
    if prompt is None and file.prompt_file is None and file.planner is not None:
        prompt = PLANNED_PROMPT
    options: dict[str, Any] = {
        "input": [beside(name) for name in file.inputs] or None,
        "input_format": file.format,
        "prompt": prompt,
        "prompt_file": None if file.prompt_file is None else beside(file.prompt_file),
        "agent": file.who.agent or None,
        **{field: getattr(file.who, field) or None for field in ("model", "system")},
        **{field: getattr(file.who, field) for field in ("max_tokens", "temperature", "seed")},
        "output": None if file.output is None else beside(file.output),
        **{field: getattr(file, field) for field in ("name", "tenant", "priority", "weight", "workers")},
        "ordered": file.ordered or None,
        "fail_fast": file.fail_fast or None,
        "max_tokens_total": limits.tokens,
        "dollars": None if limits.micro_dollars is None else limits.micro_dollars / MILLION,
        "timeout": limits.timeout,
    }
    return {name: value for name, value in options.items() if value is not None}


def _somebody(who: AgentChoice) -> AgentChoice | None:
    """Who is chosen; None for nobody. Raises `InvalidLimits` for an agent that is also told what it has itself."""
    if who.agent:
        for field in OF_A_PLAIN_AGENT:
            if getattr(who, field) not in ("", None):
                raise InvalidLimits(field, "an agent has its own; give this or the agent, not both")
    return None if who == AgentChoice() else who
