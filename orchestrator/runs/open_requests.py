"""What people are asked about one run and have not answered: kept up as its log grows, so that nobody has to read that.

It comes to what `agents.fold` says (`RunSnapshot.asked`), but for the order in which answers were heard here: of two
that were given at the same moment the log has the first, and that either was given is all that matters here.
"""

from collections.abc import Sequence

from agents.answered import counts
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Event,
    InputGiven,
    InputRequested,
    ModelReplied,
    ModelRequested,
    RunEnded,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
)
from agents.people_events import Asked
from agents.snapshot import RunSnapshot


class OpenRequests:
    """The open requests of one run by their keys, and the late results of its calls. Hearing twice changes nothing."""

    __slots__ = ("_closed", "_known", "_step", "late")

    def __init__(self) -> None:
        self._known: dict[str, Asked | None] = {}  # None: nothing is asked about this call of the step any more
        self._step = 0  # the one whose calls are open
        self._closed = False
        self.late: tuple[ToolLate, ...] = ()

    def __len__(self) -> int:
        return len(self.open)

    @property
    def open(self) -> tuple[Asked, ...]:
        """In the order in which they were asked."""
        return tuple(asked for asked in self._known.values() if asked is not None) if self._known else ()

    def get(self, key: str) -> Asked | None:
        """The open request of this key."""
        return self._known.get(key)

    def restore(self, run: RunSnapshot) -> None:
        """Takes what a log came to for all that was ever heard."""
        self._closed = run.cancel is not None or run.ended is not None
        self._step = 0 if run.open_step is None else run.open_step.number
        self._known = {asked.key: asked for asked in run.asked}
        self.late = run.late

    def add(self, events: Sequence[Event]) -> bool:
        """What was appended to the run's log; whether anything is asked or is asked no more because of it."""
        before = self.open
        for event in events:
            self._add(event)
        return self.open != before

    def _add(self, event: Event) -> None:
        match event:
            case ApprovalRequested() | InputRequested():
                if event.step == self._step and not self._closed:
                    self._known.setdefault(event.key, event)
            case ApprovalDecided() | InputGiven():
                asked = self._known.get(event.key)
                if asked is not None and counts(asked, event):
                    self._known[event.key] = None
            case ToolStarted():
                self._over(event.key)
            case ToolRefused() | ToolFinished():
                self._over(f"{event.run}/{event.step}/{event.index}")
            case ModelReplied() if event.purpose == "step":
                self._step = event.step
            case ModelRequested():
                self._step = 0
                self._known.clear()
            case CancelRequested() | RunEnded():
                self._closed = True
                self._known.clear()
            case ToolLate():
                if event not in self.late:
                    self.late += (event,)
            case _:
                pass

    def _over(self, key: str) -> None:
        self._known[key] = None

    def __repr__(self) -> str:
        return f"<OpenRequests {', '.join(asked.key for asked in self.open) or 'none'}>"
