"""Members of streamed fragments merged into whole ones, whether they are known or not.

| a member's value is | merged with the one before it as                                                        |
|---------------------|-----------------------------------------------------------------------------------------|
| text                | one text after the other, but for the names of things (`WHOLE`), where the last stands   |
| an object           | member by member                                                                        |
| a list              | items with an `index` by that, others one after the other                               |
| null                | nothing: what is there stays                                                            |
| anything else       | the last one stands                                                                     |
"""

from collections.abc import Mapping
from typing import Any, Final

WHOLE: Final = frozenset(
    {"id", "type", "role", "object", "name", "model", "status", "format", "signature", "mime_type", "media_type"}
)
"""Members whose text comes in one piece, and may be said again."""


class Joined:
    """An object that grows. Text is joined once, at the end, so that a long one costs linear time."""

    __slots__ = ("_members",)

    def __init__(self, members: Mapping[str, Any]) -> None:
        self._members: dict[str, Any] = dict(members)

    def add(self, fragment: Mapping[str, Any]) -> None:
        for name, value in fragment.items():
            self._members[name] = _merged(name, self._members.get(name), value)

    def value(self) -> dict[str, Any]:
        """The object as it stands."""
        return {name: _value(value) for name, value in self._members.items()}


class _Text:
    """A text in pieces."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[str]) -> None:
        self.pieces = pieces


class _Items:
    """A list that grows."""

    __slots__ = ("_at_index", "_items")

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._at_index: dict[int, Joined] = {}

    def add(self, items: list[Any]) -> None:
        for item in items:
            index = item.get("index") if isinstance(item, dict) else None
            if type(index) is not int:
                self._items.append(item)
            elif index in self._at_index:
                self._at_index[index].add(item)
            else:
                self._at_index[index] = joined = Joined({})
                joined.add(item)
                self._items.append(joined)

    def value(self) -> list[Any]:
        return [_value(item) for item in self._items]


def _merged(name: str, old: Any, new: Any) -> Any:
    if new is None:
        return old
    if isinstance(new, str):
        return _text(name, old, new)
    if isinstance(new, dict):
        joined = old if isinstance(old, Joined) else Joined({})
        joined.add(new)
        return joined
    if isinstance(new, list):
        items = old if isinstance(old, _Items) else _Items()
        items.add(new)
        return items
    return new


def _text(name: str, old: Any, new: str) -> Any:
    if name in WHOLE:
        return new or old or ""
    if isinstance(old, _Text):
        old.pieces.append(new)
        return old
    return _Text([old, new] if isinstance(old, str) else [new])


def _value(value: Any) -> Any:
    if isinstance(value, _Text):
        return "".join(value.pieces)
    return value.value() if isinstance(value, (Joined, _Items)) else value
