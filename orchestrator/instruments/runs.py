"""Prometheus metrics of runs, read from the events they append to their journal.

Only runs that are open are remembered, by what they have open; a run that ended is a number.
"""

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agents.events import (
    CancelRequested,
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolFinished,
    ToolStarted,
)
from agents.lifecycle import State, StopReason
from agents.port import Journal
from agents.snapshot import RunSnapshot
from orchestrator.instruments.books import APPEND_BOUNDS, Distribution
from orchestrator.instruments.families import counter, gauge, histogram
from orchestrator.instruments.watched import RunWatcher, WatchedJournal


class _OpenRun:
    """What one run has open; the first of cancelling, tool, people, model names its state (`agents.lifecycle`).

    `waiting` says for whom it waits, until an executor takes it up again.
    """

    __slots__ = ("begun", "cancelling", "model", "tools", "waiting")

    def __init__(self) -> None:
        self.begun = False
        self.cancelling = False
        self.model = False
        self.tools = 0
        self.waiting: State | None = None

    def state(self) -> State:
        if self.cancelling:
            return State.CANCELLING
        if self.tools:
            return State.WAITING_TOOL
        if self.waiting is not None:
            return self.waiting
        if self.model:
            return State.WAITING_MODEL
        return State.RUNNING if self.begun else State.CREATED


def _standing(run: RunSnapshot) -> _OpenRun:
    found = _OpenRun()
    found.begun = run.started is not None
    found.cancelling = run.cancel is not None
    found.model = run.open_request is not None
    calls = () if run.open_step is None else run.open_step.calls
    found.tools = sum(call.started and call.outcome is None for call in calls)
    return found


class RunMetrics(Collector):
    """Counts runs. Register it beside other collectors: `registry` is usually the call metrics' own."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._open: dict[str, _OpenRun] = {}
        self._finished: Counter[tuple[str, str]] = Counter()
        self._appends = Distribution(APPEND_BOUNDS)
        registry.register(self)

    def reset(self) -> None:
        """Sets every count back to nothing; open runs stay known."""
        self._finished.clear()
        self._appends.clear()

    def appended(self, seconds: float) -> None:
        """A journal took `seconds` to make events durable."""
        self._appends.observe(seconds)

    def left(self, run: str) -> None:
        """Nobody drives this run for now; it is open again when somebody resumes it."""
        self._open.pop(run, None)

    def stands(self, run: RunSnapshot) -> None:
        """This run goes on from here, whatever was known of it."""
        self._open[run.created.run] = _standing(run)

    def lost(self, run: str) -> None:
        """An event of this run could not be kept: the run ends without a closing one (`agents.log`)."""
        if self._open.pop(run, None) is not None:
            self._finished[State.FAILED, StopReason.INTERNAL_ERROR] += 1

    def see(self, event: Event) -> None:
        """Takes in one event that was appended."""
        match event:
            case RunCreated():
                self._open[event.run] = _OpenRun()
            case RunStarted():  # an earlier process may have made it
                self._open.setdefault(event.run, _OpenRun()).begun = True
            case RunResumed():
                self._open[event.run] = run = _OpenRun()
                run.begun = True
            case RunEnded():
                self._open.pop(event.run, None)
                self._finished[event.state, event.reason] += 1
            case _:
                self._see_open(event)

    def _see_open(self, event: Event) -> None:
        run = self._open.get(event.run)
        if run is None:
            return
        match event:
            case RunWaiting():
                run.waiting = State.WAITING_APPROVAL if "approval" in event.reasons else State.WAITING_INPUT
            case ModelRequested():
                run.model = True
            case ModelReplied() | ModelFailed():
                run.model = False
            case ToolStarted():
                run.tools += 1
            case ToolFinished():
                run.tools = max(run.tools - 1, 0)  # an earlier process may have started it
            case CancelRequested():
                run.cancelling = True
            case _:
                pass

    def collect(self) -> Iterable[Metric]:
        states = Counter(run.state() for run in list(self._open.values()))
        yield gauge("runs", "Open runs by state.", ("state",), (((str(state),), states[state]) for state in _OPEN))
        yield counter(
            "runs_finished_total",
            "Runs that ended, by terminal state and reason.",
            ("state", "reason"),
            (((str(state), str(reason)), count) for (state, reason), count in list(self._finished.items())),
        )
        yield histogram("log_append_seconds", "Making a run's events durable.", (), [((), self._appends)])


class MeteredJournal(WatchedJournal):
    """A journal that counts what it appends. Implements `agents.port.Journal` over another one."""

    __slots__ = ()

    def __init__(self, journal: Journal, metrics: RunMetrics, *also: RunWatcher) -> None:
        super().__init__(journal, (metrics, *also), appended=metrics.appended)


_OPEN = (
    State.CREATED,
    State.RUNNING,
    State.WAITING_MODEL,
    State.WAITING_TOOL,
    State.WAITING_APPROVAL,
    State.WAITING_INPUT,
    State.CANCELLING,
)
