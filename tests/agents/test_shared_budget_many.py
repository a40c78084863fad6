"""Hundreds of workers on shared budgets at once, held to books that are kept apart from the budgets themselves."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from agents.amounts import NOTHING, Amounts, Limits
from agents.budget import Blocked, Exhausted, Reservation, Scope
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.messages import ModelReply, ModelRequest, Usage
from agents.money import Price, PriceList
from agents.reserve import when_room
from agents.result import RunResult
from agents.scripted import ask_all
from agents.size import input_bound
from agents.spec import AgentSpec
from agents.tools import tool

FIELDS = ("tool_calls", "tokens", "micro_dollars")
"""What is counted here: all amounts but rounds."""


class Books:
    """What is spent and held of each scope, counted apart from it; every entry is held to every limit."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self.scopes = scopes
        self.spent: dict[Scope, Counter[str]] = {scope: Counter() for scope in scopes}
        self.held: dict[Scope, Counter[str]] = {scope: Counter() for scope in scopes}

    def enter(self, scope: Scope, *, spent: Amounts = NOTHING, held: Amounts = NOTHING) -> None:
        for node in scope.path():
            for field in FIELDS:
                self.spent[node][field] += getattr(spent, field)
                self.held[node][field] += getattr(held, field)
                allowed = getattr(node.limits, field)
                assert allowed is None or self.spent[node][field] + self.held[node][field] <= allowed, "overshot"

    def outermost_exhausted(self, scope: Scope, need: Amounts, *, with_held: bool) -> tuple[str, str] | None:
        """The scope, from the root on, and the limit that the need does not fit into."""
        for node in scope.path():
            for field in FIELDS:
                allowed, needed = getattr(node.limits, field), getattr(need, field)
                spent = self.spent[node][field] + (self.held[node][field] if with_held else 0)
                if allowed is not None and needed and spent + needed > allowed:
                    return node.name, field
        return None

    def assert_balanced(self) -> None:
        for scope in self.scopes:
            assert (scope.reserved, scope.waiting) == (NOTHING, 0)
            assert not +self.held[scope]
            for field in FIELDS:
                assert getattr(scope.used + scope.unknown, field) == self.spent[scope][field]


PATIENCE = 100_000
"""Virtual seconds after which somebody has been forgotten."""

limits = st.builds(
    Limits,
    tool_calls=st.none() | st.integers(0, 400),
    tokens=st.none() | st.integers(1, 40_000),
    micro_dollars=st.none() | st.integers(0, 20_000),
)


# not shrunk: another seed is another world
@settings(max_examples=25, phases=[Phase.reuse, Phase.generate])
@given(tenant=limits, jobs=st.lists(limits, min_size=1, max_size=4), workers=st.integers(100, 300), seed=st.integers())
def test_hundreds_of_workers_reserve_at_once_and_overshoot_by_nothing(
    tenant: Limits, jobs: list[Limits], workers: int, seed: int
) -> None:
    """Whatever the limits: no scope is overshot, the outermost exhausted one is named, and what is unspent returns."""
    root = Scope("tenant", tenant)
    middle = [root.child(f"job {number}", own) for number, own in enumerate(jobs)]
    rng = random.Random(seed)
    runs = [rng.choice(middle).child(f"run {number}", run_limits(rng)) for number in range(workers)]
    books = Books([root, *middle, *runs])

    async def main() -> None:
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for run in runs:
                    nursery.start_soon(worker, run, books, random.Random(rng.random()))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    books.assert_balanced()


def run_limits(rng: random.Random) -> Limits:
    return Limits(tokens=rng.choice([None, 1_000]), tool_calls=rng.choice([None, 3]))


async def worker(scope: Scope, books: Books, rng: random.Random) -> None:
    """Model calls and tool calls by turns until a limit stops it; one in five is taken away in the middle."""
    with trio.move_on_after(rng.uniform(0, 20) if rng.random() < 0.2 else math.inf):
        for _ in range(8):
            granted = await take(scope, books, some(rng, Amounts(tool_calls=1, tokens=900, micro_dollars=400)))
            if granted is None:
                return
            try:
                await trio.sleep(rng.uniform(0, 3))
            finally:
                settle(scope, books, granted, rng)
            if not call_tool(scope, books, Amounts(tool_calls=rng.randint(0, 2)), rng):
                return


def some(rng: random.Random, most: Amounts) -> Amounts:
    """A part of these amounts."""
    return Amounts(**{field: rng.randint(0, getattr(most, field)) for field in FIELDS})


async def take(scope: Scope, books: Books, need: Amounts) -> Reservation | None:
    """A reservation, once there is room for it; None where there never will be."""

    def decide() -> Reservation | Exhausted | Blocked:
        granted = scope.reserve(need)
        stopped_by = books.outermost_exhausted(scope, need, with_held=False)
        if isinstance(granted, Exhausted):
            assert (granted.scope, granted.limit) == stopped_by
            return granted
        assert stopped_by is None
        in_the_way = books.outermost_exhausted(scope, need, with_held=True)
        assert (in_the_way is not None) == isinstance(granted, Blocked)
        if isinstance(granted, Reservation):
            books.enter(scope, held=need)
        return granted

    decided: Reservation | Exhausted = await when_room(decide)
    return decided if isinstance(decided, Reservation) else None


def settle(scope: Scope, books: Books, granted: Reservation, rng: random.Random) -> None:
    """A part of what was held was used, a part of the rest may have been, and what is left comes back."""
    used, unknown = NOTHING, NOTHING
    if rng.random() < 0.8:
        used = some(rng, granted.need)
    elif rng.random() < 0.5:
        unknown = granted.need
    granted.settle(used, unknown)
    books.enter(scope, spent=used + unknown, held=NOTHING - granted.need)


def call_tool(scope: Scope, books: Books, need: Amounts, rng: random.Random) -> bool:
    """Whether the budget allowed it; one in ten calls never begins after all."""
    stopped_by = books.outermost_exhausted(scope, need, with_held=True)
    exhausted = scope.spend(need)
    if exhausted is not None:
        assert (exhausted.scope, exhausted.limit) == stopped_by
        return False
    assert stopped_by is None
    books.enter(scope, spent=need)
    if rng.random() < 0.1:
        scope.give_back(need)
        books.enter(scope, spent=NOTHING - need)
    return True


PRICE = Price(input=3_000_000, output=15_000_000)
RUNS = 200


class Provider:
    """A model that bills what it likes below the bound of each request, after a while, and always asks for tools."""

    def __init__(self, rng: random.Random, look: Callable[[], None]) -> None:
        self._rng = rng
        self._look = look
        self.tokens = self.micro_dollars = 0

    async def call(self, request: ModelRequest, **_: Any) -> ModelReply:
        self._look()
        await trio.sleep(self._rng.uniform(0.1, 5))
        assert request.max_tokens is not None
        usage = Usage(input=self._rng.randint(1, input_bound(request)), output=self._rng.randint(1, request.max_tokens))
        self.tokens += usage.total or 0
        self.micro_dollars += PRICE.cost(usage) or 0
        return ModelReply(ask_all(("look", {}), ("look", {})), "tool_calls", usage, model=request.model)


@pytest.mark.parametrize(
    ("tenant", "job", "scope", "limit"),
    [
        (Limits(tokens=250_000), Limits(), "tenant", "tokens"),
        (Limits(tokens=900_000_000), Limits(tokens=250_000), "job", "tokens"),
        (Limits(tokens=250_000), Limits(tokens=250_000), "tenant", "tokens"),
        (Limits(), Limits(micro_dollars=1_500_000), "job", "micro_dollars"),
        (Limits(micro_dollars=1_500_000), Limits(tokens=900_000_000, tool_calls=100_000), "tenant", "micro_dollars"),
        (Limits(tokens=900_000_000), Limits(tool_calls=1_000), "job", "tool_calls"),
        (Limits(tool_calls=1_000), Limits(tool_calls=1_000), "tenant", "tool_calls"),
    ],
)
async def test_hundreds_of_agents_spend_one_budget_to_its_end(
    tenant: Limits, job: Limits, scope: str, limit: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Real runs bill no token, money or tool call too much, all stop by the outermost exhausted scope, near its end."""
    outer = Scope("tenant", tenant)
    inner = outer.child("job", job)
    ran = 0

    @tool(read_only=True)
    async def look() -> str:
        """Looks at something."""
        nonlocal ran
        ran += 1
        await trio.sleep(1)
        return "nothing"

    def within() -> None:
        for node in (outer, inner):
            for field in FIELDS:
                allowed = getattr(node.limits, field)
                assert allowed is None or getattr(node.used + node.reserved + node.unknown, field) <= allowed

    agent = AgentSpec(name="looker", model="m", tools=(look,), max_tokens=500)
    provider = Provider(random.Random(11), within)
    results: list[RunResult] = []

    async def run() -> None:
        results.append(
            await run_agent(
                agent,
                "Look around.",
                model=provider,
                journal=MemoryJournal(),
                budget=inner,
                prices=PriceList({"m": PRICE}),
            )
        )

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for _ in range(RUNS):
                nursery.start_soon(run)

    spent = {"tokens": provider.tokens, "micro_dollars": provider.micro_dollars, "tool_calls": ran}
    named = outer if scope == "tenant" else inner
    allowed = getattr(named.limits, limit)
    assert {(result.scope, result.limit) for result in results} == {(scope, limit)}
    assert 0.97 * allowed < spent[limit] <= allowed
    for node in (outer, inner):
        assert (node.reserved, node.unknown, node.waiting) == (NOTHING, NOTHING, 0)
        assert {field: getattr(node.used, field) for field in FIELDS} == spent
