"""What becomes of each tool call of a reply, decided in the model's order before any of them starts.

Each call is checked against the budget first, before the tool is even known to exist; then against the tools and their
parameters. A call that an earlier executor started and that may be repeated is neither checked nor paid for again.
"""

import trio

from agents.budget import Amounts, Exhausted
from agents.events import Refusal
from agents.lifecycle import StopReason
from agents.messages import ToolCall
from agents.open_step import OpenStep
from agents.result import Stop
from agents.run_state import RunState
from agents.tools import BadArguments, BaseTool

ONE_CALL = Amounts(tool_calls=1)


class Granted:
    """A call that may run: its tool exists, its arguments fit, and it is paid for. `again`: it was started before."""

    __slots__ = ("again", "arguments", "call", "index", "scope", "started", "tool")

    def __init__(
        self, index: int, call: ToolCall, tool: BaseTool, arguments: dict[str, object], *, again: bool = False
    ) -> None:
        self.index = index
        self.call = call
        self.tool = tool
        self.arguments = arguments
        self.again = again
        self.started = again
        self.scope = trio.CancelScope()


class Refused:
    """A call that is answered and does not run; `limit` is the one that refused it, where a budget did."""

    __slots__ = ("call", "content", "index", "limit", "outcome")

    def __init__(
        self, index: int, call: ToolCall, outcome: Refusal, content: str, limit: Exhausted | None = None
    ) -> None:
        self.index = index
        self.call = call
        self.outcome = outcome
        self.content = content
        self.limit = limit


class Plan:
    """What becomes of each call of a reply."""

    __slots__ = ("exhausted", "granted", "refused")

    def __init__(self, exhausted: Exhausted | None) -> None:
        self.granted: list[Granted] = []
        self.refused: list[Refused] = []
        self.exhausted = exhausted


def plan_calls(state: RunState, step: OpenStep) -> Plan:
    """Decides on every call that has no answer, in the model's order, and pays for each that it grants."""
    plan = Plan(step.exhausted)
    for index, call in step.unanswered():
        exhausted = None if index in step.started else state.scope.spend(ONE_CALL)
        if exhausted is not None:
            plan.exhausted = plan.exhausted or exhausted
            content = f"Not run: {exhausted.message}."
            plan.refused.append(Refused(index, call, "refused_budget", content, exhausted))
            continue
        decision = _grant(state, index, call, again=index in step.started)
        if isinstance(decision, Granted):
            plan.granted.append(decision)
        else:
            state.scope.give_back(ONE_CALL)
            plan.refused.append(decision)
    return plan


def first_error(state: RunState, plan: Plan) -> Stop | None:
    """The first call that names no tool or does not fit it, where that ends the run."""
    if state.agent.on_tool_error != "stop":
        return None
    wrong = next((refused.content for refused in plan.refused if refused.outcome != "refused_budget"), None)
    return None if wrong is None else Stop(StopReason.TOOL_ERROR, wrong)


def _grant(state: RunState, index: int, call: ToolCall, *, again: bool) -> Granted | Refused:
    tool = state.tools.get(call.name)
    if tool is None:
        known = ", ".join(state.tools) or "none"
        return Refused(index, call, "unknown_tool", f"There is no tool {call.name!r}. Known tools: {known}.")
    try:
        return Granted(index, call, tool, tool.decode(call.arguments), again=again)
    except BadArguments as error:
        return Refused(index, call, "bad_arguments", error.message)
