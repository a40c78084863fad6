"""Transitions as an owner would make them, and what a scrape shows of them."""

from prometheus_client.parser import text_string_to_metric_families

from agents.messages import Usage
from agents.port import Flow, Priority
from orchestrator.instruments.log import LogHook
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.transitions import Transition, TransitionKind


def transition(
    kind: TransitionKind,
    tenant: str = "blue",
    *,
    at: float = 0.0,
    outcome: str = "",
    waited: float = 0.0,
    seconds: float = 0.0,
    usage: Usage | None = None,
    priority: Priority = Priority.STANDARD,
) -> Transition:
    return Transition(
        kind=kind,
        at=at,
        backend="main",
        flow=Flow(tenant, "job-1", "run-77"),
        priority=priority,
        endpoint="one",
        attempt=1,
        outcome=outcome,
        waited=waited,
        seconds=seconds,
        held_by="input_tokens",
        usage=usage,
    )


def call(hook: PrometheusHook | LogHook, tenant: str = "blue", *, outcome: str = "ok") -> None:
    """One call's whole way."""
    usage = Usage(input=100, cached=40, output=7) if outcome == "ok" else None
    hook(transition("queued", tenant))
    hook(transition("started", tenant, waited=3.0))
    hook(transition("first_token", tenant, seconds=0.3))
    if outcome != "ok":
        hook(transition("attempt_failed", tenant, outcome=outcome, seconds=2.0))
    hook(transition("finished", tenant, outcome=outcome, seconds=5.0, waited=3.0, usage=usage))


def samples(hook: PrometheusHook) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of the exposition, by name and labels; parsing it is part of the test."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(hook.exposition().decode())
        for sample in family.samples
    }


def value(hook: PrometheusHook, name: str, **labels: str) -> float:
    return samples(hook)[f"headrace_{name}", frozenset(labels.items())]
