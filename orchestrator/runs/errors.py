"""What can go wrong with runs beyond what agents and stores know of."""

from typing import ClassVar

from agents.errors import HeadraceError


class RunOver(HeadraceError):
    """The run has ended, so nothing can be said or granted to it any more."""

    kind: ClassVar[str] = "run_over"


class BadLog(HeadraceError):
    """What should be an exported log is none, or was cut short; the message says where."""

    kind: ClassVar[str] = "input_error"
