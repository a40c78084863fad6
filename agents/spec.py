"""What an agent is: its model, its words, its tools and what it may spend."""

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from agents.amounts import UNLIMITED, Limits
from agents.errors import InvalidLimits
from agents.messages import Message, ModelRequest
from agents.tools import BaseTool, InvalidTool

DEFAULT_MAX_TOKENS: Final = 4096
"""What an answer may take where a budget has to reserve for it and nobody said how long it may be."""

DEFAULT_KEEP: Final = 12
"""How many messages stay as they are when a transcript is shortened."""


class AgentSpec(Struct, frozen=True, kw_only=True):
    """One agent. Raises `InvalidLimits` or `InvalidTool` for what makes no sense.

    `demonstration` are turns shown before the task, as if they had happened (small models learn a tool's use from
    them). `max_tokens` bounds one answer. `output_floor` is the least number of output tokens worth asking for where a
    budget is nearly spent. `on_tool_error` says whether a failing tool call is an observation for the model or ends
    the run. `tool_concurrency` bounds how many calls of one answer run at once. A transcript of `compact_at` input
    tokens is shortened by a summary, but for its last `compact_keep` messages; None leaves it whole.
    """

    name: str
    model: str
    system: str = ""
    tools: tuple[BaseTool, ...] = ()
    limits: Limits = UNLIMITED
    demonstration: tuple[Message, ...] = ()
    max_tokens: int | None = None
    output_floor: int = 16
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    on_tool_error: Literal["observe", "stop"] = "observe"
    tool_concurrency: int = 8
    extra: Mapping[str, Any] = {}
    compact_at: int | None = None
    compact_keep: int = DEFAULT_KEEP

    def __post_init__(self) -> None:
        for field in ("max_tokens", "output_floor", "tool_concurrency", "compact_at", "compact_keep"):
            value = getattr(self, field)
            if not (value is None and field in ("max_tokens", "compact_at")) and (type(value) is not int or value < 1):
                raise InvalidLimits(field, f"a whole number, 1 or more, not {value!r}")
        names = [tool.name for tool in self.tools]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidTool(f"agent {self.name} has two tools called {twice}")

    def transcript(self, task: str | tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages that a run starts from; a task of messages continues a conversation."""
        told = (Message("user", task),) if isinstance(task, str) else task
        system = (Message("system", self.system),) if self.system and not _has_system(told) else ()
        return system + self.demonstration + told

    def request(self, messages: tuple[Message, ...], max_tokens: int | None) -> ModelRequest:
        return ModelRequest(
            model=self.model,
            messages=messages,
            tools=tuple(tool.spec for tool in self.tools),
            max_tokens=max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            stop=self.stop,
            tool_choice=self.tool_choice if self.tools else None,
            response_format=self.response_format,
            extra=self.extra,
        )


def _has_system(messages: tuple[Message, ...]) -> bool:
    return bool(messages) and messages[0].role == "system"
