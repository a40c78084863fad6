"""A tool that asks people: its caller's question, a few answers to choose from, and what a person said to it.

Nothing is called. The loop records the question, the run waits for as long as people take, and the answer that comes
from outside is the tool's value.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import msgspec

from agents.arguments import decode_arguments, schema_of
from agents.context import ToolContext
from agents.messages import ToolSpec
from agents.tools import BaseTool, ToolError

MOST_QUESTION: Final = 4_000
"""Characters of a question."""
MOST_OPTIONS: Final = 20
MOST_OPTION: Final = 200
"""Characters of an option."""

DESCRIPTION: Final = (
    "Asks a person a question and gives their answer. Use it for what only a person can know or decide."
)


class _Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    question: Annotated[
        str,
        msgspec.Meta(
            min_length=1, max_length=MOST_QUESTION, pattern=r"\S", description="the question, in full sentences"
        ),
    ]
    options: Annotated[
        tuple[Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_OPTION)], ...],
        msgspec.Meta(max_length=MOST_OPTIONS, description="answers to choose from; none for an answer in free words"),
    ] = ()


class PersonTool(BaseTool):
    """Asks people. `expires_in` is how many seconds a question stays open, None for as long as it takes."""

    __slots__ = ()

    def __init__(self, name: str, *, description: str | None = None, expires_in: float | None = None) -> None:
        super().__init__(
            ToolSpec(name, DESCRIPTION if description is None else description, schema_of(_Question, {})),
            kind="person",
            read_only=True,
            expires_in=expires_in,
        )

    def decode(self, arguments: str) -> dict[str, object]:
        """`question` as text and `options` as a tuple of texts; raises `BadArguments`."""
        return decode_arguments(self.name, arguments, _Question)

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        """A call that fails: only the loop can ask people."""

        async def nobody() -> object:
            raise ToolError("there is nobody here to ask")

        return nobody
