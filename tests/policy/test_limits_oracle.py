"""Limits against an oracle: a brute-force provider that knows when it counted each call, and our books that do not."""

import heapq
import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.policy.limits import Counted, InFlightSpec, Lease, LimitSet, LimitSpec
from orchestrator.policy.ticket import Ticket

SPAN = 60.0
INF = math.inf


@dataclass
class Plan:
    """One call as fate has it: delays in seconds, `counted` as a share of the time in which it may be counted."""

    arrives: float
    input: int
    output: int
    bound: int
    write: float = 0.0
    headers: float = 0.0
    counted: float = 0.0
    body: float = 0.0
    fate: str = "reply"
    estimate: float = 0.0
    sigma: float = 0.0

    def ticket(self, seq: int) -> Ticket:
        return Ticket(
            seq=seq,
            tenant="a",
            input=self.estimate or self.input,
            input_sigma=self.sigma,
            output=self.output,
            max_output=self.bound,
        )


@dataclass
class Entry:
    """What the provider counted for one call: `amount` until `ends`, `final` from then on."""

    at: float
    amount: float
    ends: float = INF
    final: float = 0.0

    def worth(self, now: float) -> float:
        return self.amount if now < self.ends else self.final


@dataclass
class World:
    """Runs plans in their order through a `LimitSet`, as an owner does, and writes down what the provider counted."""

    limits: LimitSet
    counted: Counted
    provider_amount: Callable[[Plan], tuple[float, float]]
    entries: list[Entry] = field(default_factory=list)
    produced: list[tuple[float, float]] = field(default_factory=list)
    dispatched: list[float] = field(default_factory=list)
    looks: int = 0
    _events: list[tuple[float, int, Callable[[float], object]]] = field(default_factory=list)
    _seq: int = 0

    def at(self, time: float, do: Callable[[float], object]) -> None:
        self._seq += 1
        heapq.heappush(self._events, (time, self._seq, do))

    def run(self, plans: Iterator[Plan] | list[Plan], *, until: float = INF) -> None:
        """Dispatches plans one after the other, each as soon as it arrived and `check` lets it."""
        now, seq = 0.0, 0
        source = iter(plans)
        plan = next(source, None)
        while plan is not None and now < until:
            ticket = plan.ticket(seq)
            blocked = self.limits.check(ticket, now) if plan.arrives <= now else None
            self.looks += 1
            if plan.arrives <= now and blocked is None:
                self._dispatch(plan, self.limits.reserve(ticket, now), now)
                seq += 1
                plan = next(source, None)
                continue
            wake = plan.arrives if blocked is None else blocked.until
            assert wake > now, "looking again at once would never end"
            if self._events and self._events[0][0] <= wake:
                now = self._step()
            else:
                assert wake < INF, f"blocked by {blocked} with nothing live"
                now = wake
        while self._events:
            self._step()

    def _step(self) -> float:
        time, _, do = heapq.heappop(self._events)
        do(time)
        return time

    def _dispatch(self, plan: Plan, lease: Lease, now: float) -> None:
        self.dispatched.append(now)
        if plan.fate == "unreachable":
            self.at(now + plan.write, lambda t: self._settle(lease, plan, t, worked=False))
            return
        written = now + plan.write
        headers = written + plan.headers
        end = headers + plan.body
        counted = written + plan.counted * min(plan.headers, 1.0)
        amount, final = self.provider_amount(plan)
        self.entries.append(Entry(counted, amount, end, final))
        self.at(written, lease.written)
        if plan.fate == "silent":
            self.at(headers, lambda t: self._settle(lease, plan, t, known=False))
            self.entries[-1].ends = INF
            return
        self.at(headers, lease.headers)
        if self.counted == "as_produced":
            steps = 8
            for step in range(1, steps + 1):
                time = headers + plan.body * step / steps
                # a provider counts whole tokens
                tokens = plan.output * step // steps - plan.output * (step - 1) // steps
                self.produced.append((time, tokens))
                self.at(time, partial(lease.streamed, tokens))
        self.at(end, lambda t: self._settle(lease, plan, t))

    def _settle(self, lease: Lease, plan: Plan, now: float, *, worked: bool = True, known: bool = True) -> None:
        lease.settle(input=plan.input if known else None, output=plan.output if known else None, now=now, worked=worked)

    def empty(self) -> bool:
        """Whether every counter is at zero, with nothing live."""
        row = self.limits.statistics(1e9)
        return (
            row.in_flight_calls == row.tokens_in_flight == row.awaiting_first_token == 0
            and all(limit.held == 0 and limit.used == 0 for limit in row.limits)
            and all(window.variance == 0 for window in self.limits._windows)
        )


def worst_sliding(entries: list[Entry], span: float = SPAN) -> float:
    """The most that any window of `span` ending at a counted call contains, as the provider sees it then."""
    worst = 0.0
    for last in entries:
        inside = [entry for entry in entries if last.at - span < entry.at <= last.at]
        worst = max(worst, sum(entry.worth(last.at) for entry in inside))
    return worst


def worst_steady(counts: list[tuple[float, float]], span: float = SPAN) -> float:
    """`worst_sliding` in one pass, for (time, amount) pairs that never change."""
    worst = inside = 0.0
    counts = sorted(counts)
    oldest = 0
    for time, amount in counts:
        inside += amount
        while counts[oldest][0] <= time - span:
            inside -= counts[oldest][1]
            oldest += 1
        worst = max(worst, inside)
    return worst


def worst_fixed(entries: list[Entry], phase: float, span: float = SPAN) -> float:
    """The same for windows that begin at `phase` and every `span` after it."""
    worst = 0.0
    for last in entries:
        number = (last.at - phase) // span
        inside = [entry for entry in entries if (entry.at - phase) // span == number and entry.at <= last.at]
        worst = max(worst, sum(entry.worth(last.at) for entry in inside))
    return worst


def lowest_bucket(entries: list[Entry], limit: float, span: float = SPAN) -> float:
    """The lowest level of a bucket that holds `limit`, refills in `span`, and takes back what was not used."""
    changes = [(entry.at, -entry.amount) for entry in entries]
    changes += [(entry.ends, entry.amount - entry.final) for entry in entries if entry.ends < INF]
    level, at, lowest = limit, 0.0, limit
    for time, change in sorted(changes, key=lambda item: (item[0], -item[1])):
        level = min(limit, level + (time - at) * limit / span)
        level = min(limit, level + change)
        at = time
        lowest = min(lowest, level)
    return lowest


LIMIT = 1000
ms = st.integers(0, 3000).map(lambda n: n / 1000)


@st.composite
def plans(draw: st.DrawFn) -> list[Plan]:
    """Calls of up to half the limit, with delays that let every order of events happen."""
    size = draw(st.sampled_from([30, 120, 500]))
    arrives, drawn = 0.0, []
    for _ in range(draw(st.integers(1, 40))):
        arrives += draw(st.sampled_from([0.0, 0.0, 0.0, 0.3, 20.0, 59.0]))
        bound = draw(st.integers(1, size))
        drawn.append(
            Plan(
                arrives=arrives,
                input=draw(st.integers(0, size)),
                bound=bound,
                output=draw(st.integers(0, bound)),
                write=draw(ms),
                headers=draw(st.one_of(ms, st.sampled_from([30.0, 65.0, 140.0]))),
                counted=draw(st.sampled_from([0.0, 0.5, 1.0])),
                body=draw(st.one_of(ms, st.sampled_from([10.0, 90.0]))),
                fate=draw(st.sampled_from(["reply", "reply", "reply", "silent", "unreachable"])),
            )
        )
    return drawn


AMOUNTS: dict[str, Callable[[Plan], tuple[float, float]]] = {
    "at_admission": lambda plan: (plan.input + plan.bound, plan.input + plan.bound),
    "reconciled": lambda plan: (plan.input + plan.bound, plan.input + plan.output),
    "as_produced": lambda plan: (plan.input, plan.input),
}


@pytest.mark.parametrize("counted", ["at_admission", "reconciled"])
@settings(deadline=None, max_examples=70)
@given(drawn=plans(), burst=st.sampled_from([1.0, 10.0, 60.0]), phase=st.integers(0, 59))
def test_no_provider_ever_counts_more_than_the_limit(
    counted: Counted, drawn: list[Plan], burst: float, phase: int
) -> None:
    """Whatever the delays, no sliding window, fixed window or bucket of a provider sees more than the limit."""
    limits = LimitSet([LimitSpec("total_tokens", LIMIT, counted=counted, burst_seconds=burst)])
    world = World(limits, counted, AMOUNTS[counted])
    world.run(drawn)
    assert worst_sliding(world.entries) <= LIMIT
    assert worst_fixed(world.entries, phase) <= LIMIT
    assert lowest_bucket(world.entries, LIMIT) >= -1e-6
    assert len(world.dispatched) == len(drawn)
    assert world.empty()


@settings(deadline=None, max_examples=70)
@given(drawn=plans(), burst=st.sampled_from([1.0, 60.0]))
def test_several_limits_hold_together(drawn: list[Plan], burst: float) -> None:
    """A call reserves in all limits or none: requests, input and output each hold, and so does what is in flight."""
    specs = [
        LimitSpec("requests", 7, burst_seconds=burst),
        LimitSpec("input_tokens", LIMIT, burst_seconds=burst),
        LimitSpec("output_tokens", 700, counted="at_admission", burst_seconds=burst),
        LimitSpec("total_tokens", 2000, per=240.0),
    ]
    limits = LimitSet(specs, InFlightSpec(calls=5, tokens=1200, first_token=3))
    world = World(limits, "at_admission", lambda plan: (0.0, 0.0))
    world.run(drawn)
    live = [plan for plan in drawn if plan.fate != "unreachable"]
    for amount, span, of in (
        (7, 60.0, lambda plan: 1),
        (LIMIT, 60.0, lambda plan: plan.input),
        (700, 60.0, lambda plan: plan.bound),
        (2000, 240.0, lambda plan: plan.input + plan.output),
    ):
        seen = [Entry(entry.at, of(plan)) for entry, plan in zip(world.entries, live, strict=True)]
        assert worst_sliding(seen, span) <= amount
    assert world.empty()


@settings(deadline=None, max_examples=70)
@given(drawn=plans())
def test_output_as_produced_is_let_out_under_99_percent(drawn: list[Plan]) -> None:
    """Where output counts as produced, a call is dispatched only while the last minute's output is under 99 %."""
    limits = LimitSet([LimitSpec("output_tokens", LIMIT, counted="as_produced", burst_seconds=60.0)])
    world = World(limits, "as_produced", AMOUNTS["as_produced"])
    for plan in drawn:
        plan.fate = "reply"
    world.run(drawn)
    for time in world.dispatched:
        # what came at this very instant may have been told before or after
        out = sum(tokens for when, tokens in world.produced if time - SPAN < when < time)
        assert out < 0.99 * LIMIT
    assert world.empty()


SIZES = (5, 20, 40, 60)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["look", "spend"]), st.sampled_from(SIZES)),
    st.tuples(st.just("wait"), st.sampled_from([2.0, 10.0, 30.0])),
    st.tuples(st.sampled_from(["headers", "input", "settle"]), st.integers(0, 2)),
)


def look(limits: LimitSet, size: int, now: float, *, afresh: bool) -> float:
    """When a call of this size would be told to look again, 0 if it fits. `afresh` remembers nothing of before."""
    window = limits._windows[0]
    kept = (window.look_until, window._look_need, window.told)
    if afresh:
        window.look_until = -INF
    answer = limits.check(Ticket(seq=0, tenant="a", input=size), now)
    window.look_until, window._look_need, window.told = kept
    return 0.0 if answer is None else answer.until


@settings(deadline=None, max_examples=150)
@given(steps=st.lists(STEPS, min_size=30, max_size=60))
def test_nobody_is_told_to_look_too_late(steps: list[tuple[str, float]]) -> None:
    """A remembered time is never later than a new one; whatever makes room earlier than was told says so."""
    limits = LimitSet([LimitSpec("total_tokens", 100, burst_seconds=60.0)])
    held: list[Lease] = []
    told: dict[int, float] = {}
    now = 0.0
    for what, value in steps:
        freed = False
        if what in ("look", "spend"):
            call = Ticket(seq=0, tenant="a", input=int(value))
            answer = limits.check(call, now)
            if answer is not None:
                told[int(value)] = answer.until
            else:
                held.append(limits.reserve(call, now))
                held[-1].written(now)
                freed = what == "spend" and held.pop().headers(now)
        elif what == "wait":
            now += value
        elif value < len(held):
            lease = held[int(value)]
            if what == "input":
                freed = lease.input_known(10, now)
            else:
                del held[int(value)]
                freed = lease.headers(now) if what == "headers" else lease.settle(input=10, output=0, now=now)
        if freed:
            told.clear()
        for size in SIZES:
            afresh = look(limits, size, now, afresh=True)
            assert look(limits, size, now, afresh=False) <= afresh
            # the pacer may still say "later"
            assert now >= told.get(size, -INF) or afresh >= told[size]


def backlog(rng: random.Random, limit: float, *, exact: bool, share: float = 0.01) -> Iterator[Plan]:
    """Calls that never run out, of up to `share` of the limit."""
    while True:
        total = rng.uniform(0.1, 1.0) * share * limit
        bound = int(total * rng.uniform(0.1, 0.5))
        yield Plan(
            arrives=0.0,
            input=int(total) - bound,
            bound=bound,
            output=bound if exact else int(bound * rng.random()),
            write=rng.uniform(0.0, 0.02),
            headers=rng.lognormvariate(-0.7, 0.6),
            counted=rng.random(),
            body=rng.uniform(0.5, 20.0),
        )


@pytest.mark.parametrize("counted", ["at_admission", "reconciled"])
def test_sustained_load_uses_98_percent(counted: Counted) -> None:
    """With exact amounts and calls of up to 1 % of the limit, at least 98 % of it is used, and never more than all."""
    limit, minutes = 100_000, 8
    limits = LimitSet([LimitSpec("total_tokens", limit, counted=counted)])
    world = World(limits, counted, AMOUNTS[counted])
    world.run(backlog(random.Random(1), limit, exact=True), until=minutes * SPAN)
    used = sum(entry.amount for entry in world.entries if SPAN <= entry.at < minutes * SPAN)
    assert used / (limit * (minutes - 1)) >= 0.98
    assert worst_steady([(entry.at, entry.amount) for entry in world.entries]) <= limit


@pytest.mark.parametrize("seed", range(2))
def test_sustained_output_as_produced_uses_95_percent(seed: int) -> None:
    """Where output counts as produced, at least 95 % is used, and the provider refuses nobody."""
    limit, minutes = 30_000, 10
    limits = LimitSet([LimitSpec("output_tokens", limit, counted="as_produced")])
    world = World(limits, "as_produced", AMOUNTS["as_produced"])
    world.run(backlog(random.Random(seed), limit * 3, exact=False), until=minutes * SPAN)
    used = sum(tokens for when, tokens in world.produced if SPAN <= when < minutes * SPAN)
    assert used / (limit * (minutes - 1)) >= 0.95
    times = sorted(when for when, _ in world.produced)
    sums = list(accumulate((tokens for _, tokens in sorted(world.produced)), initial=0.0))
    for entry in world.entries:
        window = sums[bisect_right(times, entry.at)] - sums[bisect_right(times, entry.at - SPAN)]
        assert window < limit


@pytest.mark.parametrize("seed", range(2))
def test_uncertain_input_stays_within_the_limit(seed: int) -> None:
    """Input estimates that are off by 20 % are kept within the limit by the margin; without it they are not."""
    limit, minutes = 100_000, 8

    def noisy(sigma: float) -> Iterator[Plan]:
        rng = random.Random(seed)
        for plan in backlog(rng, limit, exact=True, share=0.04):
            plan.estimate = plan.input / max(0.2, rng.gauss(1.0, 0.2))
            plan.sigma = sigma * plan.estimate
            yield plan

    worst = {}
    for sigma in (0.2, 0.0):
        world = World(LimitSet([LimitSpec("total_tokens", limit)]), "reconciled", AMOUNTS["reconciled"])
        world.run(noisy(sigma), until=minutes * SPAN)
        worst[sigma] = worst_steady([(entry.at, entry.final) for entry in world.entries])
        assert world.empty()
    assert worst[0.2] <= limit < worst[0.0]
