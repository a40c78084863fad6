"""A `Progress` that writes everything down, for tests of backends."""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import trio

from agents.messages import Delta, Message, ModelRequest, ToolCall, Usage
from orchestrator.policy.feedback import Reading


class Recorder:
    """Keeps the order of events, the deltas with their times, the readings and the usages.

    `on_deltas` is awaited at each batch, so that a test can be a slow reader.
    """

    def __init__(self, on_deltas: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint) -> None:
        self.order: list[str] = []
        self.batches: list[tuple[float, tuple[Delta, ...]]] = []
        self.readings: tuple[Reading, ...] = ()
        self.usages: list[Usage] = []
        self._on_deltas = on_deltas

    def connected(self) -> None:
        self.order.append("connected")

    def written(self) -> None:
        self.order.append("written")

    def headers(self, readings: Sequence[Reading]) -> None:
        self.order.append("headers")
        self.readings = tuple(readings)

    def alive(self) -> None:
        self.order.append("alive")

    def usage(self, usage: Usage) -> None:
        self.order.append("usage")
        self.usages.append(usage)

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        self.order.append("deltas")
        self.batches.append((trio.current_time(), tuple(deltas)))
        await self._on_deltas()

    @property
    def text(self) -> str:
        return "".join(delta.text for _, batch in self.batches for delta in batch)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return put_together(delta for _, batch in self.batches for delta in batch)


def put_together(deltas: Iterable[Delta]) -> tuple[ToolCall, ...]:
    """The tool calls that the deltas add up to; they have to be numbered from 0, in order."""
    parts: dict[int, list[str]] = {}
    for delta in deltas:
        for piece in delta.tool_calls:
            known = parts.setdefault(piece.index, ["", "", ""])
            known[0] += piece.id
            known[1] += piece.name
            known[2] += piece.arguments
    assert list(parts) == list(range(len(parts)))
    return tuple(ToolCall(*known) for known in parts.values())


def ask(text: str = "How does water reach the wheel?", max_tokens: int | None = None) -> ModelRequest:
    """A plain question."""
    return ModelRequest("sim", (Message("user", text),), max_tokens=max_tokens)
