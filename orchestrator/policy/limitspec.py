"""What a limit is, as configuration: its kind, its size, its span, and how the provider counts against it.

Providers differ in what they count and when, so each limit says it:

- `at_admission` (OpenAI, Azure OpenAI): a request costs its estimated input plus its `max_tokens` when it arrives, and
  keeps that cost, also when it fails or stops early.
- `reconciled` (Anthropic's older limits, most gateways): the same upper bound is reserved when it arrives, and
  corrected to what was used when it ends.
- `as_produced` (Anthropic's output limit): output counts when it is produced; a request is refused once the limit is
  used up, whatever it asks for.

Sources: OpenAI, "Rate limits" (platform documentation); Microsoft, "Azure OpenAI quota management"; Anthropic, "Rate
limits" (API documentation), which also says that input read from a cache does not count (`cached_free`).
"""

import math
from typing import Literal

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.policy.feedback import LimitKind

Counted = Literal["at_admission", "reconciled", "as_produced"]

SPAN_NAMES = {1.0: "s", 60.0: "min", 3600.0: "hour", 86400.0: "day"}


class LimitSpec(Struct, frozen=True):
    """At most `amount` (requests or tokens) in any `per` seconds. Raises `InvalidLimits` for what makes no sense.

    `burst_seconds` is the pacer's tolerance: how many seconds' worth of the limit may go out at once. `cached_free`
    says that input read from the provider's cache does not count.
    """

    kind: LimitKind
    amount: float
    per: float = 60.0
    counted: Counted = "reconciled"
    burst_seconds: float = 10.0
    cached_free: bool = False

    def __post_init__(self) -> None:
        for name in ("amount", "per", "burst_seconds"):
            _positive(f"{self.kind}.{name}", getattr(self, name))

    @property
    def name(self) -> str:
        """For people and metrics: `requests/min`, `total_tokens/day`."""
        return f"{self.kind}/{SPAN_NAMES.get(float(self.per)) or f'{self.per:g}s'}"


class InFlightSpec(Struct, frozen=True):
    """Caps on what is live at one time; None is no cap. Raises `InvalidLimits` for what makes no sense.

    `calls` and `first_token` count calls, the latter only those whose first token has not come. `tokens` caps the sum
    of input and the greater of predicted and streamed output: what a local server's KV cache has to hold.
    """

    calls: int | None = None
    tokens: float | None = None
    first_token: int | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "first_token"):
            value = getattr(self, name)
            if value is not None:
                _positive(f"in_flight.{name}", value)


def _positive(field: str, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise InvalidLimits(field, f"must be a finite number above 0, not {value:g}")
