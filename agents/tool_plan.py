"""What becomes of each tool call of a reply, decided in the model's order before any of them starts.

Each call is checked against the budget first, before the tool is even known to exist; then against the tools and their
parameters; then whether people have a say in it. A call that an earlier executor started and that may be repeated is
neither checked nor paid for again. What waits for people holds nothing of the budget: it is checked and paid for when
they have answered.
"""

import trio

from agents.amounts import Amounts
from agents.answered import digest_of
from agents.budget import Exhausted
from agents.delegation import Delegation
from agents.events import Refusal, ToolRefused
from agents.lifecycle import StopReason
from agents.messages import ToolCall
from agents.open_step import OpenStep
from agents.pending import Pending
from agents.people_events import ApprovalRequested, InputRequested
from agents.requests import request_for
from agents.result import Stop
from agents.run_state import RunState
from agents.tools import BadArguments, BaseTool

ONE_CALL = Amounts(tool_calls=1)

_OTHER_ARGUMENTS = "Not run: what people were asked to approve is not this call."
_OTHER_TOOL = "Not run: {name} is not the tool any more that people were asked about."


class Granted:
    """A call that may run: its tool exists, its arguments fit, and it is paid for. `again`: it was started before.

    `pending` is what people were asked about it, where they were; `delegation` the run that it has, where it may.
    """

    __slots__ = ("again", "arguments", "call", "delegation", "index", "pending", "scope", "started", "tool")

    def __init__(
        self, index: int, call: ToolCall, tool: BaseTool, arguments: dict[str, object], *, again: bool = False
    ) -> None:
        self.index = index
        self.call = call
        self.tool = tool
        self.arguments = arguments
        self.again = again
        self.started = again
        self.pending: Pending | None = None
        self.delegation: Delegation | None = None
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

    @classmethod
    def by_budget(cls, index: int, call: ToolCall, limit: Exhausted) -> "Refused":
        return cls(index, call, "refused_budget", f"Not run: {limit.message}.", limit)

    def event(self, state: RunState, step: OpenStep) -> ToolRefused:
        """What the log is told."""
        return ToolRefused(
            run=state.run,
            at=state.wall(),
            step=step.number,
            index=self.index,
            call=self.call.id,
            name=self.call.name,
            outcome=self.outcome,
            content=self.content,
            limit=self.limit,
        )


class Plan:
    """What becomes of each call of a reply. People are asked about the calls in `asking`, some of them from now on."""

    __slots__ = ("asking", "exhausted", "granted", "refused")

    def __init__(self, exhausted: Exhausted | None) -> None:
        self.granted: list[Granted] = []
        self.refused: list[Refused] = []
        self.asking: list[Granted] = []
        self.exhausted = exhausted


def plan_calls(state: RunState, step: OpenStep) -> Plan:
    """Decides on every call that has no answer, in the model's order, and pays for each that it grants."""
    plan = Plan(step.exhausted)
    held = 0
    for index, call in step.unanswered():
        paid = index not in step.started and index not in step.asked
        exhausted = state.scope.spend(ONE_CALL) if paid else None
        if exhausted is not None:
            plan.exhausted = plan.exhausted or exhausted
            plan.refused.append(Refused.by_budget(index, call, exhausted))
            continue
        decision = _decide(state, step, index, call)
        if isinstance(decision, Granted) and (decision.again or decision.pending is None):
            plan.granted.append(decision)
        elif isinstance(decision, Granted):
            held += paid  # so that later calls of the reply find what this one leaves them
            plan.asking.append(decision)
        else:
            if paid:
                state.scope.give_back(ONE_CALL)
            plan.refused.append(decision)
    for _ in range(held):
        state.scope.give_back(ONE_CALL)
    return plan


def first_error(state: RunState, plan: Plan) -> Stop | None:
    """The first call that names no tool or does not fit it, where that ends the run."""
    if state.agent.on_tool_error != "stop":
        return None
    errors = ("unknown_tool", "bad_arguments")
    wrong = next((refused.content for refused in plan.refused if refused.outcome in errors), None)
    return None if wrong is None else Stop(StopReason.TOOL_ERROR, wrong)


def _decide(state: RunState, step: OpenStep, index: int, call: ToolCall) -> Granted | Refused:
    tool = state.tools.get(call.name)
    if tool is None:
        known = ", ".join(state.tools) or "none"
        return Refused(index, call, "unknown_tool", f"There is no tool {call.name!r}. Known tools: {known}.")
    try:
        granted = Granted(index, call, tool, tool.decode(call.arguments), again=index in step.started)
    except BadArguments as error:
        return Refused(index, call, "bad_arguments", error.message)
    granted.pending = step.asked.get(index)
    if granted.again:
        return granted
    if granted.pending is None:
        asked = request_for(state, step, index, call, tool, granted.arguments)
        granted.pending = None if asked is None else Pending(asked)
        return granted
    return _still_asked(granted, granted.pending) or granted


def _still_asked(granted: Granted, pending: Pending) -> Refused | None:
    """Why what an earlier executor asked people is not what they would decide on now."""
    asked, call = pending.asked, granted.call
    if isinstance(asked, InputRequested) != (granted.tool.kind == "person"):
        return Refused(granted.index, call, "unknown_tool", _OTHER_TOOL.format(name=call.name))
    if isinstance(asked, ApprovalRequested) and asked.digest != digest_of(call):
        return Refused(granted.index, call, "denied", _OTHER_ARGUMENTS)
    return None
