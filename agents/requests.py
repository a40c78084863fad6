"""What a run asks people about its tool calls, and that it needs somebody who can be asked."""

from collections.abc import Iterable
from typing import Any, ClassVar

from agents.answered import digest_of
from agents.errors import HeadraceError
from agents.messages import ToolCall
from agents.open_step import OpenStep
from agents.people_events import ApprovalRequested, Asked, InputRequested
from agents.run_state import RunState
from agents.spec import AgentSpec
from agents.tools import BaseTool


class NobodyToAsk(HeadraceError):
    """The agent has a tool on which people decide, and nobody could answer. Nothing was created."""

    kind: ClassVar[str] = "nobody_to_ask"


def refuse_without_people(agent: AgentSpec) -> None:
    """For whoever runs agents where nobody can be asked. Raises `NobodyToAsk`."""
    for tool in agent.tools:
        if tool.kind == "person" or tool.approval != "never":
            what = "asks people questions" if tool.kind == "person" else "needs people's approval"
            raise NobodyToAsk(
                f"tool {tool.name} of agent {agent.name} {what}, and here nobody can answer: run it through a daemon"
            )


def request_for(
    state: RunState, step: OpenStep, index: int, call: ToolCall, tool: BaseTool, arguments: dict[str, object]
) -> Asked | None:
    """What people are to be asked about this call before anything of it happens; None where it is none of theirs."""
    wall = state.wall()
    place: dict[str, Any] = {"run": state.run, "at": wall, "step": step.number, "index": index, "call": call.id}
    expires = None if tool.expires_in is None else wall + tool.expires_in
    key = step.key(state.run, index)
    if tool.kind == "person":
        question, options = str(arguments["question"]), arguments.get("options")
        choice = tuple(map(str, options)) if isinstance(options, Iterable) else ()
        return InputRequested(**place, name=call.name, key=key, question=question, options=choice, expires=expires)
    why = tool.why_ask(arguments)
    if not why:
        return None
    return ApprovalRequested(
        **place,
        name=call.name,
        key=key,
        arguments=call.arguments,
        digest=digest_of(call),
        expires=expires,
        why=why,
    )
