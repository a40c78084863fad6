"""Limits one by one: what a call takes of them, what gives it back, and what the provider's answers change."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from orchestrator.policy.feedback import Reading
from orchestrator.policy.foreign import Foreign
from orchestrator.policy.limits import Blocked, InFlightSpec, Lease, LimitSet, LimitSpec, Window
from orchestrator.policy.ticket import Ticket

_seq = itertools.count()


def ticket(input: float = 0, *, output: float = 0, bound: int | None = None, sigma: float = 0.0) -> Ticket:
    return Ticket(
        seq=next(_seq),
        tenant="a",
        input=input,
        input_sigma=sigma,
        output=output,
        max_output=int(output) if bound is None else bound,
    )


def tokens(amount: float, **more: object) -> LimitSpec:
    return LimitSpec("total_tokens", amount, **{"burst_seconds": 60.0, **more})  # type: ignore[arg-type]


def spend(limits: LimitSet, of: Ticket, now: float) -> Lease:
    """A call that is counted and over at once, and used all it reserved."""
    lease = limits.reserve(of, now)
    lease.written(now)
    lease.headers(now)
    lease.settle(input=of.input, output=of.max_output, now=now)
    return lease


def blocked(limits: LimitSet, of: Ticket, now: float) -> Blocked:
    answer = limits.check(of, now)
    assert answer is not None
    return answer


# Configuration


@pytest.mark.parametrize("field", ["amount", "per", "burst_seconds"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_S05_a_limit_that_makes_no_sense_is_refused_by_name(field: str, value: float) -> None:
    """NaN, infinite, zero and negative numbers are refused, and the message names the field."""
    with pytest.raises(InvalidLimits, match=f"requests.{field}"):
        LimitSpec("requests", **{"amount": 1.0, field: value})


def test_in_flight_caps_that_make_no_sense_are_refused_by_name() -> None:
    """A cap of nothing would stop everything, so it is refused."""
    with pytest.raises(InvalidLimits, match=r"in_flight\.tokens"):
        InFlightSpec(tokens=math.nan)
    with pytest.raises(InvalidLimits, match=r"in_flight\.calls"):
        InFlightSpec(calls=0)


def test_the_same_limit_twice_is_refused() -> None:
    """Two limits of one kind and span would have one name."""
    with pytest.raises(InvalidLimits, match="requests/min is given more than once"):
        LimitSet([LimitSpec("requests", 1), LimitSpec("requests", 2)])


def test_names_say_kind_and_span() -> None:
    """Metrics and messages name a limit as people write it."""
    names = [LimitSpec("requests", 1, per=per).name for per in (1.0, 60, 3600.0, 86400, 90.0)]
    assert names == ["requests/s", "requests/min", "requests/hour", "requests/day", "requests/90s"]


# Reserving and giving back


def test_S01_a_refused_reservation_takes_nothing() -> None:
    """Of 50 requests of 90 tokens one fits into 100 a minute; when it has aged, the whole limit is free again."""
    limits = LimitSet([tokens(100)])
    assert limits.check(ticket(90), 0.0) is None
    spend(limits, ticket(90), 0.0)
    answers = {blocked(limits, ticket(90), 0.0).until for _ in range(49)}
    assert answers == {60.05}
    assert limits.used(0.0) == {"total_tokens/min": 0.9}
    assert limits.check(ticket(100), 60.05) is None


@given(data=st.data())
@settings(deadline=None)
def test_every_end_gives_back_exactly_what_was_held(data: st.DataObject) -> None:
    """Whatever is told of leases, in any order and more than once: when all are settled, nothing is held."""
    rng = random.Random(data.draw(st.integers()))
    limits = LimitSet(
        [
            LimitSpec("requests", 1e9),
            LimitSpec("input_tokens", 1e9, cached_free=True),
            LimitSpec("output_tokens", 1e9, counted="as_produced"),
            tokens(1e9, counted="at_admission"),
            tokens(1e9, per=86400.0),
        ],
        InFlightSpec(calls=100, tokens=1e9),
    )
    leases = [
        limits.reserve(ticket(rng.random() * 100, output=rng.random() * 50, bound=50, sigma=rng.random() * 9), 0.0)
        for _ in range(8)
    ]
    now = 0.0
    words = ["written", "headers", "first_token", "streamed", "input_known", "settle", "refused"]
    for lease, word in data.draw(st.lists(st.tuples(st.sampled_from(leases), st.sampled_from(words)), max_size=60)):
        now += rng.choice([0.0, 0.1, 40.0, -0.001])
        tell(lease, word, rng, now)
    for lease in leases:
        lease.settle(input=None, output=None, now=now)
    row = limits.statistics(now)
    assert (row.in_flight_calls, row.tokens_in_flight, row.awaiting_first_token) == (0, 0, 0)
    assert [limit.held for limit in row.limits] == [0] * 5
    assert [limit.used for limit in limits.statistics(now + 1e6).limits] == [0] * 5
    assert all(window.variance == 0 for window in limits._windows)


def tell(lease: Lease, word: str, rng: random.Random, now: float) -> None:
    if word == "written":
        lease.written(now)
    elif word == "headers":
        lease.headers(now)
    elif word == "first_token":
        lease.first_token(now)
    elif word == "streamed":
        lease.streamed(rng.random() * 30, now)
    elif word == "input_known":
        lease.input_known(rng.randrange(200), now, cached=rng.randrange(50))
    else:
        known = rng.random() < 0.5
        lease.settle(
            input=rng.randrange(200) if known else None,
            output=rng.randrange(50) if known else None,
            now=now,
            worked=word == "settle",
        )


def test_a_call_fits_in_all_limits_or_takes_of_none() -> None:
    """Where one limit is full, the others are left as they were."""
    limits = LimitSet([tokens(100), LimitSpec("requests", 1, burst_seconds=60.0)])
    spend(limits, ticket(10), 0.0)
    before = limits.statistics(1.0)
    answer = blocked(limits, ticket(10), 1.0)
    assert (answer.limit, answer.short_of, answer.amount) == ("requests/min", "window", 1)
    assert limits.statistics(1.0) == before


def test_settling_brings_room_forward_at_once() -> None:
    """What was reserved and not used is free from the settlement on, also for a call that was told to wait."""
    limits = LimitSet([tokens(100)])
    spend(limits, ticket(50), 0.0)
    lease = limits.reserve(ticket(10, output=5, bound=40), 0.0)
    lease.written(0.0)
    lease.headers(0.5)
    assert blocked(limits, ticket(30), 1.0).until == 60.05
    assert lease.settle(input=10, output=5, now=2.0)
    assert limits.check(ticket(30), 2.0) is None


def test_a_settlement_that_frees_too_little_still_brings_the_time_forward() -> None:
    """A remembered time is forgotten when the room that is missing shrinks."""
    limits = LimitSet([tokens(100)])
    spend(limits, ticket(30), 0.0)
    spend(limits, ticket(30), 10.0)
    lease = limits.reserve(ticket(0, bound=40), 20.0)
    lease.headers(20.0)
    assert blocked(limits, ticket(50), 20.0).until == pytest.approx(70.05)
    lease.settle(input=0, output=20, now=21.0)
    assert blocked(limits, ticket(50), 21.0).until == pytest.approx(60.05)


def test_late_headers_of_an_early_call_bring_the_time_forward() -> None:
    """A call that was held is known to have been counted long ago: its room comes before that of the one told of."""
    limits = LimitSet([tokens(100)])
    early = limits.reserve(ticket(60), 0.0)
    early.written(0.0)
    spend(limits, ticket(30), 10.0)
    assert blocked(limits, ticket(30), 20.0).until == pytest.approx(70.05)
    assert early.headers(20.0)
    assert blocked(limits, ticket(30), 20.0).until == pytest.approx(61.05)


def test_what_live_calls_hold_never_ages_out() -> None:
    """Without headers no time is named at which there is room; the amount waits for the call, however long."""
    limits = LimitSet([tokens(100)])
    lease = limits.reserve(ticket(100), 0.0)
    lease.written(0.0)
    assert blocked(limits, ticket(1), 10.0).until == math.inf
    assert blocked(limits, ticket(1), 5000.0).until == math.inf
    assert lease.headers(5000.0)
    assert limits.check(ticket(1), 5000.0) is None


@pytest.mark.parametrize(("headers", "leaves"), [(0.3, 60.35), (30.0, 61.05)])
def test_an_amount_ages_from_headers_or_a_second_after_the_write(headers: float, leaves: float) -> None:
    """The stamp is min(headers, written + 1 s), rounded up to the end of its slot."""
    limits = LimitSet([tokens(100)])
    lease = limits.reserve(ticket(100), 0.0)
    lease.written(0.0)
    lease.headers(headers)
    assert blocked(limits, ticket(1), 40.0).until == pytest.approx(leaves, abs=0.051)


def test_a_refused_attempt_returns_tokens_but_never_its_request() -> None:
    """A 429 costs a request; where the provider counts at admission it costs the tokens as well, once written."""
    limits = LimitSet([LimitSpec("requests", 100), tokens(1000), tokens(2000, per=61.0, counted="at_admission")])
    lease = limits.reserve(ticket(100, output=100), 0.0)
    lease.written(0.0)
    lease.settle(input=None, output=None, now=0.1, worked=False)
    assert [limit.used for limit in limits.statistics(0.1).limits] == [1, 0, 200]
    lease = limits.reserve(ticket(100, output=100), 0.2)
    lease.settle(input=None, output=None, now=0.3, worked=False)
    assert [limit.used for limit in limits.statistics(0.3).limits] == [2, 0, 200]


@pytest.mark.parametrize(
    ("counted", "used"), [("at_admission", 100 + 80), ("reconciled", 60 + 20), ("as_produced", 60 + 20)]
)
def test_counted_says_what_is_settled(counted: str, used: int) -> None:
    """At admission nothing is ever settled down; otherwise what was used counts."""
    limits = LimitSet([tokens(1000, counted=counted)])
    lease = limits.reserve(ticket(100, output=40, bound=80), 0.0)
    lease.streamed(19.5, 1.0)
    lease.settle(input=60, output=20, now=2.0)
    assert limits.statistics(2.0).limits[0].used == used


def test_at_admission_input_is_only_raised() -> None:
    """An input that was larger than estimated is counted whole, and a smaller report does not lower it."""
    limits = LimitSet([tokens(1000, counted="at_admission")])
    lease = limits.reserve(ticket(100), 0.0)
    for reported in (130, 80, 120):
        lease.input_known(reported, 1.0)
    assert limits.statistics(1.0).limits[0].held == 130


def test_input_read_from_a_cache_may_be_free() -> None:
    """Where the provider's input limit leaves out cached input, so do we, once it is known."""
    limits = LimitSet([LimitSpec("input_tokens", 1000, cached_free=True), tokens(1000)])
    lease = limits.reserve(ticket(500), 0.0)
    assert lease.input_known(500, 1.0, cached=450)
    assert [limit.held for limit in limits.statistics(1.0).limits] == [50, 500]
    lease.settle(input=500, output=0, now=2.0, cached=450)
    assert [limit.used for limit in limits.statistics(2.0).limits] == [50, 500]


def test_the_margin_is_four_deviations_of_all_unsettled_input() -> None:
    """The errors of estimates add up as a root of squares, and a settled one no longer counts."""
    limits = LimitSet([tokens(1000)])
    first = limits.reserve(ticket(100, sigma=30.0), 0.0)
    # 4 * sqrt(30^2 + 40^2) = 200
    assert limits.check(ticket(700, sigma=40.0), 0.0) is None
    assert limits.check(ticket(701, sigma=40.0), 0.0) is not None
    first.input_known(100, 1.0)
    assert limits.check(ticket(740, sigma=40.0), 1.0) is None


def test_a_call_of_the_whole_limit_is_not_kept_out_by_its_margin() -> None:
    """A call that fits an empty window starts in an empty window, however uncertain its size."""
    limits = LimitSet([tokens(1000)])
    assert limits.too_large(ticket(1000, sigma=500.0)) is None
    assert limits.check(ticket(1000, sigma=500.0), 0.0) is None


def test_too_large_names_the_limit_and_both_numbers() -> None:
    """A call that no waiting could admit is told which limit it exceeds, and by how much."""
    limits = LimitSet([LimitSpec("requests", 1), tokens(1000)], InFlightSpec(tokens=900))
    assert limits.too_large(ticket(600, output=401)) == (
        "the call needs 1001 of the limit total_tokens/min, which is 1000"
    )
    assert limits.too_large(ticket(600, output=301)) == "the call needs 901 of the limit tokens in flight, which is 900"
    assert limits.too_large(ticket(600, output=300)) is None


# In flight


def test_room_in_flight_comes_from_live_calls_only() -> None:
    """Caps on calls, tokens and calls without a first token block without a time, until a lease says otherwise."""
    limits = LimitSet([], InFlightSpec(calls=3, tokens=1000, first_token=2))
    first = limits.reserve(ticket(300, output=100), 0.0)
    limits.reserve(ticket(300, output=100), 0.0)
    answer = blocked(limits, ticket(1), 0.0)
    assert (answer.limit, answer.until, answer.short_of) == ("calls without a first token", math.inf, "in_flight")
    assert first.first_token(1.0)
    assert not first.first_token(1.0)
    assert blocked(limits, ticket(100, output=101), 1.0).limit == "tokens in flight"
    assert limits.check(ticket(100, output=100), 1.0) is None
    first.streamed(150, 2.0)
    assert blocked(limits, ticket(100, output=100), 2.0).limit == "tokens in flight"
    assert limits.tokens_in_flight == 850
    limits.reserve(ticket(1), 2.0)
    assert blocked(limits, ticket(1), 2.0).limit == "calls in flight"
    first.settle(input=300, output=150, now=3.0)
    assert (limits.in_flight_calls, limits.tokens_in_flight) == (2, 401)


# Pacing


def test_the_pacer_spreads_a_minute() -> None:
    """Under sustained load no second but the first gets more than its share, and the first no more than the burst."""
    limits = LimitSet([tokens(6000, burst_seconds=5.0)])
    now, sent = 0.0, {}
    while now < 50.0:
        answer = limits.check(ticket(10), now)
        if answer is None:
            spend(limits, ticket(10), now)
            sent[int(now)] = sent.get(int(now), 0) + 10
        else:
            now = answer.until
    assert sent[0] <= 5 * 100 + 100 + 10
    assert max(amount for second, amount in sent.items() if second > 0) <= 110


def test_the_pacer_does_not_starve_a_large_call() -> None:
    """Where the window has room, a call of half the limit starts at the first time at which a small one could."""
    limits = LimitSet([tokens(6000, burst_seconds=5.0)])
    now = 0.0
    while limits.check(ticket(10), now) is None:
        spend(limits, ticket(10), now)
    small = blocked(limits, ticket(10), now).until
    assert blocked(limits, ticket(3000), now).until == small
    assert limits.check(ticket(3000), small) is None


def test_a_days_limit_may_be_used_at_once() -> None:
    """Spans over five minutes are not paced."""
    limits = LimitSet([tokens(1000, per=86400.0, burst_seconds=10.0)])
    for _ in range(100):
        assert limits.check(ticket(10), 0.0) is None
        spend(limits, ticket(10), 0.0)
    assert blocked(limits, ticket(10), 0.0).until == pytest.approx(86400.0, abs=73)


def test_a_429_with_room_left_halves_the_burst_down_to_a_second() -> None:
    """Once per tolerance, since the refusals of one burst come together."""
    limits = LimitSet([tokens(6000, burst_seconds=10.0)])
    seen = []
    for second in (0, 1, 11, 30, 60, 90):
        limits.throttled(frozenset({"total_tokens"}), None, float(second))
        seen.append(limits.statistics(float(second)).limits[0].burst_seconds)
    assert seen == [5.0, 5.0, 2.5, 1.25, 1.0, 1.0]


def test_refusals_at_the_least_burst_slow_the_pace_which_recovers() -> None:
    """Two percent for each, once a second at most; without another the pace comes back, the sooner the longer ago."""
    limits = LimitSet([tokens(6000, burst_seconds=1.0)])

    def share(now: float) -> float:
        while limits.check(ticket(10), now) is None:
            limits.reserve(ticket(10), now).settle(input=10, output=0, now=now)
        return limits.statistics(now).limits[0].pace_share

    for now in (0.0, 0.5, 1.0):
        limits.throttled(frozenset({"total_tokens"}), 0.0, now)
    assert limits.statistics(1.0).limits[0].pace_share == pytest.approx(0.98**2, abs=1e-4)
    assert share(31.0) == pytest.approx(0.98**2 + 0.0025, abs=1e-4)
    assert share(61.0) == pytest.approx(0.98**2 + 0.01, abs=1e-4)
    assert share(1000.0) == 1.0


def test_a_refusal_that_names_no_limit_slows_none() -> None:
    """It may be a matter of concurrency, which is cut elsewhere."""
    limits = LimitSet([tokens(6000, burst_seconds=1.0)])
    limits.throttled(frozenset(), 0.0, 0.0)
    assert limits.statistics(0.0).limits[0].pace_share == 1.0


# The provider's answers


def test_a_429_that_names_a_limit_closes_it() -> None:
    """The limit named has no room and is not tried before the time the provider asked for; others are untouched."""
    limits = LimitSet([LimitSpec("requests", 100), tokens(6000)])
    assert limits.throttled(frozenset({"total_tokens"}), 7.0, 100.0)
    answer = blocked(limits, ticket(10), 100.0)
    assert (answer.limit, answer.until) == ("total_tokens/min", 107.0)
    # at 1/60 of 6000 a second, 7 s bring 700
    assert limits.check(ticket(690), 107.0) is None
    assert limits.check(ticket(710), 107.0) is not None
    assert limits.check(ticket(6000), 160.1) is None


def test_a_429_that_names_no_limit_of_ours_closes_nothing() -> None:
    """What we do not count we cannot gate; the caller takes it as too much concurrency."""
    limits = LimitSet([LimitSpec("requests", 100)])
    assert not limits.throttled(frozenset(), None, 0.0)
    assert not limits.throttled(frozenset({"output_tokens"}), 5.0, 0.0)
    assert limits.check(ticket(10), 0.0) is None


def test_R23_a_429_without_retry_after_waits_for_the_reset_of_the_limit_named() -> None:
    """Reset headers say when the exhausted limit is full again."""
    limits = LimitSet([LimitSpec("requests", 100), tokens(6000)])
    limits.observe([Reading("requests", reset=360.0), Reading("total_tokens", reset=0.088)], 0.0)
    assert limits.throttled(frozenset({"requests"}), None, 0.0)
    assert blocked(limits, ticket(10), 0.0).until == 360.0


def test_a_long_retry_after_closes_the_longer_span() -> None:
    """Of a minute's and a day's limit of one kind, an hour's wait speaks of the day's."""
    limits = LimitSet([tokens(100), tokens(5000, per=86400.0)])
    limits.throttled(frozenset({"total_tokens"}), 3600.0, 0.0)
    assert blocked(limits, ticket(1), 0.0).limit == "total_tokens/day"


def test_a_smaller_limit_than_configured_is_believed() -> None:
    """The provider knows its limit; a larger one than configured is not used."""
    limits = LimitSet([tokens(1000)])
    limits.observe([Reading("total_tokens", limit=500)], 0.0)
    assert limits.too_large(ticket(501)) is not None
    limits.observe([Reading("total_tokens", limit=9000)], 0.0)
    assert limits.too_large(ticket(501)) is not None


def test_what_the_provider_misses_was_used_by_others() -> None:
    """Room is at most what the provider says remains, and comes back at the limit's rate."""
    limits = LimitSet([tokens(6000)])
    spend(limits, ticket(1000), 0.0)
    limits.observe([Reading("total_tokens", limit=6000, remaining=2000)], 1.0)
    assert limits.check(ticket(2000), 1.0) is None
    assert limits.check(ticket(2010), 1.0) is not None
    assert limits.check(ticket(4900), 61.0) is None


def test_a_provider_that_serves_only_us_never_looks_shared() -> None:
    """Readings that count less than we hold, or the same, take no room away."""
    limits = LimitSet([tokens(6000)])
    limits.reserve(ticket(1000), 0.0)
    for remaining in (6000, 5500, 5000):
        limits.observe([Reading("total_tokens", limit=6000, remaining=remaining)], 1.0)
        assert limits.check(ticket(5000), 1.0) is None


def test_a_shared_limit_is_shared() -> None:
    """With somebody else using 40 % of a key, we use most of the rest, and refusals stay rare."""
    limit, rng = 60_000, random.Random(4)
    limits = LimitSet([tokens(limit, burst_seconds=10.0)])
    log: list[tuple[float, int, bool]] = []
    now = theirs = 0.0
    refused = sent = 0
    while now < 600.0:
        while theirs <= now:
            log.append((theirs, 400, False))
            theirs += 1.0
        log = [entry for entry in log if entry[0] > now - 60.0]
        call = ticket(rng.randint(50, 600))
        answer = limits.check(call, now)
        if answer is not None:
            now = min(answer.until, theirs)
            continue
        lease = limits.reserve(call, now)
        lease.written(now)
        total = sum(amount for _, amount, _ in log)
        sent += 1
        if total + call.input > limit:
            refused += 1
            lease.settle(input=None, output=None, now=now, worked=False)
            limits.throttled(frozenset({"total_tokens"}), 1.0, now)
            continue
        log.append((now, int(call.input), True))
        lease.headers(now)
        limits.observe([Reading("total_tokens", limit, limit - total - call.input)], now)
        lease.settle(input=call.input, output=0, now=now)
    ours = sum(amount for at, amount, own in log if own)
    assert ours >= 0.9 * (limit - 400 * 60)
    assert refused <= 0.02 * sent


def test_room_beside_a_stranger_is_looked_for_ahead() -> None:
    """Others on the key go on while a call is on its way, so a second's worth of their rate is left to them."""
    foreign = Foreign(60.0)
    assert foreign.ahead(10.0) == foreign.amount(10.0) == 0.0
    for second in range(60):
        foreign.read(100.0 * second, float(second))
    assert foreign.rate > 50.0
    assert foreign.ahead(60.0) == pytest.approx(foreign.amount(60.0) + foreign.rate)
    assert foreign.ahead(500.0) == 0.0


# Living


def test_reconfiguring_keeps_the_log_of_limits_that_remain() -> None:
    """What was used counts against the new amount, and live calls settle into the limits they hold."""
    limits = LimitSet([tokens(1000), LimitSpec("requests", 5)], InFlightSpec(calls=1))
    spend(limits, ticket(600), 0.0)
    live = limits.reserve(ticket(100, output=100), 0.0)
    limits.reconfigure([LimitSpec("input_tokens", 50), tokens(900)], InFlightSpec(calls=2), 1.0)
    assert limits.check(ticket(50), 1.0) is None
    assert limits.check(ticket(50, output=51), 1.0) is not None
    live.settle(input=100, output=10, now=2.0)
    assert limits.used(2.0) == {"input_tokens/min": 0.0, "total_tokens/min": pytest.approx(710 / 900)}
    assert limits.in_flight_calls == 0


def test_amount_of_is_what_the_call_takes_in_the_end() -> None:
    """The owner compares sizes in the unit of the limit that is short."""
    limits = LimitSet([LimitSpec("output_tokens", 100, counted="as_produced", burst_seconds=1.0)])
    while (answer := limits.check(ticket(0, output=20, bound=40), 0.0)) is None:
        limits.reserve(ticket(0, output=20, bound=40), 0.0)
    assert answer.amount == 20
    assert limits.amount_of(ticket(0, output=7, bound=40), answer.window) == 7
    assert limits.owns(answer.window)
    assert not LimitSet([tokens(1)]).owns(answer.window)


def test_sustained_looking_does_not_walk_the_log_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing changes, the time of the next look is remembered."""
    limits = LimitSet([tokens(60_000)])
    for step in range(600):
        spend(limits, ticket(100), step / 10)
    answer = blocked(limits, ticket(30_000), 59.95)
    monkeypatch.delattr(Window, "_room_at")
    assert blocked(limits, ticket(30_000), 59.96).until == answer.until
