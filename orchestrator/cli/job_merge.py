"""A job's file and the command line together: options go before what the file says."""

from pathlib import Path
from typing import Any, Final

import typer

from orchestrator.cli.job_file import OF_A_PLAIN_AGENT, JobPlan
from orchestrator.cli.options import WrongOption, given
from orchestrator.views.jobs import PlannerRequest
from orchestrator.views.runs import AgentChoice

PLANNED_PROMPT: Final = "{text}"
"""The prompt of a planned job that has none: a subtask says itself what is to be done."""


def lay_under(context: typer.Context, file: JobPlan | None) -> JobPlan | None:
    """What the file says becomes the default of the options, which are read after it."""
    if file is not None:
        context.default_map = file.options
    return file


def the_prompt(
    context: typer.Context, prompt: str | None, file: Path | None, planner: PlannerRequest | None
) -> tuple[str | None, Path | None]:
    """The prompt and the prompt's file that count: one on the command line goes before either in the job's file, and
    where there is none a planner's subtasks are what is to be done.
    """
    if prompt is None and file is None and planner is not None and planner.to == "inputs":
        return PLANNED_PROMPT, None
    if given(context, "prompt") == given(context, "prompt_file"):
        return prompt, file
    return (prompt, None) if given(context, "prompt") else (None, file)


def who_works(context: typer.Context, **chosen: Any) -> AgentChoice:
    """Who works at the items. An agent on the command line goes before all that the job's file says of a plain one.

    Raises `WrongOption` for an agent that is also told what it has itself.
    """
    if given(context, "agent"):
        chosen = {name: value for name, value in chosen.items() if given(context, name)}
    who = AgentChoice(**chosen)
    if who.agent and any(getattr(who, name) not in ("", None) for name in OF_A_PLAIN_AGENT):
        raise WrongOption("--agent: an agent has a model, a system message and sampling of its own; give one only")
    return who
