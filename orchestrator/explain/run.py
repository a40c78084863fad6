"""Where a run's time went, from the events in its log and its calls in the ledger: pure.

A moment belongs to the first of these that is open: a tool, people, a model call (with its wait in queue). So the parts
add up to the whole, though tools of one reply run side by side.
"""

from collections.abc import Sequence

from msgspec import Struct, field

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
    """Seconds of a run by what was open. `model` has the waits in queue in it; `by_tool` has those of each tool, which
    may overlap, and `running` names the tools that are still at work.
    """

    model: float = 0.0
    tools: float = 0.0
    people: float = 0.0
    other: float = 0.0
    by_tool: dict[str, float] = field(default_factory=dict)
    running: tuple[str, ...] = ()

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
    spans.running = tuple(dict.fromkeys(open_.tools.values()))
    return spans


def _spend(spans: Spans, open_: "_Open", seconds: float) -> None:
    for tool in dict.fromkeys(open_.tools.values()):
        spans.by_tool[tool] = spans.by_tool.get(tool, 0.0) + seconds
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
        self.tools: dict[tuple[int, int], str] = {}
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
                self.tools[event.step, event.index] = event.name
            case ToolFinished():
                self.tools.pop((event.step, event.index), None)
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
