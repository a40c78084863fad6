"""A tool that is another agent: a call starts a run of it, and is answered with how that ended.

A call that is made again finds the run of the first time by its id, so nothing is done twice.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec

from agents.amounts import UNLIMITED, Limits
from agents.approval_rule import Approval
from agents.arguments import decode_arguments, schema_of
from agents.context import ToolContext
from agents.errors import InvalidLimits
from agents.messages import ToolSpec
from agents.result import RunResult
from agents.tools import DEFAULT_GRACE, BaseTool, ToolError

MOST_TASK: Final = 100_000
"""Characters of a task."""
DEFAULT_DEPTH: Final = 3
"""How many runs may be above a child."""
DEFAULT_WIDTH: Final = 16
"""How many runs one run may start."""

_Least = Annotated[int, msgspec.Meta(ge=1)]


class _Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    task: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=MOST_TASK,
            pattern=r"\S",
            description="what to do, with all that is needed for it: the other agent sees nothing of this conversation",
        ),
    ]
    rounds: Annotated[_Least | None, msgspec.Meta(description="answers that it may use at most")] = None
    tokens: Annotated[_Least | None, msgspec.Meta(description="tokens that it may use at most")] = None


class AgentTool(BaseTool):
    """Gives a task to `agent`. `limits` lower the agent's own, and are lowered by what a call asks for.

    At most `depth` runs may be above the one that it starts, and one run starts at most `width` in all. `timeout` is in
    seconds of the call, as for every tool. Raises `InvalidTool`, `InvalidLimits`.
    """

    __slots__ = ("agent", "depth", "limits", "width")

    def __init__(
        self,
        name: str,
        agent: str,
        *,
        description: str | None = None,
        limits: Limits = UNLIMITED,
        depth: int = DEFAULT_DEPTH,
        width: int = DEFAULT_WIDTH,
        timeout: float | None = None,
        concurrency: int | None = None,
        grace: float = DEFAULT_GRACE,
        approval: Approval | str = "never",
        expires_in: float | None = None,
    ) -> None:
        for field, value in (("depth", depth), ("width", width)):
            if type(value) is not int or value < 1:
                raise InvalidLimits(field, f"a whole number, 1 or more, not {value!r}")
        self.agent = agent
        self.limits = limits
        self.depth = depth
        self.width = width
        said = f"Gives a task to the agent {agent} and waits for its answer." if description is None else description
        super().__init__(
            ToolSpec(name, said, schema_of(_Task, {})),
            kind="agent",
            timeout=timeout,
            concurrency=concurrency,
            idempotent=True,
            grace=grace,
            approval=approval,
            expires_in=expires_in,
        )

    def decode(self, arguments: str) -> dict[str, object]:
        """`task`, and `rounds` and `tokens` where they are to be lower; raises `BadArguments`."""
        return decode_arguments(self.name, arguments, _Task)

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """The call: an awaitable for the child's answer. It raises `ToolError` for a child that did not complete."""
        task, limits = str(arguments["task"]), lowered(self.limits, asked_for(arguments))

        async def delegate() -> object:
            if context.delegation is None:
                raise ToolError("No run was started: whoever made this call starts none.")
            started = context.delegation.run(self.agent, task, limits, depth=self.depth, width=self.width)
            return answer_of(await started)

        return delegate


def asked_for(arguments: Mapping[str, object]) -> Limits:
    """The limits that a call asks for."""
    asked: dict[str, Any] = {field: arguments.get(field) for field in ("rounds", "tokens")}
    return Limits(**asked)


def lowered(own: Limits, by: Limits) -> Limits:
    """The lesser of both, field by field."""
    least: dict[str, Any] = {}
    for field in Limits.__struct_fields__:
        known = [value for value in (getattr(own, field), getattr(by, field)) if value is not None]
        least[field] = min(known, default=None)
    return Limits(**least)


def answer_of(result: RunResult) -> str:
    """What the parent's model reads of a child that has ended. Raises `ToolError` unless it completed."""
    if result.ok:
        return result.answer + _unknown(result)
    message = f" ({result.message})" if result.message else ""
    words = f" Its last words: {result.partial}" if result.partial.strip() else ""
    raise ToolError(
        f"The run of agent {result.agent} did not complete: {result.reason}{message}.{words}{_unknown(result)}"
    )


def _unknown(result: RunResult) -> str:
    if not result.unknown_effects:
        return ""
    count = len(result.unknown_effects)
    calls = "One of its tool calls was" if count == 1 else f"{count} of its tool calls were"
    return f"\n{calls} cut off with unknown effect: look at the state of things before repeating the task."
