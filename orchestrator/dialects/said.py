"""What a request says, taken out member by member: what nobody took is refused by its path, and so nothing gets lost.

A member that is null says nothing. Members of one kind change no answer and are passed over everywhere: what they ask
for is how a prompt is cached (`cache_control`, `prompt_cache_breakpoint`), which is a matter of price and speed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from agents.messages import WireRequest
from orchestrator.dialects.base import Untranslatable

CACHING: Final = ("cache_control", "prompt_cache_breakpoint")

_decode = msgspec.json.Decoder().decode


def decoded(wire: WireRequest) -> "Said":
    """The members of a request as plain data."""
    try:
        return Said({name: _decode(raw) for name, raw in wire.fields.items()}, "")
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Untranslatable("body", f"must be JSON: {exc}") from None


class Said:
    """An object at `path` of a request, to be taken apart. `left` are the members that nobody took yet."""

    __slots__ = ("left", "path")

    def __init__(self, value: Any, path: str) -> None:
        if not isinstance(value, Mapping):
            raise Untranslatable(path, "must be an object")
        self.path = path
        self.left = {name: member for name, member in value.items() if member is not None}
        self.drop(*CACHING)

    def at(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str) -> Any:
        """A member of any type; None if it is not there."""
        return self.left.pop(name, None)

    def drop(self, *names: str) -> None:
        """Passes over members that change no answer."""
        for name in names:
            self.left.pop(name, None)

    def text(self, name: str) -> str | None:
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "must be a string")
        return value

    def needed(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if value is None:
            raise self.wrong(name, "must be a string, and is missing")
        return value

    def flag(self, name: str) -> bool | None:
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, "must be true or false")
        return value

    def inner(self, name: str) -> "Said | None":
        """A member that is an object."""
        value = self.take(name)
        return None if value is None else Said(value, self.at(name))

    def each(self, name: str) -> "Iterator[Said]":
        """The objects of a list; none if it is not there."""
        value = self.take(name)
        return iter(()) if value is None else objects(value, self.at(name))

    def wrong(self, name: str, why: str) -> Untranslatable:
        return Untranslatable(self.at(name), why)

    def end(self, backend: str) -> None:
        """Refuses what nobody took. `backend` says what has no counterpart for it."""
        for name in self.left:
            raise self.wrong(name, f"{backend} has no counterpart for it")


def objects(value: Any, path: str) -> Iterator[Said]:
    """The objects of a list, one after the other."""
    if not isinstance(value, list):
        raise Untranslatable(path, "must be a list")
    return (Said(item, f"{path}[{index}]") for index, item in enumerate(value))
