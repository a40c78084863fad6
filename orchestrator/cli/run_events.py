"""A run's events in words: one line for each, for `events`, and those that a person wants to see pass by for `run`."""

import time
from typing import Final

import msgspec
from msgspec import Struct

from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetGranted,
    CancelRequested,
    ChildStarted,
    Compacted,
    Event,
    InputGiven,
    InputRequested,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
    UnknownEvent,
    decode,
)
from agents.messages import ToolCall
from orchestrator.cli.amounts import limit_words
from orchestrator.cli.render import brief, tokens

_LONG: Final = 400
_PASSING: Final = (
    RunResumed,
    ModelReplied,
    ModelFailed,
    Compacted,
    ToolRefused,
    ApprovalRequested,
    ApprovalDecided,
    InputRequested,
    InputGiven,
    ToolStarted,
    ToolFinished,
    ToolLate,
    ChildStarted,
    CancelRequested,
    MessageAdded,
    BudgetGranted,
)


class _Stamped(Struct):
    at: float = 0.0


_stamp: Final = msgspec.json.Decoder(_Stamped)


class EventWords:
    """Puts events into words; remembers the last reply, since a tool's start doesn't repeat its arguments."""

    def __init__(self) -> None:
        self._calls: tuple[ToolCall, ...] = ()

    def line(self, data: bytes) -> str:
        """One event's line; of a type that this version doesn't know, its name."""
        try:
            return self.words(decode(data))
        except UnknownEvent:
            kind = msgspec.json.decode(data).get("type", "unknown")
            return f"{brief(str(kind), 40)} (not known to this version)"

    def moment(self, data: bytes, now: float) -> str:
        """When an event was appended, by the local clock; with its date on any other day, empty where nobody knew."""
        try:
            at = _stamp.decode(data).at
        except msgspec.DecodeError:
            return ""
        if at <= 0:
            return ""
        then = time.localtime(at)
        today = then[:3] == time.localtime(now)[:3]
        return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)

    def passing(self, event: Event) -> str:
        """The line for somebody who watches the run, empty where there is nothing to see."""
        line = self.words(event)
        if isinstance(event, ModelReplied) and (event.purpose != "step" or not event.reply.message.tool_calls):
            return ""  # the answer itself is about to be printed, and what a summary does is told next
        return line if isinstance(event, _PASSING) else ""

    def words(self, event: Event) -> str:
        if isinstance(event, ModelReplied) and event.purpose == "step":
            self._calls = event.reply.message.tool_calls
            return _replied(event)
        if isinstance(event, ToolStarted):
            call = self._calls[event.index] if event.index < len(self._calls) else None
            arguments = "" if call is None else brief(call.arguments, 100)
            return f"step {event.step}: {event.name} {arguments}".rstrip()
        return _plain(event)


def _step(event: ModelRequested | ModelReplied | ModelFailed) -> str:
    return f"step {event.step}{', to shorten the transcript' if event.purpose == 'compact' else ''}"


def _replied(event: ModelReplied) -> str:
    message, calls = event.reply.message, event.reply.message.tool_calls
    line = f"{_step(event)}: {tokens(event.reply.usage)}"
    if calls:
        names = ", ".join(call.name for call in calls)
        line += f"; asks for {brief(names, 80)}"
    if message.content:
        line += f"; says: {brief(message.content, 100)}"
    return line if event.reply.finish_reason in ("stop", "tool_calls") else f"{line} ({event.reply.finish_reason})"


def _plain(event: Event) -> str:
    match event:
        case RunCreated():
            return f"created: agent {event.agent}, model {event.model or 'the default'}"
        case RunStarted():
            return "started"
        case RunResumed():
            return "taken up again where it was left"
        case CancelRequested():
            return f"{event.source} asked for its end ({event.reason})"
        case MessageAdded():
            return f"told: {brief(event.content)}"
        case BudgetGranted():
            return f"granted: {limit_words(event.limits)}"
        case RunWaiting():
            return f"waits for people: {', '.join(event.reasons)}"
        case ApprovalDecided():
            return f"{event.decision} by {event.by}{f': {brief(event.note)}' if event.note else ''}"
        case InputGiven():
            return f"{event.by} answered: {brief(event.content)}"
        case RunEnded():
            return f"ended: {event.state}, {event.reason}{f': {brief(event.message, _LONG)}' if event.message else ''}"
        case _:
            return _of_a_step(event)


def _of_a_step(event: Event) -> str:
    match event:
        case ModelReplied():
            return _replied(event)
        case ModelRequested():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            shrunk = (
                f", {event.max_tokens} tokens at most, which is what the budget has left" if event.shrunk_by else ""
            )
            return f"{_step(event)}: asks the model{again}{shrunk}"
        case ModelFailed():
            return f"{_step(event)}: the model call failed: {event.kind}: {brief(event.message, _LONG)}"
        case Compacted():
            return f"a summary stands for {event.messages:,} messages from here on: {brief(event.summary)}"
        case ToolRefused():
            return f"step {event.step}: {event.name} not run ({event.outcome}): {brief(event.content)}"
        case ApprovalRequested():
            return f"step {event.step}: {event.name} {brief(event.arguments, 100)} needs approval ({brief(event.why)})"
        case InputRequested():
            options = f" ({brief(' / '.join(event.options), 100)})" if event.options else ""
            return f"step {event.step}: {event.name} asks: {brief(event.question, _LONG)}{options}"
        case ToolLate():
            return f"step {event.step}: {event.name} came to an end after all ({event.outcome}): {brief(event.content)}"
        case ChildStarted():
            return f"step {event.step}: run {event.child} works on a part of it"
        case ToolFinished():
            return f"step {event.step}: {event.name} -> {event.outcome}: {brief(event.content)}"
        case _:
            raise AssertionError(event)
