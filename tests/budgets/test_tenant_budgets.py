"""What tenants may spend: periods, bounds, and no overshoot whatever runs at the same time."""

import random
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from agents.amounts import Amounts, Limits
from agents.budget import Exhausted, Reservation
from agents.errors import BudgetExceeded, InvalidLimits
from agents.messages import Usage
from agents.money import Price, PriceList
from orchestrator.budgets import LEAST_ANSWER, HeldCall, Per, Spent, TenantBudget, TenantBudgets, period_of
from orchestrator.store.ledger_port import SpentRow

Clock = trio.testing.MockClock
PRICES = PriceList({"priced": Price(input=1_000_000, output=2_000_000)})
NOON = datetime(2026, 2, 28, 12, tzinfo=UTC).timestamp()
MIDNIGHT = NOON + 12 * 3600


class World:
    """Budgets on a wall clock that a test sets."""

    def __init__(
        self,
        budgets: Mapping[str, TenantBudget],
        spent: tuple[SpentRow, ...] = (),
        longest: int = 1000,
    ) -> None:
        self.wall = NOON
        self.budgets = TenantBudgets(
            budgets,
            prices=lambda: PRICES,
            wall=lambda: self.wall,
            longest=lambda model: longest,
            spent=spent,
        )

    async def reserve(self, tokens: int = 10, max_tokens: int | None = 10, model: str = "priced") -> HeldCall:
        held = await self.budgets.reserve_call("acme", model, input_tokens=tokens, max_tokens=max_tokens)
        assert held is not None
        return held

    def spent(self) -> Spent:
        (record,) = self.budgets.spent()
        return record


def tokens(amount: int, per: Per = "ever") -> dict[str, TenantBudget]:
    return {"acme": TenantBudget(tokens=amount, per=per)}


def usage(total: int) -> Usage:
    return Usage(input=total, output=0)


@pytest.mark.parametrize(
    ("per", "when", "name", "renews"),
    [
        ("ever", "2026-02-28T12:00", "ever", None),
        ("day", "2026-02-28T23:59", "2026-02-28", "2026-03-01T00:00"),
        ("day", "2026-03-01T00:00", "2026-03-01", "2026-03-02T00:00"),
        ("month", "2026-02-28T23:59", "2026-02", "2026-03-01T00:00"),
        ("month", "2026-12-31T23:59", "2026-12", "2027-01-01T00:00"),
        ("month", "2026-01-01T00:00", "2026-01", "2026-02-01T00:00"),
    ],
)
def test_periods_begin_at_midnight_utc(per: Per, when: str, name: str, renews: str | None) -> None:
    """A day and a month are those of UTC, and each says when the next begins."""
    at = datetime.fromisoformat(f"{when}+00:00").timestamp()
    end = None if renews is None else datetime.fromisoformat(f"{renews}+00:00").timestamp()
    assert period_of(per, at) == (name, end)


async def test_who_has_no_budget_reserves_nothing() -> None:
    """Another tenant's budget, and one that limits nothing, hold nobody back."""
    budgets = World(tokens(1)).budgets
    assert await budgets.reserve_call("web", "priced", input_tokens=10**9, max_tokens=None) is None
    assert budgets.scope("web") is None


async def test_a_call_beyond_the_budget_is_refused_before_it_is_sent() -> None:
    """The error says what is allowed, spent and needed, and when it would be of use to come again."""
    world = World(tokens(100, "day"))
    (await world.reserve(40, 40)).settle(usage(70))
    with pytest.raises(BudgetExceeded) as refused:
        await world.reserve(20, 20)
    assert refused.value.status == 429
    assert refused.value.renews == MIDNIGHT
    assert refused.value.message == (
        "the budget is spent until 2026-03-01 00:00 UTC: tenant acme allows 100 tokens: 70 spent, 40 needed"
    )
    with pytest.raises(BudgetExceeded) as for_good:
        await World(tokens(1)).reserve()
    assert for_good.value.renews is None


async def test_a_settlement_gives_back_what_was_not_used() -> None:
    """Reported usage counts and the rest is free again; nothing reported stays held; no work done is nothing used."""
    world = World({"acme": TenantBudget(tokens=100, micro_dollars=100)})
    (await world.reserve(20, 20)).settle(Usage(input=5, output=1))
    assert world.spent() == Spent(tenant="acme", period="ever", tokens=6, micro_dollars=7)
    (await world.reserve(20, 20)).settle(None, worked=False)
    assert world.spent() == Spent(tenant="acme", period="ever", tokens=6, micro_dollars=7)
    held = await world.reserve(10, 20)
    for _ in range(2):
        held.settle(None)
    left = world.spent()
    assert (left.unknown_tokens, left.unknown_micro_dollars) == (30, 50)
    assert (left.tokens, left.micro_dollars) == (6, 7)


async def test_money_on_a_model_without_a_price_is_refused_by_name() -> None:
    """Nobody can say what it costs, so it is not sent; a budget of tokens does not mind."""
    with pytest.raises(InvalidLimits, match="model 'free' has no price"):
        await World({"acme": TenantBudget(micro_dollars=100)}).reserve(model="free")
    (await World(tokens(100)).reserve(model="free")).settle(usage(20))


async def test_an_answer_without_a_bound_gets_the_models_or_what_is_left() -> None:
    """Unsaid, the model's maximum is reserved and sent; near the end what is left; then nothing."""
    world = World(tokens(1500), longest=1000)
    said = await world.reserve(10, 10)
    assert said.max_tokens is None
    said.settle(None, worked=False)
    first = await world.reserve(100, None)
    assert first.max_tokens == 1000
    first.settle(usage(900))
    second = await world.reserve(80, None)
    assert second.max_tokens == 520
    second.settle(usage(580))
    with pytest.raises(BudgetExceeded):
        await world.reserve(0, None)
    assert LEAST_ANSWER > 1500 - 900 - 580


async def test_choices_are_reserved_each() -> None:
    """A request for several answers can use as many times the output; unsaid, each gets its part of what is left."""
    world = World(tokens(1000), longest=1000)
    with pytest.raises(BudgetExceeded):
        await world.budgets.reserve_call("acme", "priced", input_tokens=100, max_tokens=400, choices=3)
    held = await world.budgets.reserve_call("acme", "priced", input_tokens=100, max_tokens=None, choices=3)
    assert held is not None
    assert held.max_tokens == 300


async def test_a_call_waits_where_only_reservations_are_in_the_way(autojump_clock: Clock) -> None:
    """What others hold may come back: the call goes as soon as it does, and is not refused before."""
    world = World(tokens(100))
    first = await world.reserve(40, 40)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def settle_later() -> None:
            await trio.sleep(7)
            first.settle(usage(10))

        second = await world.reserve(40, 40)
        assert trio.current_time() >= 7
    second.settle(usage(80))
    assert world.spent().tokens == 90


async def test_a_call_that_leaves_while_it_waits_leaves_nothing(autojump_clock: Clock) -> None:
    """Cancelled in the queue for room it holds nothing, and the next one goes."""
    world = World(tokens(100))
    first = await world.reserve(40, 40)
    with trio.move_on_after(1):
        await world.reserve(40, 40)
    first.settle(None, worked=False)
    (await world.reserve(50, 50)).settle(usage(100))
    assert world.spent() == Spent(tenant="acme", period="ever", tokens=100, micro_dollars=100)


@pytest.mark.parametrize("seed", range(20))
async def test_hundreds_at_once_overshoot_by_nothing(seed: int, autojump_clock: Clock) -> None:
    """Three hundred calls of the gateway and runs, some reporting nothing, some leaving: the limit holds throughout."""
    chance = random.Random(seed)
    limits = TenantBudget(tokens=20_000, micro_dollars=25_000)
    world = World({"acme": limits}, longest=400)
    running = world.budgets.scope("acme")
    assert running is not None
    job = running.child("job", Limits(tokens=9_000))
    reported = Amounts()
    refused = went = 0

    def used_by(most_input: int, most_output: int) -> Usage:
        return Usage(input=chance.randint(0, most_input), output=chance.randint(0, most_output))

    def check() -> None:
        record = world.spent()
        assert record.tokens + record.unknown_tokens <= 20_000
        assert record.micro_dollars + record.unknown_micro_dollars <= 25_000

    async def program(size: int, bound: int | None) -> None:
        nonlocal reported, refused, went
        await trio.sleep(chance.random() * 20)
        with trio.move_on_after(chance.choice([5, 1000])):
            try:
                held = await world.reserve(size, bound)
            except BudgetExceeded:
                refused += 1
                return
            said: Usage | None = None
            try:
                check()
                went += 1
                await trio.sleep(chance.random() * 10)
                if chance.random() < 0.9:
                    said = used_by(size, bound or held.max_tokens or 0)
            finally:
                held.settle(said)
                price = PRICES.price("priced")
                assert price is not None
                if said is not None:
                    reported += Amounts(tokens=said.total or 0, micro_dollars=price.cost(said) or 0)
                check()

    async def worker() -> None:
        nonlocal reported, went
        await trio.sleep(chance.random() * 20)
        need = Amounts(rounds=1, tokens=150, micro_dollars=200)
        granted = job.reserve(need)
        if isinstance(granted, Reservation):
            went += 1
            check()
            await trio.sleep(chance.random() * 10)
            used = Amounts(tokens=chance.randint(0, 150), micro_dollars=chance.randint(0, 200))
            granted.settle(used)
            reported += used
            check()

    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            for _ in range(250):
                nursery.start_soon(program, chance.randint(1, 200), chance.choice([None, 0, 20, 300]))
            for _ in range(50):
                nursery.start_soon(worker)
    record = world.spent()
    assert (record.tokens, record.micro_dollars) == (reported.tokens, reported.micro_dollars)
    assert went > 50
    assert refused > 0
    assert running.reserved == Amounts()


@given(
    st.integers(1, 2000),
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300), st.floats(0, 1)), max_size=40),
)
def test_what_was_reported_never_exceeds_the_limit(limit: int, calls: list[tuple[int, int, float]]) -> None:
    """One after the other, whatever the sizes and whatever part of them is used."""

    async def main() -> None:
        world = World(tokens(limit))
        for size, bound, part in calls:
            try:
                held = await world.reserve(size, bound)
            except BudgetExceeded:
                continue
            held.settle(usage(int(part * (size + bound))))
            assert world.spent().tokens <= limit

    trio.run(main)


async def test_a_new_period_begins_afresh_and_the_old_one_is_settled_where_it_began() -> None:
    """What was held before midnight is settled in the old day and takes nothing of the new one."""
    world = World(tokens(100, "day"))
    old = await world.reserve(50, 50)
    world.wall = MIDNIGHT
    new = await world.reserve(50, 50)
    old.settle(usage(100))
    new.settle(usage(30))
    assert world.spent() == Spent(tenant="acme", period="2026-03-01", tokens=30, micro_dollars=30)


async def test_who_waits_in_a_period_that_ends_goes_in_the_next(autojump_clock: Clock) -> None:
    """Midnight is room for whoever waits, as soon as anybody looks."""
    world = World(tokens(100, "day"))
    await world.reserve(50, 50)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def midnight() -> None:
            await trio.sleep(5)
            world.wall = MIDNIGHT
            list(world.budgets.spent())

        with trio.fail_after(100):
            await world.reserve(50, 50)
        assert trio.current_time() >= 5


def test_work_below_a_tenant_follows_the_periods() -> None:
    """A job that lives through midnight spends of the new day from its next call on, and is not held to the old one."""
    world = World(tokens(100, "day"))
    scope = world.budgets.scope("acme")
    assert scope is not None
    job = scope.child("job")
    first = job.reserve(Amounts(tokens=100))
    assert isinstance(first, Reservation)
    first.settle(Amounts(tokens=100))
    refused = job.reserve(Amounts(tokens=1))
    assert isinstance(refused, Exhausted)
    assert refused.scope == "tenant acme"
    world.wall = MIDNIGHT
    second = job.reserve(Amounts(tokens=60))
    assert isinstance(second, Reservation)
    second.settle(Amounts(tokens=60))
    assert (job.used.tokens, world.spent().tokens) == (160, 60)


async def test_a_clock_set_back_gives_nothing_twice() -> None:
    """A day that has begun stays, so that yesterday's budget is not opened again beside it."""
    world = World(tokens(100, "day"))
    world.wall = MIDNIGHT
    (await world.reserve(50, 50)).settle(usage(100))
    world.wall = MIDNIGHT - 1
    with pytest.raises(BudgetExceeded):
        await world.reserve(1, 0)


async def test_what_earlier_daemons_spent_counts_in_its_own_period_only() -> None:
    """Used and unknown amounts of this day are spent; those of another day are forgotten."""
    today = SpentRow(tenant="acme", day="2026-02-28", tokens=60, unknown_tokens=30)
    with pytest.raises(BudgetExceeded, match="90 spent"):
        await World(tokens(100, "day"), (today,)).reserve(10, 10)
    yesterday = SpentRow(tenant="acme", day="2026-02-27", tokens=100)
    await World(tokens(100, "day"), (yesterday,)).reserve(50, 50)


async def test_a_budget_that_is_new_begins_with_what_the_ledger_says() -> None:
    """A reload that gives a tenant a budget, or another period, counts what it spent in that period before."""
    rows = [SpentRow(tenant="acme", day=f"2026-02-{day}", tokens=30) for day in (26, 27, 28)]
    world = World({})
    world.budgets.configure(tokens(100, "day"), rows)
    assert world.spent().tokens == 30
    (await world.reserve(20, 20)).settle(usage(40))
    today = SpentRow(tenant="acme", day="2026-02-28", tokens=70)
    world.budgets.configure(tokens(200, "month"), [*rows[:2], today])
    assert world.spent() == Spent(tenant="acme", period="2026-02", tokens=130)
    world.wall = MIDNIGHT
    assert world.spent() == Spent(tenant="acme", period="2026-03")


async def test_a_reload_changes_limits_and_forgets_no_spending(autojump_clock: Clock) -> None:
    """Raised, those who wait go; lowered, calls are refused; taken away and given back, spending still counts."""
    world = World(tokens(100, "day"))
    (await world.reserve(30, 30)).settle(usage(60))
    await world.reserve(20, 20)
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def raise_it() -> None:
            await trio.sleep(3)
            world.budgets.configure(tokens(200, "day"))

        with trio.fail_after(100):
            held = await world.reserve(20, 20)
        held.settle(usage(0))
    world.budgets.configure(tokens(50, "day"))
    with pytest.raises(BudgetExceeded):
        await world.reserve(0, 1)
    world.budgets.configure({})
    assert world.budgets.scope("acme") is None
    assert world.spent().tokens == 60
    world.budgets.configure(tokens(101, "day"))
    with pytest.raises(BudgetExceeded, match="100 spent"):  # what a call still held was unknown when it was taken away
        await world.reserve(1, 1)


def test_what_calls_hold_is_kept_as_unknown() -> None:
    """Were the daemon killed now, what its calls under way may have cost would still count."""

    async def main() -> None:
        world = World(tokens(100))
        await world.reserve(20, 20)
        assert world.spent() == Spent(tenant="acme", period="ever", unknown_tokens=40, unknown_micro_dollars=60)

    trio.run(main)
