"""Integer money, and the bound of a request's input."""

import datetime
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from agents.messages import Message, ModelRequest, ToolCall, ToolSpec, Usage
from agents.money import MILLION, Price, PriceList
from agents.size import input_bound
from orchestrator.prices import PriceEntry, PriceTable

prices = st.builds(
    Price,
    input=st.integers(0, 10**8),
    output=st.integers(0, 10**8),
    cached=st.none() | st.integers(0, 10**8),
    cache_write=st.none() | st.integers(0, 10**8),
)
counts = st.integers(0, 10**6)


@given(prices, counts, counts, counts, counts)
def test_cost_is_exact_rounded_up_and_below_its_bound(
    price: Price, fresh: int, cached: int, written: int, output: int
) -> None:
    """A call costs the exact sum, rounded up to a micro-dollar, and never more than what was reserved for its size."""
    cost = price.cost(Usage(fresh, cached, written, output))
    exact = Fraction(
        fresh * price.input
        + cached * (price.input if price.cached is None else price.cached)
        + written * (price.input if price.cache_write is None else price.cache_write)
        + output * price.output,
        MILLION,
    )
    assert cost is not None
    assert exact <= cost < exact + 1
    assert cost <= price.bound(fresh + cached + written, output)


@given(prices, counts, st.integers(0, 10**9), st.integers(1, 10**5))
def test_affordable_output_is_the_most_that_fits(price: Price, tokens: int, money: int, most: int) -> None:
    """That many output tokens fit into the amount, and one more would not."""
    output = price.affordable_output(tokens, money, most)
    if output >= 0:
        assert price.bound(tokens, output) <= money
    if output < most:
        assert price.bound(tokens, output + 1) > money


def test_unknown_usage_has_no_cost() -> None:
    """What the provider did not report is unknown and never 0."""
    assert Price(1, 1).cost(Usage(input=5)) is None
    assert Price(1, 1).cost(Usage(output=5)) is None
    assert PriceList().price("m") is None


@given(st.text(), st.text(), st.text(alphabet='"\\\u2028é🙂'))
def test_the_input_bound_is_at_least_the_bytes(system: str, task: str, arguments: str) -> None:
    """A byte-level tokenizer makes at most one token of a byte, so the bound covers every byte of the request."""
    call = ToolCall("id", "look", arguments)
    request = ModelRequest(
        "m",
        (Message("system", system), Message("user", task, reasoning=task), Message("assistant", tool_calls=(call,))),
        tools=(ToolSpec("look", task, {"type": "object"}),),
        response_format={"type": "json_object"},
    )
    texts = (system, task, task, task, arguments)
    assert input_bound(request) >= sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _entry(**fields: object) -> PriceEntry:
    row = {"model": "m", "since": "2026-01-01", "source": "https://example.com", "input": "2.5", "output": "10"}
    return msgspec.convert(row | fields, PriceEntry, strict=False)


def test_the_newest_price_that_holds_on_the_day_counts() -> None:
    """A table knows which price held when, and none before the first."""
    entries = [_entry(), _entry(since="2026-06-01", input="2"), _entry(since="2027-01-01", input="1")]
    price = PriceTable(entries, datetime.date(2026, 7, 1)).price("m")
    assert price == Price(input=2_000_000, output=10_000_000)
    assert PriceTable(entries, datetime.date(2025, 7, 1)).price("m") is None
    assert len(PriceTable([], datetime.date(2026, 1, 1))) == 0


@pytest.mark.parametrize("price", ["-1", "0.0000001", "NaN", "Infinity"])
def test_a_nonsense_price_is_refused_by_field(price: str) -> None:
    """Negative, fractional below a micro-dollar, or not a number."""
    with pytest.raises(InvalidLimits, match="output"):
        _entry(output=price)
    with pytest.raises(InvalidLimits, match="input"):
        Price(input=-1, output=0)
    assert _entry(output="0.15").price().output == 150_000
    assert isinstance(_entry().input, Decimal)
