"""Prompt templates: `{name}` stands for a field of the item, `{{` and `}}` for the braces themselves.

No expressions and no formats: a prompt is text, and what can be checked is checked before anything starts.
`{text}` is the item's text, `{origin}` where it comes from (unless the item has a field of that name).
"""

import re
from collections.abc import Mapping, Set
from typing import Any

import msgspec

from agents.errors import HeadraceError

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OF_INPUT = "the prompt uses nothing of its input: put {text} or a {field} into it"
_NAME = re.compile(r"[^\W\d][\w-]*\Z")


class TemplateError(HeadraceError):
    """A template that cannot be used, or an item that lacks a field the template names."""


class Template:
    """A parsed template. `names` are the fields it uses; `needs` is the error where it uses none, empty for no error.

    Raises `TemplateError` with line and column of a fault.
    """

    __slots__ = ("_parts", "names")

    def __init__(self, text: str, needs: str = _OF_INPUT) -> None:
        if not text.strip():
            raise TemplateError("the prompt is empty")
        parts: list[tuple[str, str]] = []
        start = 0
        for match in _TOKEN.finditer(text):
            literal, start_next = text[start : match.start()], match.end()
            token, name = match.group(), match.group(1)
            if token in ("{{", "}}"):
                parts.append((literal + token[0], ""))
            elif name is not None and _NAME.match(name):
                parts.append((literal, name))
            else:
                raise TemplateError(f"the prompt, {_place(text, match.start())}: {_fault(token)}")
            start = start_next
        parts.append((text[start:], ""))
        self._parts = tuple(parts)
        self.names: Set[str] = frozenset(name for _, name in parts if name)
        if needs and not self.names:
            raise TemplateError(needs)

    def __repr__(self) -> str:
        return f"<Template {', '.join(sorted(self.names))}>"

    def saying(self, name: str, text: str) -> "Template":
        """This one with a text for a name, the same for all items. Raises `TemplateError`."""
        if name not in self.names:
            raise TemplateError(f"the prompt does not name {{{name}}}")
        made = object.__new__(Template)
        made._parts = tuple((literal + text, "") if part == name else (literal, part) for literal, part in self._parts)
        made.names = self.names - {name}
        if not made.names:
            raise TemplateError(
                f"the prompt uses nothing of its input beside {{{name}}}: put {{text}} or a {{field}} into it"
            )
        return made

    def check(self, fields: Mapping[str, Any], origin: str) -> None:
        """Raises `TemplateError` if an item with these fields cannot fill the template."""
        missing = sorted(name for name in self.names if name not in fields and name != "origin")
        if not missing:
            return
        names = ", ".join("{" + name + "}" for name in missing)
        has = ", ".join(str(name) for name in list(fields)[:20]) or "none"
        raise TemplateError(f"{origin}: the prompt names {names}, but the item's fields are: {has}")

    def fill(self, fields: Mapping[str, Any], origin: str) -> str:
        """The prompt for one item; what is not a string is written as JSON. Raises `TemplateError`."""
        self.check(fields, origin)
        out: list[str] = []
        for literal, name in self._parts:
            out.append(literal)
            if name:
                out.append(_text(fields.get(name, origin)))
        return "".join(out)


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return f"line {line}, column {column}"


def _fault(token: str) -> str:
    if token in ("{", "}"):
        return f"a single {token}; write {token}{token} for the brace itself"
    return f"{token} is not a field's name; write {{{{ and }}}} for braces themselves"
