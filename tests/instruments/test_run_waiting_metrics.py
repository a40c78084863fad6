"""Runs that wait for people, counted by what they wait for."""

from prometheus_client import CollectorRegistry

from agents.amounts import Limits
from agents.events import Event, RunCreated, RunEnded, RunResumed, RunStarted, RunWaiting
from agents.lifecycle import State, StopReason
from orchestrator.instruments.runs import RunMetrics


def test_a_run_that_waits_for_people_is_counted_as_that_until_it_goes_on() -> None:
    """Approval names the state before a question does; taken up it runs, and ended it is gone."""
    registry = CollectorRegistry()
    metrics = RunMetrics(registry)

    def after(*events: Event) -> dict[str, float]:
        for event in events:
            metrics.see(event)
        states = ("running", "waiting_approval", "waiting_input")
        counts = {state: registry.get_sample_value("headrace_runs", {"state": state}) for state in states}
        return {state: count for state, count in counts.items() if count}

    created = RunCreated(run="r", agent="a", model="m", messages=(), limits=Limits())
    assert after(created, RunStarted(run="r")) == {"running": 1}
    assert after(RunWaiting(run="r", reasons=("input",))) == {"waiting_input": 1}
    assert after(RunResumed(run="r")) == {"running": 1}
    assert after(RunWaiting(run="r", reasons=("approval", "input"))) == {"waiting_approval": 1}
    assert after(RunEnded(run="r", reason=StopReason.CANCELLED, state=State.CANCELLED)) == {}
