"""`[agents.NAME]` and `[tools.NAME]` as they are written in the file."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Final, Literal

from msgspec import Struct

from agents.budget import Limits
from agents.errors import InvalidLimits
from agents.messages import Message
from agents.money import MILLION
from agents.spec import DEFAULT_KEEP
from agents.tools import DEFAULT_GRACE
from orchestrator.config.numbers import Count, CountOrNone, NotNegative, Positive

_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

ONLY_FUNCTIONS: Final = 'not in this version; a tool is a Python function, as `function = "package.module:name"`'


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


class ToolTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool: see `agents.tools.Tool`. `function` is `package.module:name`, found from the file's folder as well."""

    REFUSED: ClassVar[Mapping[str, str]] = dict.fromkeys(("command", "mcp", "url"), ONLY_FUNCTIONS)

    function: str
    description: str | None = None
    timeout: Positive | None = None
    concurrency: Count | None = None
    idempotent: bool = False
    read_only: bool = False
    grace: NotNegative = DEFAULT_GRACE

    def __post_init__(self) -> None:
        if not _FUNCTION.fullmatch(self.function):
            raise InvalidLimits("function", f'must look like "package.module:name", not {self.function!r}')


def _micro_dollars(dollars: Decimal) -> int:
    if not (dollars.is_finite() and dollars >= 0 and dollars <= MILLION * MILLION):
        raise InvalidLimits("dollars", f"must be an amount of 0 dollars or more, not {dollars}")
    micro = dollars * MILLION
    if micro != int(micro):
        raise InvalidLimits("dollars", f"must have at most 6 decimals, not {dollars}")
    return int(micro)
