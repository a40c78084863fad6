"""The port every backend adapter implements, and what an attempt hands it to report progress.

An adapter is a factory of connections. A slot owns one connection and sends one request at a time over it, so no
shared pool decides again how many calls are in flight. Upstream is always streamed, also for a caller who wants one
answer: a local server then frees its slot when the stream is closed, and time to first token and the silence clock
come for free.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from agents.messages import Delta, Dialect, ModelReply, ModelRequest, Usage
from orchestrator.policy.feedback import Reading


class Progress(Protocol):
    """How a connection tells its attempt what happened on the wire. Only `deltas` may wait."""

    def connected(self) -> None:
        """A connection stands (newly made or reused)."""
        ...

    def written(self) -> None:
        """The whole request is on the wire: from now on the provider may have counted it."""
        ...

    def headers(self, readings: Sequence[Reading]) -> None:
        """Response headers arrived, with what they say of the provider's limits."""
        ...

    def alive(self) -> None:
        """Something arrived that is no token (a heartbeat comment): liveness, not a first token."""
        ...

    def usage(self, usage: Usage) -> None:
        """The provider reported usage, whole or in part, before the reply is complete."""
        ...

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        """All deltas that one read yielded. Waits while the caller's reader is slow, which stops the upstream read.

        The first call of an answer brings its first token: what comes before one (a role) waits for it, so that an
        answer that fails so early can be tried again unseen.
        """
        ...


class Connection(Protocol):
    """One request at a time to one endpoint."""

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        """Sends one request and returns the whole reply, reporting progress on the way.

        A request of a program's (`wire`) is answered in its own dialect, or refused (`dialects.base.Untranslatable`):
        then `messages` is empty, and an answer to nothing would be an empty one.

        Raises a `ModelError`, split by blame. Cancelling it aborts the request at the provider; afterwards, and after
        any error, the connection can be used again (it reconnects when it must). An error that carries rate-limit
        headers reports them through `progress.headers` first.
        """
        ...

    async def aclose(self) -> None:
        """Releases the socket. Idempotent."""
        ...


class Capabilities(Struct, frozen=True):
    """What a backend can do, as far as the adapter knows without asking it.

    `dialect` is a name for people; `dialects` are those it serves as they are, any other is translated or refused.
    """

    dialect: str
    streams: bool = True
    tools: bool = True
    json_schema: bool = True
    reports_cached: bool = False
    dialects: frozenset[Dialect] = frozenset({"chat"})


class Backend(Protocol):
    """One endpoint of a model server, ready to hand out connections."""

    @property
    def name(self) -> str:
        """What messages and metrics call the endpoint."""
        ...

    def capabilities(self) -> Capabilities:
        """What it can do; known without asking the server."""
        ...

    def connect(self) -> Connection:
        """A connection of its own for one slot; opens its socket when first used."""
        ...
