"""The open runs of one service: by id, which sessions they keep busy, and how many are being driven."""

from collections.abc import Callable

import trio

from agents.runtime import DuplicateRun
from orchestrator.runs.record import RunRecord
from orchestrator.store.errors import SessionBusy


class OpenRuns:
    """Runs from the moment their name is taken to their end here. `live` of them are being created or driven.

    `on_asked` is called with a run when people are asked other things about it than before.
    """

    def __init__(self) -> None:
        self.records: dict[str, RunRecord] = {}
        self.busy: dict[str, str] = {}
        self.live = 0
        self.on_asked: Callable[[RunRecord], None] = lambda record: None
        self._below: dict[str, set[str]] = {}
        self._starting: set[str] = set()
        self._none_live: trio.Event | None = None

    def reserve(self, run: str, session: str) -> Callable[[], None]:
        """Takes the names for a run that is about to be created; what undoes that.

        Raises `DuplicateRun`, or `SessionBusy` where another run of the session is open.
        """
        if run in self.records or run in self._starting:
            raise DuplicateRun(f"there is a run {run} already")
        if session in self.busy:
            raise SessionBusy(f"run {self.busy[session]} of session {session} is open: wait for its end, or tell it")
        self._starting.add(run)
        self.busy[session] = run
        self.live += 1

        def undo() -> None:
            self._starting.discard(run)
            self.busy.pop(session, None)
            self._gone()

        return undo

    def starting(self, run: str) -> bool:
        """Whether the run is about to be created."""
        return run in self._starting

    def created(self, record: RunRecord) -> None:
        """The run exists, and is driven from here on."""
        self._starting.discard(record.run)
        self.records[record.run] = record
        record.on_asked = self.on_asked
        record.driven = True
        self._place(record)

    def found(self, record: RunRecord) -> RunRecord:
        """An open run that nobody drives."""
        self.records[record.run] = record
        self.busy[record.session] = record.run
        record.on_asked = self.on_asked
        self._place(record)
        if record.requests.open:
            self.on_asked(record)
        return record

    def driven(self, record: RunRecord) -> None:
        """From here on somebody drives what was found."""
        record.driven = True
        self.live += 1

    def parked(self, record: RunRecord) -> None:
        """Nobody drives it, and it stays open here."""
        record.driven = False
        self._gone()

    def over(self, record: RunRecord) -> None:
        """Nobody here drives it any more."""
        del self.records[record.run]
        siblings = self._below.get(record.parent, set())
        siblings.discard(record.run)
        if not siblings:
            self._below.pop(record.parent, None)
        self.busy.pop(record.session, None)
        self._gone()

    def below(self, parent: str) -> list[RunRecord]:
        """The open runs that calls of this one started."""
        return [self.records[run] for run in self._below.get(parent, ()) if run in self.records]

    async def none_live(self) -> None:
        """Waits until none is being created or driven."""
        while self.live:
            if self._none_live is None:
                self._none_live = trio.Event()
            await self._none_live.wait()

    def _place(self, record: RunRecord) -> None:
        if record.parent:
            self._below.setdefault(record.parent, set()).add(record.run)

    def _gone(self) -> None:
        self.live -= 1
        if not self.live and self._none_live is not None:
            self._none_live.set()
            self._none_live = None

    def __repr__(self) -> str:
        return f"<OpenRuns {self.live} live of {len(self.records)}>"
