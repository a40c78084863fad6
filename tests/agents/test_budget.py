"""The budget tree: never overshoot, nothing lost, the outermost limit names the reason."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.amounts import NOTHING, Amounts, Limits
from agents.budget import Blocked, Exhausted, Reservation, Scope
from agents.errors import InvalidLimits
from agents.lifecycle import StopReason
from agents.model_need import ModelNeed, model_amounts, model_need
from agents.money import Price

amounts = st.builds(
    Amounts,
    rounds=st.integers(0, 2),
    tool_calls=st.integers(0, 3),
    tokens=st.integers(0, 50),
    micro_dollars=st.integers(0, 50),
)
limits = st.builds(
    Limits,
    rounds=st.none() | st.integers(1, 10),
    tool_calls=st.none() | st.integers(0, 10),
    tokens=st.none() | st.integers(1, 200),
    micro_dollars=st.none() | st.integers(0, 200),
)


@st.composite
def trees(draw: st.DrawFn) -> list[Scope]:
    """Scopes in which each one's parent is an earlier one."""
    scopes = [Scope("root", draw(limits))]
    for number in range(draw(st.integers(0, 6))):
        scopes.append(draw(st.sampled_from(scopes)).child(f"scope {number}", draw(limits)))
    return scopes


def fields(value: Amounts) -> dict[str, int]:
    return {field: getattr(value, field) for field in Amounts.__struct_fields__}


def part(draw: st.DrawFn, whole: Amounts) -> Amounts:
    return Amounts(**{field: draw(st.integers(0, most)) for field, most in fields(whole).items()})


class AnyOrder(RuleBasedStateMachine):
    """Random trees, random orders of reserving, settling, spending and giving back."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[Scope] = []
        self.held: list[tuple[Scope, Reservation]] = []
        self.spent: list[tuple[Scope, Amounts]] = []
        self.counted: dict[Scope, Amounts] = {}

    @initialize(scopes=trees())
    def plant(self, scopes: list[Scope]) -> None:
        self.scopes = scopes
        self.counted = dict.fromkeys(scopes, NOTHING)

    def count(self, scope: Scope, amounts: Amounts) -> None:
        for node in scope.path():
            self.counted[node] += amounts

    @rule(data=st.data(), need=amounts)
    def reserve(self, data: st.DataObject, need: Amounts) -> None:
        scope = data.draw(st.sampled_from(self.scopes))
        before = [(node.used, node.reserved, node.unknown) for node in self.scopes]
        granted = scope.reserve(need)
        if isinstance(granted, Reservation):
            self.held.append((scope, granted))
        else:
            assert before == [(node.used, node.reserved, node.unknown) for node in self.scopes], "all or nothing"

    @rule(data=st.data(), need=amounts)
    def spend(self, data: st.DataObject, need: Amounts) -> None:
        scope = data.draw(st.sampled_from(self.scopes))
        if scope.spend(need) is None:
            self.spent.append((scope, need))
            self.count(scope, need)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        scope, reservation = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        used = part(data.draw, reservation.need)
        unknown = part(data.draw, reservation.need - used)
        reservation.settle(used, unknown)
        reservation.settle(reservation.need)  # a second end changes nothing
        self.count(scope, used + unknown)

    @precondition(lambda self: self.spent)
    @rule()
    def give_back(self) -> None:
        scope, need = self.spent.pop()
        scope.give_back(need)
        self.count(scope, NOTHING - need)

    @invariant()
    def no_scope_overshoots(self) -> None:
        for node in self.scopes:
            for field, amount in fields(node.used + node.reserved + node.unknown).items():
                allowed = getattr(node.limits, field)
                assert allowed is None or amount <= allowed

    def teardown(self) -> None:
        for _, reservation in self.held:
            reservation.release()
        for node in self.scopes:
            assert node.reserved == NOTHING
            assert node.used + node.unknown == self.counted[node]


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.__doc__ = "No scope ever holds more than its limits, and what was reserved is settled or comes back."
TestAnyOrder.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@settings(max_examples=60)
@given(trees(), st.data())
def test_a_refusal_says_whether_waiting_helps(scopes: list[Scope], data: st.DataObject) -> None:
    """Exhausted exactly where the need would not fit even if every reservation came back; else blocked."""
    for _ in range(data.draw(st.integers(1, 15))):
        scope, need = data.draw(st.sampled_from(scopes)), data.draw(amounts)
        hopeless = [
            (node.name, field)
            for node in scope.path()
            for field, amount in fields(need).items()
            if amount
            and getattr(node.limits, field) is not None
            and getattr(node.used, field) + getattr(node.unknown, field) + amount > getattr(node.limits, field)
        ]
        granted = scope.reserve(need)
        if hopeless:
            assert isinstance(granted, Exhausted)
            assert (granted.scope, granted.limit) == hopeless[0], "the outermost scope names the reason"
        else:
            assert isinstance(granted, Reservation | Blocked)
        if isinstance(granted, Reservation) and data.draw(st.booleans()):
            granted.settle(part(data.draw, need))


def test_unknown_use_stays_held_and_is_shown_apart() -> None:
    """What the provider did not report is neither used nor given back."""
    scope = Scope("job", Limits(tokens=100))
    run = scope.child("run")
    first = run.reserve(Amounts(tokens=60))
    assert isinstance(first, Reservation)
    first.settle(Amounts(tokens=10), unknown=Amounts(tokens=50))
    assert (scope.used.tokens, scope.unknown.tokens, scope.reserved.tokens) == (10, 50, 0)
    refused = run.reserve(Amounts(tokens=41))
    assert isinstance(refused, Exhausted)
    assert (refused.scope, refused.observed, refused.reason) == ("job", 60, StopReason.TOKEN_BUDGET_EXCEEDED)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rounds", 0),
        ("rounds", -1),
        ("rounds", 1.5),
        ("rounds", True),
        ("tool_calls", -1),
        ("tool_calls", math.nan),
        ("tokens", 0),
        ("tokens", math.inf),
        ("micro_dollars", -1),
        ("micro_dollars", 0.5),
        ("timeout", 0),
        ("timeout", -1.0),
        ("timeout", math.nan),
        ("timeout", math.inf),
        ("timeout", True),
        ("timeout", "1"),
    ],
)
def test_nonsense_limits_are_refused_by_field(field: str, value: Any) -> None:
    """A limit that makes no sense is refused when it is written down, and the field is named."""
    with pytest.raises(InvalidLimits) as caught:
        Limits(**{field: value})
    assert caught.value.field == field
    assert field in str(caught.value)


def test_nothing_at_all_is_a_legal_amount_of_tools_and_money() -> None:
    """0 tool calls and 0 dollars make sense: an agent that only talks, to a free model."""
    scope = Scope("run", Limits(tool_calls=0, micro_dollars=0, rounds=1, tokens=1, timeout=0.001))
    assert isinstance(scope.reserve(Amounts(tool_calls=1)), Exhausted)
    assert isinstance(scope.reserve(Amounts(rounds=1, tokens=1)), Reservation)


@settings(max_examples=60)
@given(
    trees(),
    st.integers(0, 100),
    st.integers(1, 100),
    st.integers(1, 20),
    st.none() | st.builds(Price, input=st.integers(0, 10**6), output=st.integers(0, 10**6)),
)
def test_a_model_call_shrinks_to_what_is_left_or_stops(
    scopes: list[Scope], tokens: int, asked: int, floor: int, price: Price | None
) -> None:
    """An output at or above the floor that fits, and is the most that fits; or the limit that leaves less."""
    scope = scopes[-1]
    need = model_need(scope, tokens, asked, floor, price)
    if isinstance(need, Exhausted):
        least = model_amounts(tokens, min(asked, floor), price)
        assert scope.check(least) == need
        return
    assert isinstance(need, ModelNeed)
    assert scope.check(need.amounts) is None
    assert min(asked, floor) <= need.max_tokens <= asked
    assert (need.shrunk_by is None) == (need.max_tokens == asked)
    if need.max_tokens < asked:
        assert isinstance(scope.check(model_amounts(tokens, need.max_tokens + 1, price)), Exhausted)


def test_timeouts_count_from_the_first_running_of_each_scope() -> None:
    """A job's clock starts with its first run and a later run does not wind it back; the outermost names the reason."""
    job = Scope("job", Limits(timeout=10))
    first, second = job.child("run", Limits(timeout=6)), job.child("run", Limits(timeout=6))
    assert first.deadline() == math.inf
    first.start(100.0)
    second.start(105.0)
    first.start(999.0)
    assert (first.deadline(), second.deadline()) == (106.0, 110.0)
    assert first.timed_out(105.9) is None
    late = second.timed_out(111.0)
    assert late is not None
    assert (late.scope, late.allowed, late.observed) == ("job", 10, 11.0)
