"""A program's request as the body that goes to a backend, in the dialect the backend speaks.

In its own dialect a request goes on verbatim and in its own order; only these members change:

| member           | becomes                                                                               |
|------------------|---------------------------------------------------------------------------------------|
| `model`          | the backend's own name of the model                                                    |
| `stream`         | as asked for here, whatever the program wants to see                                   |
| `stream_options` | chat, streamed: what the program said, with `include_usage`; not streamed: left out     |
| the output bound | only where one is given here, under the name that the program used                      |

In another dialect it is translated first, by way of chat where there is no shorter way.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from agents.messages import Dialect, WireRequest
from orchestrator.dialects import chat_to_messages, messages_to_chat, responses_to_chat, responses_to_messages
from orchestrator.dialects.base import Untranslatable

Translate = Callable[[WireRequest], WireRequest]

TRANSLATIONS: Final[Mapping[tuple[Dialect, Dialect], tuple[Translate, ...]]] = {
    ("messages", "chat"): (messages_to_chat.translate,),
    ("chat", "messages"): (chat_to_messages.translate,),
    ("responses", "chat"): (responses_to_chat.translate,),
    ("responses", "messages"): (responses_to_messages.translate,),
}
"""From the program's dialect to the backend's, one step after the other."""

_OUTPUT_BOUNDS: Final[Mapping[Dialect, tuple[str, ...]]] = {
    "chat": ("max_tokens", "max_completion_tokens"),
    "messages": ("max_tokens",),
    "responses": ("max_output_tokens",),
}
"""The names of the member that bounds the output; the first is used where the program used none."""

_STREAMED: Final = frozenset[Dialect](("chat", "messages", "responses"))

_encoder = msgspec.json.Encoder()


def encode_upstream(
    wire: WireRequest, native: Dialect, *, model: str, max_tokens: int | None = None, stream: bool = True
) -> bytes:
    """The body for a backend that speaks `native`. `max_tokens` bounds the output in tokens; None leaves the program's.

    Raises `Untranslatable` for what the backend's dialect has no words for.
    """
    if wire.dialect != native:
        for translate in translations(wire.dialect, native):
            wire = translate(wire)
    fields: dict[str, object] = dict(wire.fields)
    fields["model"] = model
    if native in _STREAMED:
        fields["stream"] = stream
    if native == "chat":
        _ask_for_usage(fields, stream)
    if max_tokens is not None:
        _bound_output(fields, native, max_tokens)
    return _encoder.encode(fields)


def translations(dialect: Dialect, native: Dialect) -> tuple[Translate, ...]:
    """The steps from one dialect to the other. Raises `Untranslatable` where there is no way."""
    try:
        return TRANSLATIONS[dialect, native]
    except KeyError:
        raise Untranslatable("model", f"its backend speaks {native} only, which has no {dialect} requests") from None


def _ask_for_usage(fields: dict[str, object], stream: bool) -> None:
    if not stream:
        fields.pop("stream_options", None)
        return
    said = fields.get("stream_options")
    options: dict[str, object] = {}
    if isinstance(said, Raw):
        try:
            options.update(msgspec.json.decode(said, type=dict[str, Raw] | None) or {})
        except msgspec.DecodeError:
            raise Untranslatable("stream_options", "must be an object") from None
    options["include_usage"] = True
    fields["stream_options"] = options


def _bound_output(fields: dict[str, object], native: Dialect, max_tokens: int) -> None:
    names = _OUTPUT_BOUNDS.get(native, ())
    used = [name for name in names if name in fields and fields[name] != _NULL]
    for name in used or names[:1]:
        fields[name] = max_tokens


_NULL: Final = Raw(b"null")
