"""What is wrong with a configuration: every problem with its full path, all of them in one error."""

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from agents.errors import HeadraceError, InvalidLimits

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")

Path = tuple[str | int, ...]
"""Where in the file: keys, and places in arrays counted from 0."""


class Problem(Struct, frozen=True):
    """One thing that is wrong. `path` is written as in TOML, empty where it is about the whole file."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(HeadraceError):
    """The configuration cannot be used. `problems` are all that were found."""

    def __init__(self, problems: Sequence[Problem], where: str = "") -> None:
        self.problems = tuple(problems)
        self.where = where
        lead = where or "the configuration"
        if len(self.problems) == 1:
            super().__init__(f"{lead}: {self.problems[0]}")
        else:
            lines = "".join(f"\n  {problem}" for problem in self.problems)
            super().__init__(f"{lead}: {len(self.problems)} problems{lines}")


def words_of(error: InvalidLimits) -> str:
    """What the error says of its field, without the field."""
    return error.message.removeprefix(f"{error.field}: ")


def show_path(path: Path) -> str:
    """The path as a person writes it: `models."gpt-4.1".backends[0]`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            key = part if _BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            shown += f".{key}" if shown else key
    return shown


def choice(names: Iterable[str]) -> str:
    """Names to choose from, for a message."""
    return ", ".join(names) or "none"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant; None if none is near."""
    found = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return found[0] if found else None


def no_such(what: str, name: str, names: Sequence[str]) -> str:
    """The message for a name that is not there: the nearest one that is, or all of them."""
    near = nearest(name, names)
    hint = f"did you mean {near!r}?" if near is not None else f"there are: {choice(names)}"
    return f"there is no {what} {name!r}; {hint}"
