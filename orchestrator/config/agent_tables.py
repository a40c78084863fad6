"""`[agents.NAME]` as it is written in the file."""

from decimal import Decimal
from typing import Any, ClassVar, Literal

from msgspec import Struct

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.messages import Message
from agents.money import MILLION
from agents.spec import DEFAULT_KEEP
from orchestrator.config.numbers import Count, CountOrNone, NotNegative, Positive


class BudgetTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run may use; what is not said is not limited. `timeout` is in seconds from its first running."""

    REFUSED: ClassVar = {"micro_dollars": "money is written in dollars here, as `dollars = 0.05`"}

    rounds: Count | None = None
    tool_calls: CountOrNone | None = None
    tokens: Count | None = None
    dollars: Decimal | None = None
    timeout: Positive | None = None

    def __post_init__(self) -> None:
        self.limits()

    def limits(self) -> Limits:
        return Limits(
            rounds=self.rounds,
            tool_calls=self.tool_calls,
            tokens=self.tokens,
            micro_dollars=None if self.dollars is None else _micro_dollars(self.dollars),
            timeout=self.timeout,
        )


class AgentTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent: see `agents.spec.AgentSpec`. An empty `model` is the daemon's default model.

    Past `compact_at` input tokens a summary takes the place of all but the transcript's last `compact_keep` messages.
    """

    model: str = ""
    system: str = ""
    tools: tuple[str, ...] = ()
    budget: BudgetTable = BudgetTable()
    demonstration: tuple[Message, ...] = ()
    max_tokens: Count | None = None
    temperature: NotNegative | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    on_tool_error: Literal["observe", "stop"] = "observe"
    tool_concurrency: Count = 8
    extra: dict[str, Any] = {}
    compact_at: Count | None = None
    compact_keep: Count = DEFAULT_KEEP


def _micro_dollars(dollars: Decimal) -> int:
    if not (dollars.is_finite() and dollars >= 0 and dollars <= MILLION * MILLION):
        raise InvalidLimits("dollars", f"must be an amount of 0 dollars or more, not {dollars}")
    micro = dollars * MILLION
    if micro != int(micro):
        raise InvalidLimits("dollars", f"must have at most 6 decimals, not {dollars}")
    return int(micro)
