"""Chat requests of programs whose assistant turns have no text: null becomes an empty text.

OpenAI's SDK gives a turn that only calls tools `"content": null`, and programs send it back as it came; several servers
answer that with 400. Only requests in whose bytes such a null stands are decoded, and only its turns are changed.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw

from agents.messages import WireRequest

_NULL_CONTENT: Final = re.compile(rb'"content"\s*+:\s*+null')
_NULL: Final = Raw(b"null")
_EMPTY: Final = Raw(b'""')
_ASSISTANT: Final = Raw(b'"assistant"')

_messages = msgspec.json.Decoder(list[dict[str, Raw]])


def without_null_content(wire: WireRequest) -> WireRequest:
    """The request with an empty text wherever an assistant's content is null; the very same one if it is nowhere."""
    raw = wire.fields.get("messages")
    if raw is None or _NULL_CONTENT.search(raw) is None:
        return wire
    try:
        messages = _messages.decode(raw)
    except msgspec.DecodeError:
        return wire
    put_right = [
        {**message, "content": _EMPTY}
        if message.get("content") == _NULL and message.get("role") == _ASSISTANT
        else message
        for message in messages
    ]
    fields = {**wire.fields, "messages": Raw(msgspec.json.encode(put_right))}
    return msgspec.structs.replace(wire, fields=fields)
