"""Answers of a backend that speaks the program's own dialect: the very bytes, but for what only we asked for.

Nothing is decoded as long as nothing changes. In the chat dialect usage is always asked for upstream, and servers
report it in several places, so that is put right: a program that asked for usage gets exactly one last chunk that has
nothing else, a program that did not ask gets none.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from agents.messages import WireEvent, WireRequest

DONE = WireEvent("", b"[DONE]")
"""The end marker of a chat stream."""

# How nearly all chunks are written; only one that looks different is decoded. In a text these names have a backslash
# before their second quote, and so they are not found there.
_USAGE = b'"usage"'
_CHOICES = b'"choices"'
_NULLS = (b":null", b": null")
_LISTS = (b":[", b": [")

_NULL = Raw(b"null")
_TRUE = Raw(b"true")
_NONE = Raw(b"[]")

_members = msgspec.json.Decoder(dict[str, Raw])


class _Typed(Struct):
    type: str = ""


_types = msgspec.json.Decoder(_Typed)


class UsageWish(Struct):
    """What a chat request says in `stream_options`."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


_wishes = msgspec.json.Decoder(UsageWish | None)


def usage_wish(wire: WireRequest) -> UsageWish:
    """What the program asked for. An answer in one piece always has its usage, and so has what is translated on."""
    if wire.dialect != "chat" or wire.fields.get("stream") != _TRUE:
        return UsageWish(include_usage=True)
    said = wire.fields.get("stream_options", _NULL)
    try:
        return _wishes.decode(said) or UsageWish()
    except msgspec.DecodeError:
        return UsageWish()


class SameChat:
    """Chat to chat."""

    def __init__(self, model: str, wire: WireRequest) -> None:
        wish = usage_wish(wire)
        self._wanted = bool(wish.include_usage)
        self._running = bool(wish.continuous_usage_stats)
        self._report: WireEvent | None = None
        self._report_is_own = False
        self._done = False

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        data = event.data
        usage = data.find(_USAGE)
        nothing = usage < 0 or (data.startswith(_NULLS, usage + 7) and data.find(_USAGE, usage + 7) < 0)
        if nothing and data.startswith(_LISTS, data.find(_CHOICES) + 9):
            return (event,)
        return self.end() if data == b"[DONE]" else self._put_right(event)

    def end(self) -> Sequence[WireEvent]:
        if self._done:
            return ()
        self._done = True
        return (self._report, DONE) if self._wanted and self._report is not None else (DONE,)

    def _put_right(self, event: WireEvent) -> Sequence[WireEvent]:
        """What becomes of a chunk that may have usage, or no list of choices; most often it stays as it is."""
        try:
            members = _members.decode(event.data)
        except (msgspec.DecodeError, RecursionError):
            return (event,)
        choices = bytes(members.get("choices", _NULL))
        standard = event if choices != b"null" else _with(event, members, choices=_NONE)
        if members.get("usage", _NULL) == _NULL:
            return (standard if "choices" in members else event,)
        if choices in (b"null", b"[]"):
            self._report = standard
            self._report_is_own = True
            return ()
        if not self._report_is_own:
            self._report = _with(event, members, choices=_NONE)
        return (event if self._running else _with(event, members, usage=_NULL),)


class SameMessages:
    """Messages to messages. An event without a name gets it from its type, since programs go by the name."""

    def __init__(self, model: str, wire: WireRequest) -> None:
        pass

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        if event.event and event.event != "message":
            return (event,)
        try:
            return (WireEvent(_types.decode(event.data).type, event.data),)
        except msgspec.DecodeError:
            return (event,)

    def end(self) -> Sequence[WireEvent]:
        return ()


class SameEvents:
    """Any dialect to itself, where nothing changes."""

    def __init__(self, model: str, wire: WireRequest) -> None:
        pass

    def feed(self, event: WireEvent) -> Sequence[WireEvent]:
        return (event,)

    def end(self) -> Sequence[WireEvent]:
        return ()


def _with(event: WireEvent, members: dict[str, Raw], **changed: Raw) -> WireEvent:
    return WireEvent(event.event, msgspec.json.encode({**members, **changed}))
