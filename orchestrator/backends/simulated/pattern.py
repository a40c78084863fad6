"""A string that matches a regular expression, for the patterns that people put into JSON Schemas.

A small recursive-descent reader of the common subset: literals, escapes (digits, word characters, blanks, quoted
characters), classes with ranges and negation, groups, alternatives, `? * +` and counted repeats, anchors. Whatever it
makes is checked with `re`; a pattern outside the subset (look-around, back references) gives None.
"""

import re
from collections.abc import Callable
from random import Random

_CLASSES = {"d": "0123456789", "w": "abcdefghijklmnopqrstuvwxyz0123456789_", "s": " "}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_EXTRA_REPEATS = 3
_MOST_REPEATS = 1000

Maker = Callable[[Random], str]


def matching(pattern: str, rng: Random, tries: int = 8) -> str | None:
    """A text in which the pattern is found, or None if this reader cannot make one."""
    try:
        compiled = re.compile(pattern)
        make = _Reader(pattern).alternatives()
    except (re.error, _Unsupported, RecursionError, OverflowError):
        return None
    for _ in range(tries):
        text = make(rng)
        if compiled.search(text):
            return text
    return None


class _Unsupported(Exception):
    pass


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise _Unsupported
        self._at += 1
        return char

    def alternatives(self) -> Maker:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._take()
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return lambda rng: rng.choice(branches)(rng)

    def _sequence(self) -> Maker:
        parts: list[Maker] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return lambda rng: "".join(part(rng) for part in parts)

    def _atom(self) -> Maker:
        char = self._take()
        if char in "^$":
            return lambda rng: ""
        if char == "(":
            return self._group()
        if char == "[":
            return _one_of(self._class())
        if char == ".":
            return _one_of(_CLASSES["w"])
        if char == "\\":
            return _one_of(self._escape())
        return _one_of(char)

    def _group(self) -> Maker:
        if self._peek() == "?":
            self._take()
            if self._take() != ":":
                raise _Unsupported
        inside = self.alternatives()
        if self._take() != ")":
            raise _Unsupported
        return inside

    def _escape(self) -> str:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.lower() in _CLASSES:
            return _without(_CLASSES[char.lower()])
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise _Unsupported
        return char

    def _class(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self._take()
        chars = ""
        while self._peek() != "]" or not chars:
            char = self._take()
            found = self._escape() if char == "\\" else char
            if len(found) == 1 and self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] != "]":
                self._take()
                last = self._take()
                found = "".join(map(chr, range(ord(found), ord(last) + 1)))
            chars += found
        self._take()
        return _without(chars) if negated else chars

    def _repeated(self, atom: Maker) -> Maker:
        low, high = 1, 1
        char = self._peek()
        if char and char in "?*+":
            self._take()
            low, high = {"?": (0, 1), "*": (0, _EXTRA_REPEATS), "+": (1, 1 + _EXTRA_REPEATS)}[char]
        elif found := re.compile(r"\{(\d+)(,?)(\d*)\}").match(self._pattern, self._at):
            self._at = found.end()
            low = int(found[1])
            high = low if not found[2] else int(found[3] or low + _EXTRA_REPEATS)
            if low > _MOST_REPEATS:
                raise _Unsupported
        else:
            return atom
        if self._peek() in ("?", "+"):  # lazy or possessive: the same texts, for a generator
            self._take()
        return lambda rng: "".join(atom(rng) for _ in range(rng.randint(low, min(high, low + 16))))


def _one_of(chars: str) -> Maker:
    if not chars:
        raise _Unsupported
    return lambda rng: rng.choice(chars)


def _without(chars: str) -> str:
    return "".join(c for c in _PRINTABLE if c not in chars)
