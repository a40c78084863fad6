"""How the daemon says no about jobs. Nothing was changed where one of these is raised."""

from typing import ClassVar, Literal

from agents.errors import HeadraceError
from orchestrator.jobs.inputs import InputError


class UnknownJob(HeadraceError):
    """Nobody knows a job of this id."""

    kind: ClassVar[str] = "unknown_job"


class DuplicateJob(HeadraceError):
    """A job of this id exists already."""

    kind: ClassVar[str] = "duplicate_job"


class JobConflict(InputError):
    """What was asked does not go with where the job stands: it has ended, it is live, its inputs are complete."""

    kind: ClassVar[str] = "job_conflict"


class WrongOffset(HeadraceError):
    """An upload that does not go on where the job's inputs end; `offset` is where they do, in bytes."""

    kind: ClassVar[str] = "wrong_offset"

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class JobStorageError(HeadraceError):
    """The daemon's own disk does not take or give what belongs to a job; the message names the file and why."""

    kind: ClassVar[str] = "storage_error"
    blame: ClassVar[Literal["nobody"]] = "nobody"
