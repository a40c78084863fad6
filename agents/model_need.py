"""What a model call reserves: an upper bound, with its output shrunk to what the budget has left.

The input's bound is fixed by the request. The output's is what the request allows, `max_tokens`, and that can be
lowered: a budget that has room for a shorter answer is not spent yet. Below a floor an answer is not worth asking for.
"""

from collections.abc import Iterator

from msgspec import Struct

from agents.amounts import NOTHING, Amounts
from agents.budget import Exhausted, Scope
from agents.errors import InvalidLimits
from agents.messages import Usage
from agents.money import Price, Prices


def price_within(scope: Scope, model: str, prices: Prices) -> Price | None:
    """The model's price, None for none. Raises `InvalidLimits` where the scope limits money and there is none."""
    price = prices.price(model)
    if price is None and scope.limited("micro_dollars"):
        raise InvalidLimits("micro_dollars", f"money cannot be limited, since model {model!r} has no price")
    return price


class ModelNeed(Struct, frozen=True):
    """What a model call reserves. `shrunk_by` is the limit that left it fewer output tokens than it asked for."""

    amounts: Amounts
    max_tokens: int
    shrunk_by: Exhausted | None = None


def model_need(scope: Scope, input_tokens: int, asked: int, floor: int, price: Price | None) -> ModelNeed | Exhausted:
    """The upper bound that a model call reserves, its output shrunk to what the budget has left.

    `input_tokens` is an upper bound, `asked` the wanted `max_tokens`. Where a limit leaves fewer than `floor` output
    tokens (or than `asked`, if that is less), that limit is exhausted; the outermost names the reason.
    """
    output, shrunk_by = asked, None
    least = min(floor, asked)
    for node in scope.path():
        rounds = node.exhausted(Amounts(rounds=1))
        if rounds is not None:
            return rounds
        for limit, spent, affordable in _affordable_output(node, input_tokens, asked, price):
            if affordable < output:
                needed = model_amounts(input_tokens, max(least, affordable + 1), price)
                allowed = getattr(node.limits, limit)
                shrunk_by = Exhausted(node.name, limit, allowed, spent, getattr(needed, limit))
                output = affordable
            if output < least:
                assert shrunk_by is not None
                return shrunk_by
    return ModelNeed(model_amounts(input_tokens, output, price), output, shrunk_by)


def model_amounts(input_tokens: int, output_tokens: int, price: Price | None) -> Amounts:
    """The upper bound of one model call of this size."""
    cost = 0 if price is None else price.bound(input_tokens, output_tokens)
    return Amounts(rounds=1, tokens=input_tokens + output_tokens, micro_dollars=cost)


def settlement(held: Amounts, usage: Usage, price: Price | None, *, worked: bool) -> tuple[Amounts, Amounts]:
    """What a call that held `held` certainly used, and what stays held because the provider did not say.

    `worked` is False where the provider certainly did no work.
    """
    if not worked and usage == Usage():
        return NOTHING, NOTHING
    cost = None if price is None else price.cost(usage)
    if usage.total is not None:
        tokens, unknown_tokens = usage.total, 0
    else:
        tokens = (usage.all_input or 0) + (usage.output or 0)
        unknown_tokens = max(0, held.tokens - tokens)
    used = Amounts(tokens=tokens, micro_dollars=cost or 0)
    return used, Amounts(tokens=unknown_tokens, micro_dollars=held.micro_dollars if cost is None else 0)


def _affordable_output(
    node: Scope, input_tokens: int, asked: int, price: Price | None
) -> Iterator[tuple[str, int, int]]:
    """Per limit of one scope: its name, what is spent of it, and how many output tokens it leaves."""
    if node.limits.tokens is not None:
        spent = node.used.tokens + node.unknown.tokens
        yield "tokens", spent, node.limits.tokens - spent - input_tokens
    if node.limits.micro_dollars is not None and price is not None:
        spent = node.used.micro_dollars + node.unknown.micro_dollars
        yield "micro_dollars", spent, price.affordable_output(input_tokens, node.limits.micro_dollars - spent, asked)
