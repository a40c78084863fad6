"""What drives a run, as the rest of the service sees it: an `agents.loop.AgentRun` here, or a worker elsewhere."""

from collections.abc import Sequence
from typing import Protocol

import trio

from agents.budget import Scope
from agents.events import Event
from agents.lifecycle import State
from agents.loop import Taken, Taker
from agents.messages import Message, Usage
from agents.money import Price
from agents.result import RunResult


class Quiet(Protocol):
    """The calls of a run that were abandoned."""

    @property
    def quiescent(self) -> bool:
        """Whether none of them is at work any more."""
        ...


class Progress(Protocol):
    """What is known of a run while it is driven: to read, never to change."""

    @property
    def rounds(self) -> int: ...

    @property
    def tool_calls(self) -> int: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def micro_dollars(self) -> int | None: ...

    @property
    def unknown_effects(self) -> Sequence[str]: ...

    @property
    def messages(self) -> Sequence[Message]: ...

    @property
    def price(self) -> Price | None: ...

    @property
    def expiry(self) -> float:
        """On trio's clock."""
        ...

    @property
    def scope(self) -> Scope: ...

    @property
    def abandoned(self) -> Quiet: ...


class Driven(Protocol):
    """See `agents.loop.AgentRun`, of which this is a part."""

    @property
    def run(self) -> str: ...

    @property
    def state(self) -> State: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def progress(self) -> Progress: ...

    @property
    def result(self) -> RunResult | None: ...

    def cancel(self, reason: Taken = "cancelled", message: str = "", source: Taker = "user") -> None: ...

    def receive(self, events: Sequence[Event]) -> None: ...

    def leave(self) -> None: ...

    def leave_soon(self) -> None: ...

    async def drive(self, room: trio.CapacityLimiter | None = None) -> RunResult: ...
