"""Metrics of tool calls, read from the events of runs."""

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.events import RunEnded, ToolFinished, ToolRefused, ToolStarted
from agents.lifecycle import State, StopReason
from orchestrator.instruments.http import HttpMetrics, surface_of
from orchestrator.instruments.lag import EVERY, LoopLag
from orchestrator.instruments.tools import ToolMetrics


def started(run: str = "r", index: int = 0, name: str = "look") -> ToolStarted:
    return ToolStarted(run=run, step=1, index=index, call="c", name=name, key=f"{run}/{index}")


def finished(run: str = "r", index: int = 0, name: str = "look") -> ToolFinished:
    return ToolFinished(run=run, step=1, index=index, call="c", name=name, outcome="ok", content="")


def shown(registry: CollectorRegistry) -> dict[str, float]:
    """Samples by name and labels, in one string each."""
    return {
        f"{sample.name.removeprefix('headrace_')}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_a_hanging_tool_grows_old() -> None:
    """The age of the longest running call is its own, through the ends of others, until it ends itself."""
    now = 100.0
    metrics = ToolMetrics(registry := CollectorRegistry(), now=lambda: now)
    metrics.see(started())
    now = 160.0
    metrics.see(started(index=1))
    metrics.see(finished(index=1))
    assert shown(registry)["oldest_tool_call_seconds['look']"] == 60.0
    assert shown(registry)["running_tool_calls['look']"] == 1.0
    metrics.see(finished())
    assert shown(registry)["oldest_tool_call_seconds['look']"] == 0.0
    assert shown(registry)["tool_call_duration_seconds_sum['look']"] == 60.0


def test_a_run_that_is_gone_has_no_tools() -> None:
    """Calls of a run that ended, or that nobody here drives any more, run no longer."""
    metrics = ToolMetrics(CollectorRegistry(), now=lambda: 0.0)
    metrics.see(started("a"))
    metrics.see(started("b"))
    metrics.see(RunEnded(run="a", reason=StopReason.CANCELLED, state=State.CANCELLED))
    metrics.left("b")
    assert metrics.running() == []


@given(st.lists(st.text(min_size=1), max_size=300))
def test_names_of_tools_cannot_grow_or_break_the_metrics(names: list[str]) -> None:
    """Whatever tools are called, and however many there are, there are few labels, and all of it can be read."""
    metrics = ToolMetrics(registry := CollectorRegistry(), cap=5, now=lambda: 0.0)
    for name in names:
        metrics.see(started(name=name))
        metrics.see(finished(name=name))
        metrics.see(ToolRefused(run="r", step=1, index=2, call="c", name=name, outcome="unknown_tool", content=""))
    series = [key for key in shown(registry) if key.startswith("tool_calls_total")]
    assert len(series) <= 7


async def test_a_busy_loop_is_late(autojump_clock: trio.testing.MockClock) -> None:
    """A stall of the loop is seen as the lag of whoever slept meanwhile."""
    lag = LoopLag(registry := CollectorRegistry())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lag.watch)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(EVERY + 2.0)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert shown(registry)["loop_lag_seconds_sum[]"] == 2.0


def test_answers_are_counted_by_surface() -> None:
    """Paths become one of four words, so that nobody can make labels."""
    metrics = HttpMetrics(registry := CollectorRegistry())
    for path in ("/v1/messages", "/api/runs/x", "/", "/page/page.css", "/metrics", "/../../etc", "/v1"):
        metrics.answered(path, 200)
    assert {surface_of(path) for path in ("/v1/x", "/api/x", "/", "/x")} == {"gateway", "api", "page", "other"}
    assert shown(registry)["requests_total['200', 'other']"] == 3.0
