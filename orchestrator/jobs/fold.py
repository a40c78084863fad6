"""What a job's log comes to: its record, and the table of its results. Pure."""

from typing import Final

import msgspec

from orchestrator.jobs.debating import proposal_of
from orchestrator.jobs.events import (
    AttemptStarted,
    InputsComplete,
    ItemFinished,
    JobEnded,
    JobEvent,
    JobPlanned,
    JobRemoved,
    JobStopping,
    StageEnded,
)
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.table import ResultTable

_replace: Final = msgspec.structs.replace
_lines: Final = msgspec.json.Decoder(JobLine)


class JobFold:
    """Takes in a job's events in order. `record` is None where they tell of no job; `removed` says that it is gone.

    While an attempt has no end, the record's phase is `running`, or `stopping` with the phase that it will end in as
    `ending`. `attempt` is the last one, `events` the number of the last event.
    """

    def __init__(self) -> None:
        self.record: JobRecord | None = None
        self.table = ResultTable()
        self.ending: JobStopping | None = None
        self.attempt = 0
        self.removed = False
        self.events = 0

    @property
    def live(self) -> bool:
        """Whether the last attempt has no end."""
        return self.record is not None and self.record.ended is None and not self.removed

    def add(self, event: JobEvent, number: int) -> bytes:
        """Takes in the next event; what it adds to the results, which is a line or nothing."""
        self.events = number
        match event:
            case ItemFinished():
                data = bytes(event.line)
                line = _lines.decode(data)
                self.table.add(line, event.unknown)
                self._hear(line)
                return data + b"\n"
            case JobPlanned():
                self._plan(event)
            case AttemptStarted():
                self._begin(event)
            case InputsComplete():
                self._change(complete=True)
            case StageEnded():
                self.table.pay_stage(event.stage, event.usage, event.micro_dollars)
                planned = {"since": event.at, **({"plan": event.plan} if event.plan else {})}
                self._change(**planned if event.stage == "planning" else {"answer": event.answer})
            case JobStopping():
                self.ending = event
                self._change(phase="stopping", message=event.message)
            case JobEnded():
                self.ending = None
                self._change(
                    phase=event.phase,
                    message=event.message,
                    cancelled=event.cancelled,
                    ended=event.at,
                    summary=event.gathered,
                )
            case JobRemoved():
                self.attempt = max(self.attempt, event.attempt)
                self.removed = True
        return b""

    def _plan(self, event: JobPlanned) -> None:
        self.table, self.ending, self.removed = ResultTable(), None, False
        self.record = JobRecord(
            job=event.job,
            request=event.request,
            agent=event.agent,
            model=event.model,
            priority=event.priority,
            workers=event.workers,
            created=event.created,
            granted_at=event.at,
            since=event.at,
            complete=event.request.debate is not None,
        )

    def _hear(self, line: JobLine) -> None:
        """A debate's last proposal is its answer."""
        request = None if self.record is None else self.record.request
        if request is not None and request.debate is not None:
            proposal = proposal_of(request.debate, request.who, line)
            if proposal is not None:
                self._change(answer=proposal)

    def _begin(self, event: AttemptStarted) -> None:
        debate = None if self.record is None else self.record.request.debate
        self.attempt = event.attempt
        self.table.begin(granted=event.granted, only_failed=event.only_failed)
        self.ending = None
        self._change(attempt=event.attempt, phase="running", message="", cancelled=0, ended=None, since=event.at)
        if debate is None:
            self._change(answer="")
        if event.granted:
            self._change(granted_attempt=event.attempt, granted_at=event.at)

    def _change(self, **fields: object) -> None:
        if self.record is not None:
            self.record = _replace(self.record, **fields)
