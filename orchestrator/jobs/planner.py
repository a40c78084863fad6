"""A job's planner: a run whose answer is a list of subtasks. They become the job's inputs, or {plan} in its prompt.

The answer is taken strictly: a list, or an object that has it as `subtasks`, since providers that hold a model to a
schema (`response_format` of an agent) want an object. One that cannot be taken is sent back once, in the same session,
with what was wrong.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.jobs.template import Template
from orchestrator.views.jobs import InputLine, JobRequest, PlannerRequest

LONGEST_SHOWN: Final = 300

PLAN_FIELD: Final = "plan"
"""What stands for the plan in the prompt of a job whose plan goes there."""


class Subtask(Struct, frozen=True, forbid_unknown_fields=True):
    """One subtask, as the planner writes it."""

    text: Annotated[str, msgspec.Meta(min_length=1)]


class MalformedPlan(HeadraceError):
    """An answer that is no list of subtasks; the message says where and why, for the planner to read."""


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """The subtasks in an object."""

    subtasks: list[Subtask]


_decoder: Final = msgspec.json.Decoder(list[Subtask] | Plan)


def planning_task(planner: PlannerRequest) -> str:
    """What the planner is told."""
    return (
        f"{planner.task}\n\nAnswer with a JSON list of 1 to {planner.most} subtasks and with nothing else, in this "
        'form: [{"text": "the first subtask"}, {"text": "the second one"}]. Each text has to make sense by itself.'
    )


def repair_task(problem: str) -> str:
    """What the planner is told about an answer that could not be used."""
    return f"That answer cannot be used: {problem}. Answer again with the JSON list of subtasks and with nothing else."


def read_plan(answer: str, most: int) -> list[str]:
    """The subtasks that the answer comes to. Raises `MalformedPlan`."""
    try:
        plan = _decoder.decode(answer.strip())
    except (msgspec.DecodeError, RecursionError) as error:
        begins = answer.strip()[:LONGEST_SHOWN]
        raise MalformedPlan(f"it is no JSON list of subtasks ({error}); it begins with {begins!r}") from error
    subtasks = plan.subtasks if isinstance(plan, Plan) else plan
    if not 1 <= len(subtasks) <= most:
        raise MalformedPlan(f"it has {len(subtasks)} subtasks, and 1 to {most} are wanted")
    for number, subtask in enumerate(subtasks, 1):
        if not subtask.text.strip():
            raise MalformedPlan(f"the text of subtask {number} is empty")
    return [subtask.text for subtask in subtasks]


def as_inputs(subtasks: Sequence[str]) -> bytes:
    """A job's inputs, in JSON Lines."""
    lines = (InputLine(f"plan:{number}", {"text": text}) for number, text in enumerate(subtasks, 1))
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def as_list(subtasks: Sequence[str]) -> str:
    """A numbered list, for a prompt."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(subtasks, 1))


def item_template(request: JobRequest, plan: str = "") -> Template:
    """The items' prompt, with the plan in it where it goes there. Raises `TemplateError`."""
    template = Template(request.prompt)
    if request.planner is None or request.planner.to == "inputs":
        return template
    return template.saying(PLAN_FIELD, plan)
