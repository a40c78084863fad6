"""Transitions made by hand, and an owner whose calls a test holds back, for the board's tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import trio
import trio.testing

from agents.errors import ModelError
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.board import Board
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig, TenantConfig
from orchestrator.policy.limits import LimitSpec
from orchestrator.transitions import Transition, TransitionKind

USAGE = Usage(input=40, cached=10, output=5)


def transition(
    kind: TransitionKind,
    at: float,
    tenant: str = "a",
    *,
    backend: str = "b",
    outcome: str = "",
    waited: float = 0.0,
    usage: Usage | None = None,
) -> Transition:
    """One step of some call of the tenant."""
    return Transition(
        kind, at, backend, Flow(tenant, "job", "run"), Priority.STANDARD, outcome=outcome, waited=waited, usage=usage
    )


class HeldBackend:
    """Answers with `USAGE` once `gate` is open, or raises `error`."""

    name = "held"

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.error: ModelError | None = None

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="held")

    def connect(self) -> Connection:
        return _HeldConnection(self)


class _HeldConnection:
    def __init__(self, backend: HeldBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        progress.connected()
        progress.written()
        await self._backend.gate.wait()
        progress.headers(())
        if self._backend.error is not None:
            raise self._backend.error
        return ModelReply(Message("assistant", "done"), "stop", USAGE)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Rig:
    """A board on a running owner of one held endpoint, called `b`."""

    def __init__(
        self, slots: int, tenants: dict[str, TenantConfig] | None = None, limits: Sequence[LimitSpec] = ()
    ) -> None:
        self.backend = HeldBackend()
        self.board = Board()
        endpoint = Endpoint("key", self.backend, limits=tuple(limits), concurrency=ConcurrencyConfig(fixed=slots))
        config = OwnerConfig("b", DispatchConfig(tenants=tenants or {}))
        self.owner = Owner(config, [endpoint], hooks=[self.board])

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """The owner serves; the nursery is for callers, and is cancelled at the end."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.owner.run)
            yield nursery
            nursery.cancel_scope.cancel()

    async def call(self, tenant: str = "a", priority: Priority = Priority.STANDARD, run: str = "run") -> None:
        """One call, to its end, whatever that is."""
        port = OwnerPort(self.owner.inbox, Flow(tenant, "job", run), priority)
        with suppress(ModelError):
            await port.call(ModelRequest("any", (Message("user", "hello"),), max_tokens=16))
