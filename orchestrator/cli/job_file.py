"""A job in a file: everything that `headrace job start` can be told, and when the job has enough, who plans it, who
sums it up.

    inputs = ["letters/"]                  # or a [planner]
    prompt = "Summarise in one sentence: {text}"
    agent = "clerk"                        # or model, system, max_tokens, temperature, seed
    output = "out.jsonl"
    workers = 16

    [budget]                               # tokens, dollars, timeout, rounds, tool_calls
    dollars = 5.0

    [gather]                               # policy: all, settle, quorum, first, deadline, converge
    policy = "quorum"
    count = 10

    [planner]                              # makes the inputs, a {text} each
    task = "List what is to be looked at ..."
    most = 20
    to = "inputs"                          # or "prompt": the plan is {plan} in the prompt for given inputs

    [synthesis]
    prompt = "What follows from these? {results}"

    [debate]                               # for policy = "converge": the prompt is what it is about, word for word
    most_rounds = 24
    proposer = { agent = "author" }        # or model, system, ...; without it whoever the job asks for
    critics = [{ agent = "correctness" }, { agent = "interfaces" }]

Paths are relative to the folder of the file. What is wrong is told with its path, all of it at once.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.money import MILLION
from orchestrator.config.agent_tables import BudgetTable
from orchestrator.config.decode import parse, read_text
from orchestrator.config.numbers import Count, Positive
from orchestrator.config.problems import ConfigError
from orchestrator.config.reader import Reader
from orchestrator.jobs.inputs import InputFormat
from orchestrator.views.jobs import (
    DebateRequest,
    GatherRequest,
    PlanGoes,
    PlannerRequest,
    SynthesisRequest,
    check_debate,
)
from orchestrator.views.runs import AgentChoice, PriorityName

OF_A_PLAIN_AGENT: Final = ("model", "system", "max_tokens", "temperature", "seed")
Who = Annotated[AgentChoice, Meta(extra={"flat": ()})]


class PlannerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[planner]`: see `PlannerRequest`. Without an agent and a model it is whoever works at the items."""

    task: str
    who: Who = AgentChoice()
    most: int = 20
    to: PlanGoes = "inputs"

    def __post_init__(self) -> None:
        self.request()

    def request(self) -> PlannerRequest:
        return PlannerRequest(task=self.task, who=_somebody(self.who), most=self.most, to=self.to)


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
    debate: DebateRequest | None = None

    def __post_init__(self) -> None:
        _somebody(self.who)
        check_debate(self.gather, self.debate)
        if self.debate is not None:
            _check_speakers(self.debate)
            if self.inputs:
                raise InvalidLimits("inputs", "a debate is about the prompt; leave them out")
        if self.prompt is not None and self.prompt_file is not None:
            raise InvalidLimits("prompt_file", "give this or prompt, not both")
        if self.inputs and self.planner is not None and self.planner.to == "inputs":
            raise InvalidLimits(
                "inputs", 'the planner makes them; give inputs or a planner, or say planner.to = "prompt"'
            )


class JobPlan(Struct, frozen=True, kw_only=True):
    """What a file says of a job. `options` are for those of the command line, by parameter; the rest has none there."""

    options: dict[str, Any]
    budget: Limits
    gather: GatherRequest
    planner: PlannerRequest | None
    synthesis: SynthesisRequest | None
    debate: DebateRequest | None


NO_FILE: Final = JobPlan(options={}, budget=Limits(), gather=GatherRequest(), planner=None, synthesis=None, debate=None)


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
        debate=file.debate,
    )


def _options(file: JobFile, limits: Limits, folder: Path) -> dict[str, Any]:
    def beside(name: str) -> str:
        return name if name == "-" else str(folder / name)

    options: dict[str, Any] = {
        "input": [beside(name) for name in file.inputs] or None,
        "input_format": file.format,
        "prompt": file.prompt,
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


def _check_speakers(debate: DebateRequest) -> None:
    named = {f"debate.critics[{n}]": who for n, who in enumerate(debate.critics)}
    if debate.proposer is not None:
        named["debate.proposer"] = debate.proposer
    for where, who in named.items():
        try:
            _somebody(who)
        except InvalidLimits as error:
            raise InvalidLimits(f"{where}.{error.field}", error.message.removeprefix(f"{error.field}: ")) from None


def _somebody(who: AgentChoice) -> AgentChoice | None:
    """Who is chosen; None for nobody. Raises `InvalidLimits` for an agent that is also told what it has itself."""
    if who.agent:
        for field in OF_A_PLAIN_AGENT:
            if getattr(who, field) not in ("", None):
                raise InvalidLimits(field, "an agent has its own; give this or the agent, not both")
    return None if who == AgentChoice() else who
