"""Where a run's time went, from the events in its log and its calls in the ledger: pure.

A moment belongs to the first of these that is open: a tool, people, a model call (with its wait in queue). So the parts
add up to the whole, though tools of one reply run side by side.
"""

from collections.abc import Sequence

from msgspec import Struct

from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    InputGiven,
    InputRequested,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunEnded,
    RunResumed,
    RunWaiting,
    ToolFinished,
    ToolStarted,
)


class Spans(Struct):
    """Seconds of a run by what was open. `model` has the waits in queue in it."""

    model: float = 0.0
    tools: float = 0.0
    people: float = 0.0
    other: float = 0.0

    @property
    def whole(self) -> float:
        return self.model + self.tools + self.people + self.other


def spans_of(events: Sequence[Event], now: float) -> Spans:
    """The parts of a run's life until it ended, or until `now`. Times in seconds since the epoch."""
    spans = Spans()
    open_ = _Open()
    at = events[0].at if events else now
    for event in events:
        _spend(spans, open_, max(0.0, event.at - at))
        at = max(at, event.at)
        open_.see(event)
        if isinstance(event, RunEnded):
            return spans
    _spend(spans, open_, max(0.0, now - at))
    return spans


def _spend(spans: Spans, open_: "_Open", seconds: float) -> None:
    if open_.tools:
        spans.tools += seconds
    elif open_.waiting or (open_.asked and not open_.model):
        spans.people += seconds
    elif open_.model:
        spans.model += seconds
    else:
        spans.other += seconds


class _Open:
    """What of a run is open."""

    def __init__(self) -> None:
        self.tools: set[tuple[int, int]] = set()
        self.asked: set[str] = set()
        self.model = False
        self.waiting = False

    def see(self, event: Event) -> None:
        match event:
            case ModelRequested():
                self.model = True
            case ModelReplied() | ModelFailed():
                self.model = False
            case ToolStarted():
                self.tools.add((event.step, event.index))
            case ToolFinished():
                self.tools.discard((event.step, event.index))
            case ApprovalRequested() | InputRequested():
                self.asked.add(event.key)
            case ApprovalDecided() | InputGiven():
                self.asked.discard(event.key)
                self.waiting = False
            case RunWaiting():
                self.waiting = True
            case RunResumed():
                self.waiting = False
            case _:
                pass
