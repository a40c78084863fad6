"""Whole checks of simulated providers in virtual time: what is sent, waited for, and concluded."""

import math
from typing import Any

import trio
from trio.testing import MockClock

from agents.money import Price
from orchestrator.backends.simulated.backend import (
    FaultRule,
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.check.report import CheckReport
from orchestrator.check.run import MOST_REQUESTS, Check, Subject
from orchestrator.check.sender import Step
from tests.check.asked import finding, states

USUAL = SimLatency(first_token=0.3, input_rate=8000.0, output_rate=50.0, spread=0.0)


def provider(**options: Any) -> SimProvider:
    return SimProvider(
        SimConfig(
            **{
                "latency": USUAL,
                "length": SimLength(tokens=200, spread=0.0),
                "models": ("m-1",),
                "prefix_cache": 64,
                **options,
            }
        )
    )


async def check(
    *providers: SimProvider, steps: list[Step] | None = None, timeout: float = 60.0, **subject: Any
) -> CheckReport:
    endpoints = tuple(SimulatedBackend(f"e{number}", one) for number, one in enumerate(providers))
    asked = Subject(**{"backend": "sim", "model": "m-1", "endpoints": endpoints, **subject})
    return await Check(asked, timeout=timeout, on_step=(steps if steps is not None else []).append).run()


async def test_a_healthy_provider_is_usable(autojump_clock: MockClock) -> None:
    """Nine requests answer every question, with figures that are the provider's own."""
    report = await check(provider())
    assert (report.verdict, report.message, report.requests) == ("usable", "", 9)
    bad = {name for name, state in states(report).items() if state != "ok"}
    assert bad == {"system message"}
    streaming = finding(report, "streaming")
    assert streaming.first_token is not None
    assert math.isclose(streaming.first_token, 0.3, abs_tol=0.02)
    assert streaming.tokens_per_second is not None
    assert math.isclose(streaming.tokens_per_second, 50.0, rel_tol=0.05)
    assert (streaming.output_tokens, report.unreported) == (48, 0)
    assert report.usage.cached is not None
    assert report.usage.cached > 500


async def test_cost_is_that_of_all_requests(autojump_clock: MockClock) -> None:
    """With a price the reported tokens of all requests have a cost; without one it is not known."""
    price = Price(1_000_000, 4_000_000)
    report = await check(provider(), price=price)
    assert report.cost_micro == price.cost(report.usage)
    assert (await check(provider())).cost_micro is None


async def test_limits_are_told_as_lines_of_the_file(autojump_clock: MockClock) -> None:
    """What response headers say of limits comes back as configuration, with what is left of it."""
    limits = (SimLimit(kind="requests", amount=60), SimLimit(kind="total_tokens", amount=90_000))
    report = await check(provider(limits=limits))
    assert [limit.line for limit in report.limits] == ["rpm = 60", "tpm = 90000"]
    assert report.limits[0].limit == 60
    assert report.limits[0].remaining is not None
    assert report.limits[0].remaining < 60


async def test_a_used_up_limit_is_waited_for(autojump_clock: MockClock) -> None:
    """With five requests a minute nothing is refused: the check waits for the minute to pass, and says so."""
    steps: list[Step] = []
    tight = provider(limits=(SimLimit(kind="requests", amount=5, algorithm="fixed_window"),))
    report = await check(tight, steps=steps)
    assert report.verdict == "usable"
    assert tight.statistics().refused["requests"] == 0
    waits = [step.waiting for step in steps if step.waiting is not None]
    assert waits
    assert sum(waits) <= 120


async def test_waiting_has_an_end(autojump_clock: MockClock) -> None:
    """A limit that has no room for hours is not waited for; what it refused is unclear, and the rest is still told."""
    slow = provider(limits=(SimLimit(kind="requests", amount=3, per=86400.0, algorithm="fixed_window"),))
    began = trio.current_time()
    report = await check(slow)
    assert trio.current_time() - began < 130
    assert finding(report, "streaming").state == "ok"
    assert finding(report, "JSON schema").state == "unclear"
    assert report.verdict == "usable"


async def test_one_call_at_a_time_is_found_out(autojump_clock: MockClock) -> None:
    """A provider that refuses the second call at once is told apart from one that takes it."""
    report = await check(provider(max_concurrency=1))
    assert finding(report, "two at once").state == "no"
    assert finding(report, "streaming").state == "ok"
    assert finding(report, "same again").state == "ok"


async def test_missing_usage_is_important(autojump_clock: MockClock) -> None:
    """A provider that reports no tokens is usable, but the verdict and the sum say what is missing."""
    report = await check(provider(faults=(FaultRule(fault="no_usage"),)))
    assert (report.verdict, report.unreported) == ("incomplete", 8)
    assert report.message.endswith("missing: usage")


async def test_a_failed_request_does_not_stop_the_rest(autojump_clock: MockClock) -> None:
    """One broken answer leaves one question unclear and all others answered."""
    report = await check(provider(faults=(FaultRule(fault="status", status=500, nth=(6,)),)))
    assert finding(report, "JSON schema").state == "unclear"
    assert "500" in finding(report, "JSON schema").says
    assert [finding(report, name).state for name in ("tool result", "long input")] == ["ok", "ok"]
    assert report.verdict == "usable"


async def test_silence_ends_with_the_timeout(autojump_clock: MockClock) -> None:
    """A request that is never answered takes its timeout and no more, and says so."""
    report = await check(provider(faults=(FaultRule(fault="silence", nth=(4,)),)), timeout=20.0)
    assert finding(report, "tool call").says == "no answer began within 20 s (--timeout)"
    assert finding(report, "JSON schema").state == "ok"


async def test_a_greeting_that_nobody_answers_ends_it(autojump_clock: MockClock) -> None:
    """A backend that does not even greet costs one request."""
    silent = provider(faults=(FaultRule(fault="silence"),))
    report = await check(silent)
    assert (report.verdict, report.requests) == ("unusable", 1)
    assert "no answer began within 60 s" in report.message


async def test_every_endpoint_is_greeted(autojump_clock: MockClock) -> None:
    """A dead endpoint is a finding, the first that answers gets the rest, and ten requests are never exceeded."""
    dead = provider(faults=(FaultRule(fault="refuse"),))
    report = await check(dead, provider(), provider())
    answers = {one.endpoint: one.state for one in report.findings if one.name == "answers"}
    assert answers == {"e0": "no", "e1": "ok", "e2": "ok"}
    assert (finding(report, "streaming").endpoint, report.verdict) == ("e1", "incomplete")
    assert report.requests <= MOST_REQUESTS
    assert finding(report, "errors").says == "not asked: the ten requests were used up"


async def test_more_endpoints_than_requests(autojump_clock: MockClock) -> None:
    """Twelve endpoints: some are greeted, requests are left for the stories and a tool call, the others are named."""
    report = await check(*(provider() for _ in range(12)))
    assert report.requests == MOST_REQUESTS
    assert finding(report, "tool call").state == "ok"
    assert [one.says for one in report.findings if one.endpoint == "e11"] == ["not asked, see --endpoint e11"]


async def test_no_more_than_ten_in_all(autojump_clock: MockClock) -> None:
    """What was spent before the check counts: the least needed questions are left out."""
    report = await check(provider(), spent=2)
    assert report.requests == MOST_REQUESTS
    assert finding(report, "errors").state == "unclear"
    assert finding(report, "cached input").state == "ok"


async def test_cancelling_leaves_a_report(autojump_clock: MockClock) -> None:
    """A check that is cancelled at any step knows what it had found, and lets its call go."""
    for number in (1, 2, 4, 7):
        scope = trio.CancelScope()
        slow = provider()

        def stop(step: Step, number: int = number, scope: trio.CancelScope = scope) -> None:
            if step.number >= number:
                scope.cancel()

        endpoints = (SimulatedBackend("e0", slow),)
        running = Check(Subject(backend="sim", model="m-1", endpoints=endpoints), on_step=stop)
        with scope:
            await running.run()
        report = running.report()
        assert (report.verdict, slow.statistics().in_flight) == ("unfinished", 0)
        assert len(report.findings) == {1: 0, 2: 2, 4: 7, 7: 10}[number]
