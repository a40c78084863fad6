"""The suite that every runtime has to pass, for whoever writes one.

    async def my_runtime(material):     # an async context manager
        yield Subject(MyRuntime(model=ScriptedModel(material.script, latency=material.pace)))

    violations = await check_runtime(my_runtime)

It looks at a runtime from outside: it starts runs, polls, cancels and waits for them, and takes away the process they
live in where it is told how. Everything is measured in paces, the seconds that a model takes for an answer, so in
virtual time it takes no time.
"""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Final

import trio
from msgspec import Struct

from agents.errors import HeadraceError
from agents.runtime_material import MOST_PACES, Case, Material, RuleBroken, Subject, material
from agents.runtime_rules import RULES, Rule

__all__ = ["RULES", "Factory", "Material", "Subject", "Violation", "check_runtime"]

Factory = Callable[[Material], AbstractAsyncContextManager[Subject]]
"""Opens a new runtime whose agents and model are the material's; leaving the block ends all that it started."""

DEFAULT_PACE: Final = 0.5
_MOST: Final = 10 * MOST_PACES


class Violation(Struct, frozen=True):
    """A rule that a runtime broke, by its name in `RULES`, and what it did."""

    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


async def check_runtime(
    factory: Factory, *, pace: float = DEFAULT_PACE, only: Collection[str] = tuple(RULES)
) -> list[Violation]:
    """What the runtime does that it must not, one violation for each broken rule; empty for a good one.

    `pace` is in seconds: half of it is how long a call may take that waits for nothing. `only` names the rules to try.
    """
    violations = []
    for name in only:
        message = await _try(RULES[name], factory, material(pace))
        if message:
            violations.append(Violation(name, message))
    return violations


async def _try(rule: Rule, factory: Factory, made: Material) -> str:
    """What was found, empty if nothing. A runtime that cannot be left is left alone after a while."""
    found: list[str] = []
    with trio.move_on_after(_MOST * made.pace) as patience:
        try:
            async with factory(made) as subject:
                found.append(await _outcome(rule, Case(subject, made)))
        except Exception as error:
            found.append(f"opening or leaving the runtime raised {error!r}")
    if patience.cancelled_caught:
        found.append("a call, or leaving the runtime, takes for ever")
    if not found:
        found.append("the runtime cancelled the task that used it, or took its errors")
    return next(filter(None, found), "")


async def _outcome(rule: Rule, case: Case) -> str:
    try:
        await rule(case)
    except Exception as error:
        return _told(error)
    return ""


def _told(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        return _told(error.exceptions[0])
    if isinstance(error, RuleBroken):
        return str(error)
    return f"{type(error).__name__}: {error.message}" if isinstance(error, HeadraceError) else f"it raised {error!r}"
