"""Log probabilities of the simulated model: made up, but the same for the same token, and sorted as real ones are."""

import math
from collections.abc import Iterable
from random import Random
from typing import Any

_OTHERS = (" the", " a", " of", " and", " in", " to", " is", " it", ".", ",")


def logprobs(tokens: Iterable[str], top: int) -> list[dict[str, Any]]:
    """What OpenAI's dialects say of each token, with the `top` likeliest in its place, itself among them."""
    return [_entry(token, top) for token in tokens]


def _entry(token: str, top: int) -> dict[str, Any]:
    rng = Random(b"logprob/" + token.encode("utf-8", "surrogatepass"))
    likely = 0.5 + 0.5 * rng.random()
    entry = _row(token, likely)
    left = 1.0 - likely
    rivals = []
    for place in range(top - 1):
        left /= 2
        other = _OTHERS[place] if place < len(_OTHERS) else f" {place}"
        rivals.append(_row(other if other != token else f"{other} ", left))
    entry["top_logprobs"] = [_row(token, likely), *rivals] if top else []
    return entry


def _row(token: str, probability: float) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": math.log(max(probability, 1e-12)),
        "bytes": list(token.encode("utf-8", "replace")),
    }
