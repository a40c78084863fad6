"""A tenant's own limits as headers, in the form of the provider whose dialect the client speaks.

- OpenAI: `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`; `reset` is a duration: `88ms`, `1s`, `6m0s`.
- Anthropic: `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}`; `reset` is a
  time: `2026-01-02T03:04:05Z`.

What the numbers are about is said in `orchestrator.policy.allowance`. OpenAI's form has one sort of tokens, so there a
limit on input or output tokens stands for `tokens` where there is none on both together.

Sources: OpenAI platform documentation, "Rate limits in headers"; Claude documentation, "Rate limits: response headers".
"""

import math
import time
from collections.abc import Iterator, Mapping
from typing import Final

from agents.messages import Dialect
from orchestrator.dialects.errors import speaks_anthropic
from orchestrator.policy.allowance import Allowance, Allowances
from orchestrator.policy.feedback import LimitKind

_ANTHROPIC: Final[Mapping[LimitKind, str]] = {
    "requests": "requests",
    "total_tokens": "tokens",
    "input_tokens": "input-tokens",
    "output_tokens": "output-tokens",
}
_TOKENS: Final[tuple[LimitKind, ...]] = ("total_tokens", "input_tokens", "output_tokens")


def limit_headers(dialect: Dialect, left: Allowances, wall: float) -> list[tuple[bytes, bytes]]:
    """The headers. `wall` is now, in seconds since the epoch."""
    pairs = _anthropic(left, wall) if speaks_anthropic(dialect) else _openai(left)
    return [(name.encode(), value.encode()) for name, value in pairs]


def _openai(left: Allowances) -> Iterator[tuple[str, str]]:
    tokens = next((left[kind] for kind in _TOKENS if kind in left), None)
    for word, allowance in (("requests", left.get("requests")), ("tokens", tokens)):
        if allowance is not None:
            yield f"x-ratelimit-limit-{word}", str(allowance.limit)
            yield f"x-ratelimit-remaining-{word}", str(allowance.remaining)
            yield f"x-ratelimit-reset-{word}", duration(allowance.reset)


def _anthropic(left: Allowances, wall: float) -> Iterator[tuple[str, str]]:
    for kind, word in _ANTHROPIC.items():
        allowance: Allowance | None = left.get(kind)
        if allowance is not None:
            at = time.gmtime(wall + math.ceil(allowance.reset))
            yield f"anthropic-ratelimit-{word}-limit", str(allowance.limit)
            yield f"anthropic-ratelimit-{word}-remaining", str(allowance.remaining)
            yield f"anthropic-ratelimit-{word}-reset", time.strftime("%Y-%m-%dT%H:%M:%SZ", at)


def duration(seconds: float) -> str:
    """A duration as OpenAI writes it: `0s`, `88ms`, `1s`, `6m0s`, `1h0m0s`."""
    if 0 < seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    whole = math.ceil(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
