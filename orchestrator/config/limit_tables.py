"""Limits as they are written in the file, and the `LimitSpec`s that they mean."""

from typing import Final, Literal

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.config.numbers import Positive
from orchestrator.policy.feedback import LimitKind
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from orchestrator.policy.limitspec import Counted

DAY: Final = 86400.0
SPANS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": DAY}

SHORT_FORMS: Final[dict[str, tuple[LimitKind, float]]] = {
    "rpm": ("requests", 60.0),
    "tpm": ("total_tokens", 60.0),
    "input_tpm": ("input_tokens", 60.0),
    "output_tpm": ("output_tokens", 60.0),
    "rpd": ("requests", DAY),
    "tpd": ("total_tokens", DAY),
}
"""The limits that most providers have, with a key each."""


class LimitTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit: `amount` requests or tokens in `per`, a word or seconds. See `policy.limitspec.LimitSpec`."""

    kind: LimitKind
    amount: Positive
    per: Literal["second", "minute", "hour", "day"] | Positive = "minute"
    counted: Counted | None = None
    burst_seconds: Positive = 10.0
    cached_free: bool = False

    def spec(self, counted: Counted) -> LimitSpec:
        """The limit, counted as `counted` says where the table does not."""
        return LimitSpec(
            kind=self.kind,
            amount=self.amount,
            per=SPANS[self.per] if isinstance(self.per, str) else self.per,
            counted=self.counted or counted,
            burst_seconds=self.burst_seconds,
            cached_free=self.cached_free,
        )


class LimitKeys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that limit something: short forms per minute or day, and `limits` for all others.

    `counted` says how the provider counts tokens where a limit does not say it itself. On an Anthropic backend the
    short forms mean Anthropic's limits: input without what was read from the cache, and output as it is produced
    unless `counted` says otherwise. What stands in `limits` is taken at its word.
    """

    rpm: Positive | None = None
    tpm: Positive | None = None
    input_tpm: Positive | None = None
    output_tpm: Positive | None = None
    rpd: Positive | None = None
    tpd: Positive | None = None
    limits: tuple[LimitTable, ...] | None = None
    counted: Counted | None = None
    in_flight: InFlightSpec | None = None

    def __post_init__(self) -> None:
        self.specs()

    def specs(self, *, as_anthropic: bool = False) -> tuple[LimitSpec, ...]:
        """All limits. Raises `InvalidLimits` where one is given twice."""
        counted = self.counted or "reconciled"
        named = [(f"limits[{place}]", table.spec(counted)) for place, table in enumerate(self.limits or ())]
        for key, (kind, per) in SHORT_FORMS.items():
            amount = getattr(self, key)
            if amount is not None:
                how: Counted = counted
                if as_anthropic and self.counted is None and kind == "output_tokens":
                    how = "as_produced"
                free = as_anthropic and kind == "input_tokens"
                named.append((key, LimitSpec(kind, amount, per, counted=how, cached_free=free)))
        seen: dict[str, str] = {}
        for key, spec in named:
            first = seen.setdefault(spec.name, key)
            if first != key:
                raise InvalidLimits(key, f"{spec.name} is given already, by {first}")
        return tuple(spec for _, spec in named)
