"""Prometheus metrics of tool calls, and which tools are at work now; read from the events of runs.

A tool has a label of its own as long as there are fewer than `cap`: a server may list thousands, and a model may ask
for tools that there are not. A call that runs is remembered until its result is in its run's log, or nobody here drives
its run any more.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import trio
from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agents.events import Event, RunEnded, ToolFinished, ToolRefused, ToolStarted
from agents.snapshot import RunSnapshot
from orchestrator.instruments.books import Distribution, TenantLabels
from orchestrator.instruments.families import counter, gauge, histogram

TOOL_LABELS: Final = 100
TOOL_BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

Place = tuple[int, int]
"""Step and index: a call's place in its run."""


class Running(Struct, frozen=True):
    """A tool call at work, `since` a time on trio's clock."""

    tool: str
    run: str
    since: float


class ToolMetrics(Collector):
    """A watcher of runs (`watched.RunWatcher`), and a collector in this registry."""

    def __init__(
        self, registry: CollectorRegistry, *, cap: int = TOOL_LABELS, now: Callable[[], float] = trio.current_time
    ) -> None:
        self._now = now
        self._labels = TenantLabels(cap)
        self._running: dict[str, dict[Place, Running]] = {}
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._durations: dict[str, Distribution] = {}
        registry.register(self)

    def reset(self) -> None:
        """Sets every count back to nothing; what runs stays known."""
        self._outcomes.clear()
        self._durations.clear()

    def see(self, event: Event) -> None:
        """Takes in one event that was appended."""
        match event:
            case ToolStarted():
                call = Running(event.name, event.run, self._now())
                self._running.setdefault(event.run, {})[event.step, event.index] = call
            case ToolFinished():
                self._finished(event)
            case ToolRefused():
                # the name may be one that the model made up
                tool = "other" if event.outcome == "unknown_tool" else self._labels.label(event.name)
                self._outcomes[tool, event.outcome] += 1
            case RunEnded():
                self._running.pop(event.run, None)
            case _:
                pass

    def _finished(self, event: ToolFinished) -> None:
        tool = self._labels.label(event.name)
        self._outcomes[tool, event.outcome] += 1
        calls = self._running.get(event.run, {})
        started = calls.pop((event.step, event.index), None)
        if not calls:
            self._running.pop(event.run, None)
        if started is not None:
            self._durations.setdefault(tool, Distribution(TOOL_BOUNDS)).observe(self._now() - started.since)

    def stands(self, run: RunSnapshot) -> None:
        """Calls that an earlier executor started are not known to run."""

    def left(self, run: str) -> None:
        """Nobody here drives this run."""
        self._running.pop(run, None)

    def lost(self, run: str) -> None:
        """See `left`."""
        self._running.pop(run, None)

    def running(self) -> list[Running]:
        """Every call at work, the longest first."""
        return sorted((call for calls in self._running.values() for call in calls.values()), key=lambda one: one.since)

    def collect(self) -> Iterable[Metric]:
        """What a scrape reads."""
        yield counter(
            "tool_calls_total",
            "Tool calls by outcome, those that were refused before they started included.",
            ("tool", "outcome"),
            list(self._outcomes.items()),
        )
        yield histogram(
            "tool_call_duration_seconds",
            "From a tool call's start to its outcome.",
            ("tool",),
            (((tool,), durations) for tool, durations in list(self._durations.items())),
        )
        running, oldest = self._by_label()
        yield gauge("running_tool_calls", "Tool calls at work now.", ("tool",), running.items())
        yield gauge(
            "oldest_tool_call_seconds",
            "How long the tool call has run that has run longest; 0 where none does.",
            ("tool",),
            oldest.items(),
        )

    def _by_label(self) -> tuple[Mapping[tuple[str], float], Mapping[tuple[str], float]]:
        """A tool that has run once stays, at 0, so that a graph has no holes."""
        now = self._now()
        running: dict[tuple[str], float] = {(tool,): 0.0 for tool in self._durations}
        oldest = dict(running)
        for call in self.running():
            label = (self._labels.label(call.tool),)
            running[label] = running.get(label, 0.0) + 1
            oldest[label] = max(oldest.get(label, 0.0), now - call.since)
        return running, oldest
