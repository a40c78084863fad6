"""What can go wrong with runs beyond what agents and stores know of."""

from typing import ClassVar

from agents.errors import HeadraceError


class RunOver(HeadraceError):
    """The run has ended, so nothing can be said or granted to it any more."""

    kind: ClassVar[str] = "run_over"


class UnknownApproval(HeadraceError):
    """Nobody was ever asked under this id."""

    kind: ClassVar[str] = "unknown_approval"


class AlreadyDecided(HeadraceError):
    """It was decided otherwise before, by somebody or by the clock, or its run was taken away or has ended."""

    kind: ClassVar[str] = "already_decided"


class NotAsked(HeadraceError):
    """Something else was asked: a question is not approved, an approval not answered, other arguments not decided."""

    kind: ClassVar[str] = "not_asked"


class BadLog(HeadraceError):
    """What should be an exported log is none, or was cut short; the message says where."""

    kind: ClassVar[str] = "input_error"
