"""Where an answer of the simulated provider goes while it is made, and what it is in the end."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from agents.messages import Delta, ModelReply, Usage
from orchestrator.policy.feedback import Reading


class Sink(Protocol):
    """Where a call's answer goes. Waiting in any of these holds the call up."""

    def admitted(self, usage: Usage) -> None:
        """The call is admitted: its input is counted, its output is 0; nothing is known of it without usage."""
        ...

    async def headers(self, readings: Sequence[Reading]) -> None:
        """The answer begins, with status 200."""
        ...

    async def alive(self) -> None:
        """A heartbeat."""
        ...

    async def deltas(self, deltas: tuple[Delta, ...]) -> None:
        """The next chunk."""
        ...


class Answer(Struct, frozen=True):
    """A complete answer; usage is reported `usage_reports` times.

    `others` are the further answers of a request that asked for several; `reply.usage` is that of all together.
    `thinking` counts the output tokens that were thought, `stopped_by` is the stop sequence that ended the first.
    """

    reply: ModelReply
    usage_reports: int
    others: tuple[ModelReply, ...] = ()
    thinking: int = 0
    stopped_by: str | None = None
