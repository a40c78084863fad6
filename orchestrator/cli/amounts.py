"""Amounts as people write them: limits as `rounds=10`, spans of time as `30d`."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.money import MILLION
from orchestrator.cli.options import WrongOption

NAMES: Final = ("rounds", "tool-calls", "tokens", "dollars", "timeout")
LIMITS_HELP: Final = "rounds=N, tool-calls=N, tokens=N, dollars=N, timeout=SECONDS (or 10m, 2h)"

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_MOST_SECONDS: Final = 100 * 366 * 86_400
_WRITTEN: Final[Mapping[str, str]] = {"micro_dollars": "dollars", "tool_calls": "tool-calls"}


def seconds_of(option: str, text: str) -> float:
    """A span like 12h, 30d or 4w in seconds. Raises `WrongOption`, which begins with `option`."""
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
    if not 0 < seconds <= _MOST_SECONDS:
        raise WrongOption(f"{option}: a number with m, h, d or w behind it, as 30d, at most 100 years; not {text!r}")
    return float(seconds)


def limits_of(option: str, given: Iterable[str]) -> Limits:
    """Limits from texts like `rounds=10`, which may also stand in one text with commas between them.

    Raises `WrongOption`, which begins with `option`.
    """
    amounts: dict[str, float] = {}
    for part in (part.strip() for text in given for part in text.split(",")):
        name, equals, amount = part.partition("=")
        name = name.strip().replace("_", "-")
        if not equals or name not in NAMES:
            raise WrongOption(f"{option}: one of {LIMITS_HELP} was expected, not {part!r}")
        if name in amounts:
            raise WrongOption(f"{option}: {name} is given twice")
        amounts[name] = _amount(option, name, amount.strip())
    if amounts.get("dollars", 0) >= MILLION:
        raise WrongOption(f"{option}: less than {MILLION:,} dollars were expected")
    try:
        return Limits(
            rounds=_whole(amounts, "rounds"),
            tool_calls=_whole(amounts, "tool-calls"),
            tokens=_whole(amounts, "tokens"),
            micro_dollars=round(amounts["dollars"] * MILLION) if "dollars" in amounts else None,
            timeout=amounts.get("timeout"),
        )
    except InvalidLimits as error:
        raise WrongOption(f"{option}: {error.message}") from None


def limit_words(limits: Limits) -> str:
    """The limits that are set, as one would write them: `rounds=10, dollars=0.5`."""
    given = {field: getattr(limits, field) for field in Limits.__struct_fields__}
    return ", ".join(limit_word(field, amount) for field, amount in given.items() if amount is not None)


def limit_word(field: str, amount: float) -> str:
    """One limit, by its field in `Limits`, as one would write it: `dollars=0.5`."""
    shown = amount / MILLION if field == "micro_dollars" else amount
    digits = f"{shown:.6f}".rstrip("0").rstrip(".")
    return f"{_WRITTEN.get(field, field)}={digits}"


def _amount(option: str, name: str, text: str) -> float:
    pattern = {"dollars": r"\d{1,15}(\.\d{1,6})?", "timeout": r"\d{1,15}(\.\d{1,6})?[smhd]?"}.get(name, r"\d{1,15}")
    if not re.fullmatch(pattern, text, re.ASCII):
        raise WrongOption(f"{option}: {name} takes {_TAKES.get(name, 'a whole number')}, not {text!r}")
    unit = _UNITS.get(text[-1], 1)
    return float(text.rstrip("smhd")) * unit


_TAKES: Final = {"dollars": "an amount like 0.50", "timeout": "seconds, or a span like 10m"}


def _whole(amounts: Mapping[str, float], name: str) -> int | None:
    return int(amounts[name]) if name in amounts else None
