"""The typed events of a job, in the order in which they come. `jobs.fold` says what they come to.

`job_planned`, then per attempt `attempt_started`, an `item_finished` for each item that came to an end in it, and
`job_ended`. `inputs_complete`, `stage_ended` and `job_stopping` come at any place. An attempt that its daemon left has
no end; the next daemon goes on with it, under the same number. `job_removed` ends the life of a job for good: a later
job of the same name goes on in the same log, and its attempts count on, so that no id of a run ever comes twice.

Every event says when it was appended: `at`, in seconds since the epoch.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from agents.amounts import NOTHING, Amounts
from agents.events import UnknownEvent
from agents.messages import Usage
from orchestrator.jobs.record import JobSummary
from orchestrator.views.jobs import JobPhase, JobRequest
from orchestrator.views.runs import PriorityName

VERSION: Final = 1
"""The version of the events' meaning; `job_planned` carries it, and a reader refuses versions it doesn't know."""


class _JobEvent(Struct, frozen=True, kw_only=True, tag_field="type"):
    at: float


class JobPlanned(_JobEvent, frozen=True, kw_only=True, tag="job_planned"):
    """The job exists: what was asked for, and what that came to when it was asked."""

    version: int = VERSION
    job: str
    request: JobRequest
    agent: str
    model: str
    priority: PriorityName
    workers: int
    created: float


class AttemptStarted(_JobEvent, frozen=True, kw_only=True, tag="attempt_started"):
    """Items without a `done` result are run from here on; with `only_failed` those whose run failed, and no others.

    `granted` says that the job's budget begins anew.
    """

    attempt: int
    granted: bool
    only_failed: bool = False


class InputsComplete(_JobEvent, frozen=True, kw_only=True, tag="inputs_complete"):
    """There will be no more inputs than these: `items` of them, in `size` bytes."""

    items: int
    size: int


class ItemFinished(_JobEvent, frozen=True, kw_only=True, tag="item_finished"):
    """An item came to an end, and `line` is its line in the results, byte for byte.

    `digest` is the SHA-256 of its line in the inputs, in hex, empty where that is not known. `unknown` may have been
    used by its run without the provider saying so; it stays spent.
    """

    ordinal: int
    digest: str
    line: msgspec.Raw
    unknown: Amounts = NOTHING


class StageEnded(_JobEvent, frozen=True, kw_only=True, tag="stage_ended"):
    """The attempt's planner or its synthesis has ended, and cost so much. `answer` is the synthesis', `plan` what the
    items' prompt says of the planner's."""

    stage: Literal["planning", "synthesis"]
    usage: Usage
    micro_dollars: int | None
    answer: str = ""
    plan: str = ""


class JobStopping(_JobEvent, frozen=True, kw_only=True, tag="job_stopping"):
    """The attempt takes no more items, and will end in `phase`, whoever ends it.

    With `gathered` it has what it needs, or cannot get it any more: items under way are cancelled and leave lines.
    """

    phase: JobPhase
    message: str
    gathered: bool = False


class JobEnded(_JobEvent, frozen=True, kw_only=True, tag="job_ended"):
    """The attempt is over. `cancelled` items were begun in it and taken away; `gathered` is what all items came to."""

    phase: JobPhase
    message: str
    cancelled: int
    gathered: JobSummary


class JobRemoved(_JobEvent, frozen=True, kw_only=True, tag="job_removed"):
    """The job is gone with its inputs and results. It came to its attempt number `attempt`."""

    attempt: int


JobEvent = (
    JobPlanned | AttemptStarted | InputsComplete | ItemFinished | StageEnded | JobStopping | JobEnded | JobRemoved
)

_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(JobEvent)


def session_of(job: str) -> str:
    """The name of the session that holds a job's log."""
    return f"job:{job}"


def encode(event: JobEvent) -> bytes:
    """One event as JSON."""
    return _encoder.encode(event)


def decode(data: bytes) -> JobEvent:
    """The event in this JSON. Raises `UnknownEvent` for a type or version this code doesn't know."""
    try:
        event = _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise UnknownEvent(f"the job's log holds an event that this version cannot read: {error}") from error
    if isinstance(event, JobPlanned) and event.version != VERSION:
        raise UnknownEvent(
            f"the job's log was written in version {event.version} of its events; this is version {VERSION}"
        )
    return event
