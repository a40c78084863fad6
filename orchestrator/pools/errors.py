"""What a worker process is told when it may not do what it asks for."""

from typing import ClassVar

from agents.errors import HeadraceError


class ClaimGone(HeadraceError):
    """The claim to the run does not count any more: the worker drops the run, and tells nobody."""

    kind: ClassVar[str] = "claim_gone"


class NotYet(HeadraceError):
    """Nobody here can say yet whether the claim counts, or do what it is for: to be asked again soon."""

    kind: ClassVar[str] = "not_yet"
    retry_after = 1.0


class NameTaken(HeadraceError):
    """Another worker process of this name is at work."""

    kind: ClassVar[str] = "name_taken"


class UnknownChild(HeadraceError):
    """No child run of this id was started here: start it again, which joins what there is."""

    kind: ClassVar[str] = "unknown_child"
