"""Metrics and logs of what happens to calls and runs."""

import io
import json
import time
from collections.abc import Callable, Iterator

import pytest
import structlog
from msgspec import Struct
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from agents.events import (
    CancelRequested,
    Event,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, Usage
from agents.port import Flow, Priority
from orchestrator.instruments.books import OTHER, Distribution, TenantLabels
from orchestrator.instruments.log import BURST, LogHook, configure_logging
from orchestrator.instruments.prometheus import PrometheusHook
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from orchestrator.transitions import Hook, Transition, TransitionKind


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
    hook(transition("attempt_ended", tenant, outcome=outcome, seconds=2.0, usage=usage))
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


class Endpoint(Struct):
    name: str
    in_flight: int
    concurrency_limit: int
    breaker: str
    limits: dict[str, float]


class Tenant(Struct):
    queued_by_priority: tuple[int, ...]


class Backend(Struct):
    backend: str
    waiting: int
    retrying: int
    endpoints: list[Endpoint]
    tenants: dict[str, Tenant]
    tenant_limits: dict[str, dict[str, float]]
    fairness_spread: float
    fairness_bound: float


BUSY = Backend(
    "main",
    waiting=3,
    retrying=2,
    endpoints=[Endpoint("one", 4, 8, "closed", {"requests": 0.5}), Endpoint("two", 0, 1, "open", {})],
    tenants={"blue": Tenant((0, 5, 1)), "red": Tenant((2, 0, 0)), "green": Tenant((0, 1, 0))},
    tenant_limits={"blue": {"requests": 0.2}, "red": {"requests": 0.9}, "green": {"requests": 0.4}},
    fairness_spread=120.0,
    fairness_bound=900.0,
)


def test_a_calls_way_is_counted() -> None:
    """One answered call appears once in every sum, with its waits and durations in the right buckets."""
    hook = PrometheusHook()
    call(hook)
    who = {"backend": "main", "tenant": "blue"}
    assert value(hook, "calls_total", **who, priority="standard", outcome="ok") == 1
    assert value(hook, "queue_wait_seconds_sum", **who, priority="standard") == 3.0
    assert value(hook, "queue_wait_seconds_bucket", **who, priority="standard", le="2.5") == 0
    assert value(hook, "queue_wait_seconds_bucket", **who, priority="standard", le="5.0") == 1
    assert value(hook, "time_to_first_token_seconds_count", backend="main", endpoint="one") == 1
    assert value(hook, "call_duration_seconds_sum", backend="main", priority="standard") == 5.0
    for type_, tokens in {"input": 100, "cached": 40, "output": 7}.items():
        assert value(hook, "tokens_total", **who, type=type_) == tokens
    assert value(hook, "usage_unreported_total", backend="main", endpoint="one") == 0


@pytest.mark.parametrize(
    ("outcome", "upstream"), [("throttled", True), ("overloaded", True), ("refused", True), ("caller_gone", False)]
)
def test_R26_errors_are_counted_by_kind(outcome: str, upstream: bool) -> None:
    """Each kind of failure has its own label, and what is not the endpoint's doing is not counted against it."""
    hook = PrometheusHook()
    call(hook, outcome=outcome)
    assert value(hook, "calls_total", backend="main", tenant="blue", priority="standard", outcome=outcome) == 1
    key = ("headrace_upstream_errors_total", frozenset({"backend": "main", "endpoint": "one", "kind": outcome}.items()))
    assert (key in samples(hook)) is upstream


def test_retries_are_counted() -> None:
    """A retry is one by the kind of error that led to it."""
    hook = PrometheusHook()
    hook(transition("retrying", outcome="throttled"))
    assert value(hook, "retries_total", backend="main", tenant="blue", kind="throttled") == 1


def test_R20_unknown_usage_is_not_zero_tokens() -> None:
    """An answer whose tokens the provider did not report adds none, and is counted as unreported."""
    hook = PrometheusHook()
    hook(transition("attempt_ended", outcome="ok", usage=Usage(output=5)))
    hook(transition("attempt_ended", outcome="ok"))
    assert value(hook, "usage_unreported_total", backend="main", endpoint="one") == 2
    assert value(hook, "tokens_total", backend="main", tenant="blue", type="output") == 5
    assert not any(("type", "input") in labels for _, labels in samples(hook))


def test_cost_is_in_dollars() -> None:
    """Micro-dollars of attempts add up to dollars; an unknown cost adds nothing."""
    costs = iter([1_500_000, None, 250_000])
    hook = PrometheusHook(cost=lambda _: next(costs))
    for _ in range(3):
        hook(transition("attempt_ended", outcome="ok", usage=Usage(input=1, output=1)))
    assert value(hook, "cost_dollars_total", backend="main", tenant="blue") == pytest.approx(1.75)


def test_tenants_beyond_the_cap_share_a_label() -> None:
    """With room for two names the third tenant and all later ones are counted together, and nothing is lost."""
    hook = PrometheusHook(TenantLabels(2, known=["configured"]))
    for tenant in ["a", "b", "c", "configured", "a", "b"]:
        call(hook, tenant)
    counted = {
        dict(labels)["tenant"]: number
        for (name, labels), number in samples(hook).items()
        if name.endswith("calls_total")
    }
    assert counted == {"a": 2, OTHER: 3, "configured": 1}


def test_no_run_and_no_job_becomes_a_label() -> None:
    """Neither the run's nor the job's name appears anywhere in the exposition."""
    hook = PrometheusHook()
    call(hook)
    text = hook.exposition().decode()
    assert "run-77" not in text
    assert "job-1" not in text


def test_state_is_read_at_the_scrape() -> None:
    """Queues, limits, concurrency and fairness are what the owner shows at that moment, not what was pushed before."""
    hook, state = PrometheusHook(), BUSY
    hook.watch(lambda: state)
    assert value(hook, "queued_calls", backend="main", tenant="blue", priority="batch") == 1
    assert value(hook, "in_flight_calls", backend="main", endpoint="one") == 4
    assert value(hook, "concurrency_limit", backend="main", endpoint="one") == 8
    assert value(hook, "limit_used_ratio", backend="main", endpoint="one", limit="requests") == 0.5
    assert value(hook, "endpoint_closed_off", backend="main", endpoint="two") == 1
    assert value(hook, "fairness_spread_service", backend="main") == 120
    assert value(hook, "fairness_bound_service", backend="main") == 900
    assert value(hook, "retrying_calls", backend="main") == 2
    state = Backend("main", 0, 0, [], {}, {}, 0.0, 0.0)
    assert value(hook, "fairness_bound_service", backend="main") == 0


def test_gauges_of_tenants_that_share_a_label_are_joined() -> None:
    """Their queues add up, and of their limits the one nearest to its end counts."""
    hook = PrometheusHook(TenantLabels(1))
    hook.watch(lambda: BUSY)
    assert value(hook, "queued_calls", backend="main", tenant=OTHER, priority="interactive") == 2
    assert value(hook, "queued_calls", backend="main", tenant=OTHER, priority="standard") == 1
    assert value(hook, "tenant_limit_used_ratio", backend="main", tenant=OTHER, limit="requests") == 0.9


def test_names_carry_prefix_and_base_units() -> None:
    """Every exposed family begins with `headrace_`, and no unit but a base unit appears."""
    hook = PrometheusHook(cost=lambda _: 1)
    hook.watch(lambda: BUSY)
    RunMetrics(hook.registry)
    call(hook)
    names = {family.name for family in text_string_to_metric_families(hook.exposition().decode())}
    assert all(name.startswith("headrace_") for name in names)
    assert not any(unit in name for name in names for unit in ("_ms", "_millis", "_minutes", "_cents"))


def test_S11_reset_sets_everything_back() -> None:
    """Resetting twice, metrics without labels included, raises nothing; counts start anew, owners stay connected."""
    hook = PrometheusHook()
    runs = RunMetrics(hook.registry)
    turn = hook.on_turn
    for _ in range(2):
        call(hook)
        turn(0.002)
        runs.appended(0.1)
        assert value(hook, "owner_loop_seconds_count") == 1
        hook.reset()
        runs.reset()
        assert value(hook, "owner_loop_seconds_count") == 0
        assert value(hook, "log_append_seconds_count") == 0
        assert not any(name == "headrace_calls_total" for name, _ in samples(hook))


def test_the_global_registry_stays_untouched() -> None:
    """Two hooks live in one process, and the library's default registry knows neither."""
    one, two = PrometheusHook(), PrometheusHook()
    call(one)
    assert not any(name == "headrace_calls_total" for name, _ in samples(two))
    assert not any(family.name.startswith("headrace_") for family in REGISTRY.collect())


def test_a_value_on_a_bound_belongs_to_its_bucket() -> None:
    """Buckets are cumulative and include their bound, as the format wants it."""
    distribution = Distribution((1.0, 2.0))
    for seconds in (0.5, 1.0, 1.5, 99.0):
        distribution.observe(seconds)
    assert distribution.buckets() == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert distribution.total == 102.0


RUN = "s/1"
EVENTS: list[tuple[Event, State]] = [
    (RunCreated(run=RUN, agent="a", model="m", messages=(), limits={}), State.CREATED),
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
    for outcome in ("ok", "timeout", "refused_budget"):
        assert value(hook, "tool_calls_total", outcome=outcome) == 1
    assert value(hook, "log_append_seconds_count") == len(memory)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What is written while the test runs, as JSON lines of every level."""
    stream = io.StringIO()
    configure_logging(json=True, level="debug", stream=stream)
    yield stream
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_failures_are_warnings_and_answers_are_details(logged: io.StringIO) -> None:
    """At the usual level an answered call writes nothing, a retry and a failure write a warning each."""
    hook = LogHook(structlog.get_logger())
    call(hook)
    assert lines(logged) == []
    hook(transition("retrying", outcome="throttled", seconds=20.0))
    call(hook, outcome="refused")
    call(hook, outcome="caller_gone")
    assert [(line["event"], line["level"], line["outcome"]) for line in lines(logged)] == [
        ("call retrying", "warning", "throttled"),
        ("call finished", "warning", "refused"),
        ("call finished", "info", "caller_gone"),
    ]


def test_debug_shows_every_transition_with_its_flow(logged: io.StringIO) -> None:
    """At debug each step of a call is one line that names its flow and leaves out what is empty."""
    call(LogHook(structlog.get_logger(), "debug"))
    written = lines(logged)
    assert [line["event"] for line in written] == [
        f"call {kind}" for kind in ("queued", "started", "first_token", "attempt_ended", "finished")
    ]
    assert all((line["tenant"], line["job"], line["run"]) == ("blue", "job-1", "run-77") for line in written)
    assert (written[-1]["input"], written[-1]["output"]) == (140, 7)
    assert "outcome" not in written[0]


def test_equal_warnings_are_held_back_and_counted(logged: io.StringIO) -> None:
    """Of a thousand equal failures a few are written, and the next line after a while says how many were not."""
    hook = LogHook(structlog.get_logger())
    for n in range(1000):
        hook(transition("retrying", at=n / 1000, outcome="unavailable"))
    hook(transition("retrying", at=1.0, outcome="throttled"))
    assert len(lines(logged)) == BURST + 1
    hook(transition("retrying", at=60.0, outcome="unavailable"))
    assert lines(logged)[-1]["suppressed"] == 1000 - BURST


def test_values_of_secret_keys_are_hidden(logged: io.StringIO) -> None:
    """A value whose key names a secret is blotted out, whoever logs it."""
    structlog.get_logger().info("connecting", api_key="sk-live-1", Authorization="Bearer sk-live-2", url="x")
    assert "sk-live" not in logged.getvalue()
    assert lines(logged)[0]["url"] == "x"


def test_text_for_people_has_no_colours_off_a_terminal() -> None:
    """The other form is one plain line per event where the stream is no terminal, and keeps to its level."""
    stream = io.StringIO()
    configure_logging(json=False, level="warning", stream=stream)
    try:
        LogHook(structlog.get_logger())(transition("retrying", outcome="throttled"))
        structlog.get_logger().info("not shown")
    finally:
        structlog.reset_defaults()
    assert "call retrying" in stream.getvalue()
    assert "tenant=blue" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "not shown" not in stream.getvalue()


def test_the_hooks_cost_is_reported(record_property: Callable[[str, object], None]) -> None:
    """Says what a transition costs in both hooks; the figure is for reading, it is not judged here."""
    hooks: tuple[Hook, ...] = (PrometheusHook(), LogHook(structlog.get_logger()))
    way = [
        transition("queued"),
        transition("started", waited=1.0),
        transition("first_token", seconds=0.1),
        transition("attempt_ended", outcome="ok", seconds=1.0, usage=Usage(input=10, output=5)),
        transition("finished", outcome="ok", seconds=2.0),
    ]
    for name, hook in zip(("prometheus", "log"), hooks, strict=True):
        started = time.perf_counter()
        for _ in range(2_000):
            for step in way:
                hook(step)
        each = (time.perf_counter() - started) / (2_000 * len(way)) * 1e6
        record_property(f"{name}_microseconds_per_transition", round(each, 3))
        print(f"{name}: {each:.2f} us per transition")
        assert each > 0
