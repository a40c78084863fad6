"""What the simulated provider's server needs to speak a dialect: a request understood, and an answer put into words.

Each dialect is written down here a second time, from its provider's reference and the types of its SDK, and shares no
code with `orchestrator.dialects`: a translator that is tested against its own reading proves little.

An unknown member of a request is ignored, as providers add members every month. One comes back: what a request gives
as `x_sim` stands under the same name in its answer (in the document, and in the event that opens a stream or, of chat,
in every chunk), so that a program sees whether its unknown members arrive and the answer's unknown members return.
"""

import re
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from agents.messages import Delta, ModelRequest, Usage, WireEvent
from orchestrator.backends.simulated.answer import Answer
from orchestrator.backends.simulated.errors import SimError, invalid
from orchestrator.backends.simulated.wishes import Wishes
from orchestrator.policy.feedback import Reading

Headers = list[tuple[str, str]]
Events = list[WireEvent]
T = TypeVar("T")

COMMENT = b": still working\n\n"


class Writer(Protocol):
    """Puts one answer into a dialect's words: as events while it comes, or as a document at its end."""

    @property
    def heartbeat(self) -> bytes:
        """What a stream says while nothing comes, as it stands on the wire."""
        ...

    def begin(self, usage: Usage) -> Events:
        """The stream opens; `usage` has the input, where it is reported."""
        ...

    def deltas(self, deltas: Sequence[Delta]) -> Events: ...

    def end(self, answer: Answer) -> Events:
        """The stream closes well."""
        ...

    def broken(self, error: SimError) -> Events:
        """The stream closes with an error."""
        ...

    def document(self, answer: Answer) -> bytes:
        """The answer in one piece."""
        ...


class Asked(Struct, frozen=True):
    """A request, understood: what the model is asked, whether the answer is streamed, and who words it.

    `max_tokens` and all else that limits are about stand in `request`.
    """

    request: ModelRequest
    wishes: Wishes
    stream: bool
    writer: Writer


class Manners(Protocol):
    """What all of one provider's resources have in common: errors, and headers."""

    def error_body(self, error: SimError, request_id: str) -> bytes: ...

    def limit_headers(self, readings: Sequence[Reading]) -> Headers: ...

    def retry_headers(self, seconds: float) -> Headers: ...

    def request_headers(self, request_id: str) -> Headers:
        """How the answer names the request."""
        ...


_AT = re.compile(r" - at `\$\.?(.*)`$")


def read(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """The body of a request, as far as its types go. Raises `SimError` 400, with the path of what is wrong."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = str(error)
        at = _AT.search(text)
        param = at[1] if at else None
        if text.startswith("Object missing required field `"):
            missing = text.split("`")[1]
            param = f"{param}.{missing}" if param else missing
        raise invalid(f"the body is not a valid request: {text}", param=param or None) from None


def streamed(events: Sequence[WireEvent]) -> bytes:
    """The events as they stand on the wire."""
    return b"".join([_streamed(event) for event in events])


def _streamed(event: WireEvent) -> bytes:
    name = f"event: {event.event}\n".encode() if event.event else b""
    return b"%bdata: %b\n\n" % (name, event.data)


def echo(x_sim: Any) -> dict[str, Any]:
    """The member that comes back."""
    return {} if x_sim is None else {"x_sim": x_sim}
