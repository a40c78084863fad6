"""What a dialect is made of, as ports: reading an answer, translating it, putting it together. All of it is pure.

A request in one dialect may go to a backend that speaks another. The backend's adapter translates the request on the
way out (`encode`) and the answer's events on the way back (`Translator`), so whoever sent it never sees the
difference; what has no counterpart is refused with the field's path, and never dropped in silence.

| a program speaks | a `chat` backend                | a `messages` backend (Anthropic) |
|------------------|---------------------------------|----------------------------------|
| `chat`           | as it is                        | translated                       |
| `responses`      | as it is, or translated to chat | translated, by way of chat       |
| `messages`       | translated                      | as it is                         |
| `embeddings`     | as it is                        | refused                          |
| `count_tokens`   | estimated                       | as it is                         |
"""

from collections.abc import Sequence
from typing import Protocol

from agents.errors import Refused
from agents.messages import FinishReason, Usage, WireEvent


class Untranslatable(Refused):
    """The request says something that the backend's dialect has no words for. `field` is its path in the body."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}", status=400, code="unsupported_parameter")
        self.field = field


class Reader(Protocol):
    """Reads the events of one answer in the dialect that its backend speaks, and never changes them.

    `usage` is what was reported so far; `finish` why the answer ended, None while it has not; `text` what it said so
    far, of its first choice.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def finish(self) -> FinishReason | None: ...

    @property
    def text(self) -> str: ...

    def feed(self, event: WireEvent) -> int:
        """Takes in one event; about how many output tokens it brought (0 for a ping, a role, usage alone).

        Raises a `ModelError`, split by blame, for an event that says that the answer failed.
        """
        ...

    @property
    def complete(self) -> bool:
        """Whether the server has said that the answer is whole."""
        ...


class Translator(Protocol):
    """Events of a backend's dialect as events of the program's dialect, in that dialect's order.

    It gets only what a `Reader` has taken without an error. A chat stream's last event is its end marker `[DONE]`, said
    exactly once whether or not the backend said it.
    """

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        """What this event comes to; often nothing, sometimes several."""
        ...

    def end(self) -> Sequence[WireEvent]:
        """What is still to be said when the backend's stream has ended whole."""
        ...


class Assembler(Protocol):
    """Events of a dialect put together into the document that a program gets that did not ask for a stream.

    Members it does not know are merged like those it knows: text is joined, lists by index, the last value stands.
    """

    def feed(self, event: WireEvent) -> None: ...

    def document(self) -> bytes:
        """The whole answer as JSON."""
        ...
