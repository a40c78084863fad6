"""Metrics of runs, read from their events."""

from collections.abc import Sequence

import pytest

from agents.amounts import UNLIMITED
from agents.errors import HeadraceError
from agents.events import (
    CancelRequested,
    Event,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply
from agents.port import Journal, Newcomers
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from tests.instruments.seen import samples, value

RUN = "s/1"
EVENTS: list[tuple[Event, State]] = [
    (RunCreated(run=RUN, agent="a", model="m", messages=(), limits=UNLIMITED), State.CREATED),
    (RunStarted(run=RUN), State.RUNNING),
    (ModelRequested(run=RUN, step=1, attempt=1, reserved_tokens=1, reserved_micro_dollars=0), State.WAITING_MODEL),
    (ModelReplied(run=RUN, step=1, attempt=1, reply=ModelReply(Message("assistant"), "tool_calls")), State.RUNNING),
    (ToolStarted(run=RUN, step=1, index=0, call="c0", name="t", key="k0"), State.WAITING_TOOL),
    (ToolStarted(run=RUN, step=1, index=1, call="c1", name="t", key="k1"), State.WAITING_TOOL),
    (ToolFinished(run=RUN, step=1, index=0, call="c0", name="t", outcome="ok", content=""), State.WAITING_TOOL),
    (ToolFinished(run=RUN, step=1, index=1, call="c1", name="t", outcome="timeout", content=""), State.RUNNING),
    (
        ToolRefused(run=RUN, step=1, index=2, call="c2", name="t", outcome="refused_budget", content=""),
        State.RUNNING,
    ),
    (CancelRequested(run=RUN, source="user", reason="cancelled"), State.CANCELLING),
]


async def test_runs_are_counted_by_what_they_have_open() -> None:
    """The gauge of open runs follows each event, and the end leaves only sums by reason and outcome."""
    hook = PrometheusHook()
    journal = MeteredJournal(memory := MemoryJournal(), RunMetrics(hook.registry))
    for event, state in EVENTS:
        await journal.append([event])
        assert value(hook, "runs", state=state) == 1
        assert sum(number for (name, _), number in samples(hook).items() if name == "headrace_runs") == 1
    await journal.append([RunEnded(run=RUN, reason=StopReason.CANCELLED, state=State.CANCELLED)])
    assert sum(number for (name, _), number in samples(hook).items() if name == "headrace_runs") == 0
    assert value(hook, "runs_finished_total", state="cancelled", reason="cancelled") == 1
    assert value(hook, "log_append_seconds_count") == len(memory)


class _Refusing:
    """A journal that raises this."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def append(self, events: Sequence[Event]) -> None:
        raise self._error


async def test_a_run_is_open_again_when_it_is_resumed() -> None:
    """A store that fails ends no run, and newcomers do not even interrupt it; a call that an earlier process started
    and nobody answers leaves nothing open.
    """
    hook = PrometheusHook()
    metrics = RunMetrics(hook.registry)

    def over(journal: Journal) -> MeteredJournal:
        return MeteredJournal(journal, metrics)

    await over(MemoryJournal()).append([EVENTS[0][0], EVENTS[1][0]])
    with pytest.raises(Newcomers):
        await over(_Refusing(Newcomers([]))).append([EVENTS[2][0]])
    assert value(hook, "runs", state="running") == 1
    with pytest.raises(HeadraceError):
        await over(_Refusing(HeadraceError("full"))).append([EVENTS[2][0]])
    assert value(hook, "runs", state="running") == 0
    unanswered = ToolFinished(run=RUN, step=1, index=0, call="c0", name="t", outcome="unknown_effect", content="")
    await over(MemoryJournal()).append([RunResumed(run=RUN, generation=2), unanswered])
    assert value(hook, "runs", state="running") == 1
    assert not [key for key in samples(hook) if key[0] == "headrace_runs_finished_total"]
