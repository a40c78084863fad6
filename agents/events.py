"""The typed events of a run, in the order in which they come. `agents.fold` says what they come to.

`run_created`, `run_started`, then per step `model_requested` and `model_replied` (or `model_failed`), and for each tool
call of the reply either `tool_refused` (it never ran) or `tool_started` and `tool_finished`; at last `run_ended`.
A call on which people decide is asked about before that (`approval_requested`, `input_requested`).
An event that announces an effect is appended before the effect. Steps count from 1, one per model call that was
answered; `index` is a call's place in its reply, and `key` is unique for that call for ever, so that a tool can use
it against doing a thing twice (ids that models write are not unique).

An executor that takes up a run which another one left appends `run_resumed`. Between steps a transcript may be
shortened: a model call whose `purpose` is `compact`, then `compacted`. Events from outside come at any place:
`cancel_requested`, `message_added`, `budget_granted`, `approval_decided`, `input_given`.

Amounts are tokens and micro-dollars. Deltas are not events. Every event names its run, and says when it was appended:
`at`, in seconds since the epoch, 0 where nobody knew.

What becomes of tool calls is in `agents.tool_events`; what people are asked, and what they say, in
`agents.people_events`.
"""

from typing import Final, Literal

import msgspec

from agents.amounts import Limits
from agents.budget import Exhausted
from agents.errors import HeadraceError
from agents.event_base import RunEvent
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, Usage
from agents.people_events import ApprovalDecided as ApprovalDecided
from agents.people_events import ApprovalRequested as ApprovalRequested
from agents.people_events import InputGiven as InputGiven
from agents.people_events import InputRequested as InputRequested
from agents.people_events import RunWaiting as RunWaiting
from agents.tool_events import ChildStarted as ChildStarted
from agents.tool_events import Finish as Finish
from agents.tool_events import Refusal as Refusal
from agents.tool_events import ToolFinished as ToolFinished
from agents.tool_events import ToolLate as ToolLate
from agents.tool_events import ToolRefused as ToolRefused
from agents.tool_events import ToolStarted as ToolStarted

VERSION: Final = 1
"""The version of the events' meaning; `run_created` carries it, and a reader refuses versions it doesn't know."""

NextStep = Literal["retry", "raise_limit", "human", "none"]
Purpose = Literal["step", "compact"]


class RunCreated(RunEvent, frozen=True, kw_only=True, tag="run_created"):
    """The run exists: its agent, what it adds to the session's transcript, and its own grant of budget.

    The first run of a session brings the whole transcript that it starts from; the first `opening` messages of it (the
    system prompt and the demonstration) are never replaced by a summary. `tenant`, `job`, `priority` (a value of
    `agents.port.Priority`, None for its tenant's) and `expiry` (seconds since the epoch) are what whoever takes the run
    up needs to know, and so is `who`: the agent as it was asked for, as JSON, in the words of whoever created the run.
    A run that another one's tool call started names that run as its `parent`, the call's key, and how many runs are
    above it. `trace` is the W3C trace context (`traceparent`) of whoever asked for the run, empty for none.
    """

    version: int = VERSION
    agent: str
    model: str
    messages: tuple[Message, ...]
    limits: Limits
    opening: int = 0
    session: str = ""
    tenant: str = ""
    job: str = ""
    priority: int | None = None
    expiry: float | None = None
    who: str = ""
    parent: str = ""
    parent_key: str = ""
    depth: int = 0
    trace: str = ""


class RunStarted(RunEvent, frozen=True, kw_only=True, tag="run_started"):
    """An executor took the run up; its timeout counts from here."""


class RunResumed(RunEvent, frozen=True, kw_only=True, tag="run_resumed"):
    """Another executor takes up what an earlier one left open. `generation` is that of its lease on the session."""

    generation: int = 0


class ModelRequested(RunEvent, frozen=True, kw_only=True, tag="model_requested"):
    """A model call is about to be submitted, holding this much of the budget.

    `max_tokens` is what the request says; `shrunk_by` the limit because of which that is less than was asked for.
    """

    step: int
    attempt: int
    reserved_tokens: int
    reserved_micro_dollars: int
    max_tokens: int | None = None
    shrunk_by: Exhausted | None = None
    purpose: Purpose = "step"

    @property
    def key(self) -> str:
        """Which call it is, for ever: attempts of a step count on over resumes and purposes."""
        return f"{self.run}/{self.step}/{self.attempt}"


class ModelReplied(RunEvent, frozen=True, kw_only=True, tag="model_replied"):
    """The whole reply with all its tool calls. The step is sealed.

    `micro_dollars` is None where cost is unknown; what stays reserved because the provider did not say is named.
    """

    step: int
    attempt: int
    reply: ModelReply
    micro_dollars: int | None = None
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0
    purpose: Purpose = "step"


class ModelFailed(RunEvent, frozen=True, kw_only=True, tag="model_failed"):
    """The model call ended without a reply: not a round. What stays reserved as unknown is named.

    `micro_dollars` is None where cost is unknown, and 0 where the provider certainly did no work. `partial` is what
    came of the answer. `kind` is the error's; `lost` where the executor went away, so that nobody knows how it ended.
    """

    step: int
    attempt: int
    kind: str
    message: str
    usage: Usage = Usage()
    micro_dollars: int | None = None
    unknown_tokens: int = 0
    unknown_micro_dollars: int = 0
    partial: str = ""
    purpose: Purpose = "step"


class Compacted(RunEvent, frozen=True, kw_only=True, tag="compacted"):
    """A summary stands for the oldest part of the transcript from here on.

    It stands for `messages` messages behind the system prompt and the demonstration, the last of which was in the
    transcript when event number `through` was (0 where nobody numbers events).
    """

    summary: str
    messages: int
    through: int = 0


class CancelRequested(RunEvent, frozen=True, kw_only=True, tag="cancel_requested"):
    """Somebody took the run away: its user, its parent, or one of its own tools (then `call` is that call's id)."""

    source: Literal["user", "parent", "tool"]
    reason: Literal["cancelled", "interrupted"]
    call: str = ""


class MessageAdded(RunEvent, frozen=True, kw_only=True, tag="message_added"):
    """Somebody says something to the run while it works; the model reads it with its next request."""

    content: str


class BudgetGranted(RunEvent, frozen=True, kw_only=True, tag="budget_granted"):
    """The run's own limits are other ones from here on, field by field; None leaves a limit as it was."""

    limits: Limits


class RunEnded(RunEvent, frozen=True, kw_only=True, tag="run_ended"):
    """The closing event. `limit` of `scope` allowed `allowed` and `observed` had been used when it stopped the run.

    Where it is not `quiescent`, work that was abandoned may still be going on.
    """

    reason: StopReason
    state: State
    scope: str = ""
    limit: str = ""
    allowed: float | None = None
    observed: float | None = None
    message: str = ""
    answer: str = ""
    partial: str = ""
    usage: Usage = Usage()
    micro_dollars: int | None = None
    rounds: int = 0
    tool_calls: int = 0
    unknown_effects: tuple[str, ...] = ()
    next: NextStep = "none"
    quiescent: bool = True


Event = (
    RunCreated
    | RunStarted
    | RunResumed
    | ModelRequested
    | ModelReplied
    | ModelFailed
    | Compacted
    | ToolRefused
    | ApprovalRequested
    | ApprovalDecided
    | InputRequested
    | InputGiven
    | RunWaiting
    | ToolStarted
    | ToolFinished
    | ToolLate
    | ChildStarted
    | CancelRequested
    | MessageAdded
    | BudgetGranted
    | RunEnded
)


class UnknownEvent(HeadraceError):
    """A stored event that this version cannot read: going on would mean guessing."""


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """One event as JSON. Equal events give equal bytes."""
    return _encoder.encode(event)


def decode(data: bytes | str) -> Event:
    """The event in this JSON. Raises `UnknownEvent` for a type or version this code doesn't know."""
    try:
        event = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnknownEvent(f"the log holds an event that this version cannot read: {error}") from error
    if isinstance(event, RunCreated) and event.version != VERSION:
        raise UnknownEvent(f"the log was written in version {event.version} of the events; this is version {VERSION}")
    return event
