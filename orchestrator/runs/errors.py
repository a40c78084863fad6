"""What can go wrong with runs and sessions beyond what agents and stores know of."""

from typing import ClassVar

from agents.errors import HeadraceError


class RunOver(HeadraceError):
    """The run has ended, so nothing can be said or granted to it any more."""

    kind: ClassVar[str] = "run_over"


class CannotContinue(HeadraceError):
    """The session cannot go on like this; the message says what would be right. Nothing was created."""

    kind: ClassVar[str] = "cannot_continue"
