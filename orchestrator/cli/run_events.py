"""A run's events in words: one line for each, for `events`, and those that a person wants to see pass by for `run`."""

from typing import Final

import msgspec

from agents.events import (
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    UnknownEvent,
    decode,
)
from agents.messages import ToolCall
from orchestrator.cli.render import brief, tokens

_LONG: Final = 400
_PASSING: Final = (ModelReplied, ModelFailed, ToolRefused, ToolStarted, ToolFinished, CancelRequested)


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

    def passing(self, event: Event) -> str:
        """The line for somebody who watches the run, empty where there is nothing to see."""
        line = self.words(event)
        if isinstance(event, ModelReplied) and not event.reply.message.tool_calls:
            return ""  # the answer itself is about to be printed
        return line if isinstance(event, _PASSING) else ""

    def words(self, event: Event) -> str:
        if isinstance(event, ModelReplied):
            self._calls = event.reply.message.tool_calls
            return _replied(event)
        if isinstance(event, ToolStarted):
            call = self._calls[event.index] if event.index < len(self._calls) else None
            arguments = "" if call is None else brief(call.arguments, 100)
            return f"step {event.step}: {event.name} {arguments}".rstrip()
        return _plain(event)


def _replied(event: ModelReplied) -> str:
    message, calls = event.reply.message, event.reply.message.tool_calls
    line = f"step {event.step}: {tokens(event.reply.usage)}"
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
        case ModelRequested():
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            shrunk = (
                f", {event.max_tokens} tokens at most, which is what the budget has left" if event.shrunk_by else ""
            )
            return f"step {event.step}: asks the model{again}{shrunk}"
        case ModelFailed():
            return f"step {event.step}: the model call failed: {event.kind}: {brief(event.message, _LONG)}"
        case ToolRefused():
            return f"step {event.step}: {event.name} not run ({event.outcome}): {brief(event.content)}"
        case ToolFinished():
            return f"step {event.step}: {event.name} -> {event.outcome}: {brief(event.content)}"
        case CancelRequested():
            return f"{event.source} asked for its end ({event.reason})"
        case RunEnded():
            return f"ended: {event.state}, {event.reason}{f': {brief(event.message, _LONG)}' if event.message else ''}"
        case _:
            raise AssertionError(event)
