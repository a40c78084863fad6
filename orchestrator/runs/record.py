"""One open run of the daemon, and how clients see it.

Driven, all is read from what drives it (`driven.Driven`); while nobody drives it, from what its log came to. Where the
run began before this process did, it is running to the world, though here it may still be queued. Times come from its
events, which have them from one look at the wall clock and seconds of trio's clock; so a clock that is set meanwhile
makes no run end before it began.
"""

from collections.abc import Callable, Sequence

import trio
from msgspec.structs import asdict, replace

from agents.events import Event, RunEnded
from agents.lifecycle import State
from agents.loop import Taken, Taker
from agents.observation import observed
from agents.people_events import Reason
from agents.port import Flow, Priority
from agents.result import RunResult
from agents.snapshot import RunSnapshot, SessionSnapshot
from orchestrator.runs.asked import late_result, request_view
from orchestrator.runs.driven import Driven
from orchestrator.runs.head import Head
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.open_requests import OpenRequests
from orchestrator.runs.open_view import driven_detail, listed, so_far
from orchestrator.runs.output import Output
from orchestrator.runs.reading import detail_of, open_detail
from orchestrator.runs.terms import Terms as Terms
from orchestrator.views.approvals import ApprovalView
from orchestrator.views.runs import RunDetail, RunView


class RunRecord:
    """One open run. `counted` says whether it takes one of its tenant's places.

    `snapshot` is where its session stood when it was last read, `problem` why nobody drives it, `pause` the wait for
    the next try to take it up. `waits` says for what it waits while people are all it waits for: then nothing is held
    for it, until somebody says something. `owner` is set to wake whoever drives it in a task of its own by then, and
    `expected` says that somebody will, so that nobody else may. `on_asked` is called when other things are asked.
    `let_go` says that whoever drives it is to leave it, and stay away.
    `output` is what its model says while it says it.
    `heard` counts what was said to it from outside. `hindrance` says what is in the way of what drives it, if anything.
    """

    __slots__ = (
        "_bell",
        "_done",
        "_head",
        "_run",
        "_taken",
        "counted",
        "detail",
        "driven",
        "expected",
        "flow",
        "heard",
        "hindrance",
        "journal",
        "let_go",
        "on_asked",
        "output",
        "over",
        "owner",
        "pause",
        "priority",
        "problem",
        "requests",
        "result",
        "session",
        "snapshot",
        "terms",
        "waits",
    )

    def __init__(
        self, flow: Flow, session: str, priority: Priority, terms: Terms, *, counted: bool, head: Head | None = None
    ) -> None:
        self.flow = flow
        self.session = session
        self.priority = priority
        self.terms = terms
        self.counted = counted
        self.journal: SessionJournal | None = None
        self.snapshot: SessionSnapshot | None = None
        self.problem = ""
        self.pause: trio.CancelScope | None = None
        self.heard = 0
        self.driven = False
        self.expected = False
        self.let_go = False
        self.over = False
        self.waits: tuple[Reason, ...] = ()
        self.requests = OpenRequests()
        self.output = Output(flow.run)
        self.owner: trio.Event | None = None
        self.on_asked: Callable[[RunRecord], None] = lambda record: None
        self.hindrance: Callable[[], str] = str
        self.result: RunResult | None = None
        self.detail: RunDetail | None = None
        self._head = head
        self._run: Driven | None = None
        self._taken: tuple[Taken, str, Taker] | None = None
        self._done: trio.Event | None = None
        self._bell: trio.Event | None = None

    @property
    def run(self) -> str:
        """Its id."""
        return self.flow.run

    @property
    def parent(self) -> str:
        """The run whose tool call started it; empty for none."""
        return self.head.view.parent

    @property
    def live(self) -> Driven | None:
        """What drives it, or is about to; None while nobody does."""
        return self._run

    @property
    def head(self) -> Head:
        head = self._head if self.journal is None or self.journal.head is None else self.journal.head
        assert head is not None, f"run {self.run} has no first event"
        return head

    @property
    def state(self) -> State:
        if self.detail is not None:
            return self.detail.state
        if self.waits:
            return State.WAITING_APPROVAL if "approval" in self.waits else State.WAITING_INPUT
        if self._run is None:
            return self._begun(State.CREATED)
        return self._begun(self._run.state)

    def _begun(self, state: State) -> State:
        """The log says whether it has begun: what is seen of it must still be so after a restart."""
        if self.head.view.started is None:
            return State.CREATED if state is State.RUNNING else state
        return State.RUNNING if state in _UNBEGUN else state

    def driven_by(self, run: Driven, journal: SessionJournal, head: Head | None = None) -> None:
        """From here on this is what drives it; `head` is the one it has until its journal knows more."""
        self._head = head or self._head
        self._run, self.journal = run, journal
        self.snapshot, self.problem, self.waits = None, "", ()
        if self._taken is not None:
            run.cancel(*self._taken)

    def park(self, problem: str) -> None:
        """Nobody drives it for now."""
        self._run, self.problem = None, problem
        if self.journal is not None:
            self._head = self.journal.head

    def stands(self, snapshot: SessionSnapshot) -> None:
        """Nobody drives it, and this is where its log says it stands: maybe it waits for people alone."""
        self.snapshot = snapshot
        run = snapshot.last
        if run is not None and run.created.run == self.run:
            self.waits = run.waiting if run.ended is None else ()
            self.requests.restore(run)
            self.on_asked(self)

    def cancel(self, reason: Taken = "cancelled", message: str = "", source: Taker = "user") -> None:
        """Takes it away, as far as this process knows of it: now, or as soon as somebody drives it. One that has ended
        stays as it is.
        """
        if self._run is not None:
            self._run.cancel(reason, message, source)
        else:
            self._taken = self._taken or (reason, message, source)

    def hear(self, events: tuple[Event, ...]) -> None:
        """Tells it of what came from outside and is in its log."""
        self.heard += 1
        if self._run is not None:
            self._run.receive(events)
        self.grew(events)

    def grew(self, events: Sequence[Event]) -> None:
        """Its log has these as well."""
        if self.requests.add(events):
            self.on_asked(self)
        self.ring()

    def leave_soon(self) -> None:
        """Lets what is under way in it end, and leaves it open then."""
        if self._run is not None:
            self._run.leave_soon()
        if self.pause is not None:
            self.pause.cancel()

    def leave(self) -> None:
        """Stops driving it, and leaves it open in its log."""
        if self._run is not None:
            self._run.leave()
        if self.pause is not None:
            self.pause.cancel()

    def ended_event(self, now: float) -> RunEnded | None:
        """How it ended, as a closing event would say it; None while it has not."""
        result = None if self._run is None else self._run.result
        if result is None:
            return None
        shared = set(RunEnded.__struct_fields__) & set(RunResult.__struct_fields__)
        return RunEnded(at=now, **{field: getattr(result, field) for field in shared})

    def end(self, now: float) -> None:
        """Nobody here drives it any more: keeps what it led to, if it ended, and tells all who wait."""
        run, journal, ended = self._run, self.journal, self.ended_event(now)
        if run is not None and run.result is not None and journal is not None and ended is not None:
            head = self.head if self.head.ended else self.head.then([ended])
            self.result = run.result
            detail = detail_of(head.view, run.result, journal.number - head.after)
            late = tuple(late_result(event) for event in self.requests.late)
            self.detail = replace(detail, late=late, at_rest=run.progress.abandoned.quiescent)
        if not self.over:
            self._close()

    def end_as(self, result: RunResult, head: Head, events: int) -> None:
        """It turned out to have ended already."""
        self.result = result
        self.detail = detail_of(head.view, result, events)
        self._close()

    def _close(self) -> None:
        self._run = None
        self.over = True
        if self.owner is not None:
            self.owner.set()
        self.ring()
        if self._done is not None:
            self._done.set()

    async def wait(self) -> None:
        """Until it has ended, or is left. Always a checkpoint."""
        if self.over:
            await trio.lowlevel.checkpoint()
            return
        if self._done is None:
            self._done = trio.Event()
        await self._done.wait()

    def ring(self) -> None:
        """Its log has grown, or it is over."""
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()
        self.output.wake()

    def bell(self) -> trio.Event:
        """What the next ring sets."""
        if self._bell is None:
            self._bell = trio.Event()
        return self._bell

    def view(self) -> RunView:
        """The run in a list."""
        if self.detail is not None:
            return listed(self.detail)
        state = self.state
        seen = replace(self.head.view, state=state, observed=observed(state), message=self.problem or self.hindrance())
        known = self.parked if self._run is None else self._run.progress
        return seen if known is None else so_far(seen, known, trio.current_time())

    def whole(self) -> RunDetail:
        """The run, whole."""
        if self.detail is not None:
            return self.detail
        return replace(
            self._whole(), approvals=self.asked(), late=tuple(late_result(event) for event in self.requests.late)
        )

    def asked(self) -> tuple[ApprovalView, ...]:
        """What people are asked about it."""
        return tuple(request_view(self.head.view, asked) for asked in self.requests.open)

    def _whole(self) -> RunDetail:
        view, after = self.view(), self.head.after
        if self._run is not None and self.journal is not None:
            return driven_detail(view, self._run.progress, self.journal.number - after)
        if self.parked is None or self.snapshot is None:
            return RunDetail(**asdict(view))
        return open_detail(view, self.parked, self.snapshot.events - after)

    @property
    def parked(self) -> RunSnapshot | None:
        """Where it stood when its log was read, while nobody drives it."""
        return None if self.snapshot is None else self.snapshot.last

    def __repr__(self) -> str:
        return f"<RunRecord {self.run} {self.state}{'' if self._run else ' parked'}>"


_UNBEGUN = (State.CREATED, State.QUEUED)
