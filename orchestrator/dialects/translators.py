"""Which translator turns a backend's events into those of the program's dialect."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agents.messages import Dialect, WireEvent, WireRequest
from orchestrator.dialects.base import Translator
from orchestrator.dialects.chat_events import ChatToMessages
from orchestrator.dialects.chat_to_responses import ChatToResponses
from orchestrator.dialects.messages_events import MessagesToChat
from orchestrator.dialects.same import SameChat, SameEvents, SameMessages

Make = Callable[[str, WireRequest], Translator]

TRANSLATORS: Final[Mapping[tuple[Dialect, Dialect], tuple[Make, ...]]] = {
    ("chat", "chat"): (SameChat,),
    ("messages", "messages"): (SameMessages,),
    ("responses", "responses"): (SameEvents,),
    ("chat", "messages"): (ChatToMessages,),
    ("messages", "chat"): (MessagesToChat,),
    ("chat", "responses"): (ChatToResponses,),
    ("messages", "responses"): (MessagesToChat, ChatToResponses),
}
"""From the backend's dialect to the program's, one step after the other."""


def translator(native: Dialect, wanted: Dialect, *, model: str, wire: WireRequest) -> Translator:
    """A translator for one answer. `wire` is the program's request: it says whether usage was asked for, for example.

    `model` is named where the backend's events name none. KeyError where there is no way from one to the other, which
    `encode_upstream` has said before.
    """
    steps = [make(model, wire) for make in TRANSLATORS[native, wanted]]
    return steps[0] if len(steps) == 1 else Chain(steps)


class Chain:
    """Translators one after the other, as one."""

    def __init__(self, steps: Sequence[Translator]) -> None:
        self._steps = steps

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        return _through(self._steps, [event])

    def end(self) -> Sequence[WireEvent]:
        events: list[WireEvent] = []
        for step in self._steps:
            events = [*_through([step], events), *step.end()]
        return events


def _through(steps: Sequence[Translator], events: Sequence[WireEvent]) -> list[WireEvent]:
    for step in steps:
        events = [made for event in events for made in step.feed(event)]
    return list(events)
