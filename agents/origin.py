"""Where a run comes from, as far as whoever takes it up after its executor needs to know; and how it is left."""

from typing import ClassVar

from msgspec import Struct

from agents.errors import HeadraceError


class Origin(Struct, frozen=True, kw_only=True):
    """Goes into `run_created` as it is. `expiry` is in seconds since the epoch, None for none.

    `session` is the log that the run is a part of, empty for one of its own. `who` is the agent as it was asked for,
    in the words of whoever created the run. A run that another one's tool call started names that run as its `parent`,
    the call's key, and how many runs are above it. `trace` is the trace context of whoever asked for it.
    """

    session: str = ""
    tenant: str = ""
    job: str = ""
    who: str = ""
    expiry: float | None = None
    parent: str = ""
    parent_key: str = ""
    depth: int = 0
    trace: str = ""


NOWHERE = Origin()


class CannotContinue(HeadraceError):
    """The session cannot go on like this; the message says what would be right. Nothing was created."""

    kind: ClassVar[str] = "cannot_continue"


class RunLeft(HeadraceError):
    """The executor left the run open: nothing in its log says that it ended, and the next executor takes it up."""

    kind: ClassVar[str] = "run_left"


class RunParked(RunLeft):
    """All that the run waits for is people, and its log says so: whatever is said to it next takes it up again."""

    kind: ClassVar[str] = "run_parked"
