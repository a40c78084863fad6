"""The events that say what becomes of a reply's tool calls.

Each call is answered once: `tool_refused` (it never ran), or `tool_started` and then `tool_finished`. What it gave to
a run of its own, and what it came to when nobody waited for it any longer, is told by `child_started` and `tool_late`.
"""

from typing import Literal

from agents.amounts import NOTHING, Amounts
from agents.budget import Exhausted
from agents.event_base import RunEvent

Refusal = Literal["refused_budget", "unknown_tool", "bad_arguments", "not_started", "denied"]
Finish = Literal["ok", "error", "timeout", "cancelled", "unknown_effect"]


class ToolRefused(RunEvent, frozen=True, kw_only=True, tag="tool_refused"):
    """A call that was answered and never ran; `limit` is the one that refused it, where a budget did."""

    step: int
    index: int
    call: str
    name: str
    outcome: Refusal
    content: str
    limit: Exhausted | None = None


class ToolStarted(RunEvent, frozen=True, kw_only=True, tag="tool_started"):
    """A tool is about to run: from here on its effect may have happened.

    `repeatable` says whether it was declared idempotent or read-only. A call that is repeated after its executor went
    away is started again, with the same key. `approval` is the key of the approval that it uses, empty where it needs
    none.
    """

    step: int
    index: int
    call: str
    name: str
    key: str
    repeatable: bool = False
    approval: str = ""


class ToolFinished(RunEvent, frozen=True, kw_only=True, tag="tool_finished"):
    """A started call's one result, as the model is told. Runs that it started used so much of this run's budget."""

    step: int
    index: int
    call: str
    name: str
    outcome: Finish
    content: str
    used: Amounts = NOTHING
    unknown: Amounts = NOTHING


class ToolLate(RunEvent, frozen=True, kw_only=True, tag="tool_late"):
    """What an abandoned call came to after its end was in the log: evidence for people, which no model reads.

    It is `quiescent` where no other abandoned call of the run is at work any more.
    """

    step: int
    index: int
    call: str
    name: str
    key: str
    outcome: Literal["ok", "error"]
    content: str
    quiescent: bool = True


class ChildStarted(RunEvent, frozen=True, kw_only=True, tag="child_started"):
    """A tool call has a run of its own, `child`, to which it gave a part of the work."""

    step: int
    index: int
    key: str
    child: str
