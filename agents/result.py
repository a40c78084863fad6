"""How a run ended: the reason, what stopped it, what it leaves, and what to do next."""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from agents.amounts import NOTHING, Amounts
from agents.budget import Exhausted
from agents.events import NextStep
from agents.lifecycle import State, StopReason
from agents.messages import Message, Usage

NEXT_STEPS: Final[Mapping[StopReason, NextStep]] = {
    StopReason.FINAL_ANSWER: "none",
    StopReason.CONVERGED: "none",
    StopReason.MAX_ROUNDS: "raise_limit",
    StopReason.MAX_TOOL_CALLS: "raise_limit",
    StopReason.TIMEOUT: "raise_limit",
    StopReason.TOKEN_BUDGET_EXCEEDED: "raise_limit",
    StopReason.COST_BUDGET_EXCEEDED: "raise_limit",
    StopReason.OUTPUT_LIMIT: "raise_limit",
    StopReason.CONTEXT_LIMIT: "human",
    StopReason.CANCELLED: "none",
    StopReason.INTERRUPTED: "human",
    StopReason.EXPIRED: "retry",
    StopReason.PLANNER_ERROR: "retry",
    StopReason.TOOL_ERROR: "human",
    StopReason.INVALID_ACTION: "retry",
    StopReason.MALFORMED_OUTPUT: "retry",
    StopReason.REFUSAL: "human",
    StopReason.OVERLOADED: "retry",
    StopReason.LOST: "retry",
    StopReason.INTERNAL_ERROR: "human",
}
"""What helps, by reason, where the place that knows the reason doesn't know better."""


class Stop(Struct, frozen=True):
    """Why a run ends, recorded by whoever knows it. `next` None takes the reason's own.

    `source` and `call` say who took the run away, where somebody did.
    """

    reason: StopReason
    message: str = ""
    limit: Exhausted | None = None
    next: NextStep | None = None
    source: Literal["", "user", "parent", "tool"] = ""
    call: str = ""

    @staticmethod
    def exhausted(limit: Exhausted) -> "Stop":
        return Stop(limit.reason, limit.message, limit)


class RunResult(Struct, frozen=True, kw_only=True):
    """One run, ended.

    `answer` is the final answer of a completed run, `partial` the last words of any other. Where a limit stopped it,
    `limit` of `scope` allowed `allowed`, and `observed` was spent. `micro_dollars` is None where a part of the cost is
    unknown, and then all of it, where there is a price, at most `unknown_micro_dollars`; `unknown_tokens` may have been
    spent without the provider saying so. Runs that it started are not in `usage` and `micro_dollars`: they have used
    `below` of its budget, and what they may have used besides is in what is unknown. `unknown_effects` are the keys of
    tool calls that were cut off in the middle: look before repeating them. `messages` is the whole transcript.
    """

    run: str
    agent: str
    reason: StopReason
    state: State
    message: str = ""
    scope: str = ""
    limit: str = ""
    allowed: float | None = None
    observed: float | None = None
    answer: str = ""
    partial: str = ""
    usage: Usage = Usage()
    micro_dollars: int | None = None
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0
    below: Amounts = NOTHING
    rounds: int = 0
    tool_calls: int = 0
    unknown_effects: tuple[str, ...] = ()
    next: NextStep = "none"
    messages: tuple[Message, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the run completed."""
        return self.state is State.COMPLETED


def at_most(micro_dollars: int | None, used: Amounts, unknown: Amounts) -> int:
    """What a run of unknown cost has cost at most; where it is known, what runs below it may have cost besides."""
    return unknown.micro_dollars + (used.micro_dollars if micro_dollars is None else 0)
