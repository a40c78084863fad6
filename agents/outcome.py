"""How a started tool call ended, and what its model is told of it."""

from msgspec import Struct

from agents.answers import CUT_OFF, UNKNOWN_EFFECT
from agents.events import Finish


class Outcome(Struct, frozen=True):
    """How a started call ended, and what the model is told."""

    finish: Finish
    content: str


def ended_open(finish: Finish, why: str, *, repeatable: bool) -> Outcome:
    """The outcome of a started call of whose end nothing is known."""
    if repeatable:
        return Outcome(finish, CUT_OFF.format(why=why))
    return Outcome("unknown_effect", UNKNOWN_EFFECT.format(why=why))
