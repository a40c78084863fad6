"""How an attempt at a job ends, or is left."""

from msgspec import Struct

from agents.errors import Draining, HeadraceError
from orchestrator.store.errors import Fenced
from orchestrator.views.jobs import JobPhase


class Ending(Struct, frozen=True):
    """How an attempt at a job ended. `cancelled` items were begun and taken away.

    One that is `interrupted` has not ended: it is gone on with, and with `again` by this daemon as soon as it can.
    With `sum_up` its items have come to something that a synthesis can be written of.
    """

    phase: JobPhase
    message: str = ""
    cancelled: int = 0
    again: bool = False
    sum_up: bool = False


def may_go_on(error: HeadraceError) -> bool:
    """Whether this daemon can go on with a job that was left because of this: not where it ends, or another has it."""
    return not isinstance(error, Draining | Fenced)
