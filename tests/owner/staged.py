"""A backend whose every step takes one second of virtual time and can be watched, and helpers around an owner."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import trio

from agents.errors import ModelError
from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.transitions import Hook, Transition

Plan = Callable[[int, ModelRequest], "ModelError | None"]


class StagedBackend:
    """Connects, writes, answers headers, streams `words`, reports usage: `step` seconds before each.

    `plan(n, request)` may fail the n-th request (from 1) after its headers. Counts what it sees, so that a test can
    tell whether anything leaked.
    """

    def __init__(self, name: str = "staged", words: Sequence[str] = ("one ", "two"), step: float = 1.0) -> None:
        self.name = name
        self.words = tuple(words)
        self.step = step
        self.plan: Plan = lambda n, request: None
        self.sent: list[ModelRequest] = []
        self.busy = 0
        self.peak = 0
        self.aborted = 0
        self.opened = 0
        self.closed = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="staged")

    def connect(self) -> Connection:
        self.opened += 1
        return _StagedConnection(self)


class _StagedConnection:
    def __init__(self, backend: StagedBackend) -> None:
        self._backend = backend
        self._closed = False

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        backend = self._backend
        backend.busy += 1
        backend.peak = max(backend.peak, backend.busy)
        try:
            return await self._send(request, progress)
        except trio.Cancelled:
            backend.aborted += 1
            raise
        finally:
            backend.busy -= 1

    async def _send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        backend = self._backend
        await trio.sleep(backend.step)
        progress.connected()
        await trio.sleep(backend.step)
        backend.sent.append(request)
        n = len(backend.sent)
        progress.written()
        await trio.sleep(backend.step)
        progress.headers(())
        error = backend.plan(n, request)
        if error is not None:
            raise error
        for word in backend.words:
            await trio.sleep(backend.step)
            await progress.deltas((Delta(word),))
        usage = Usage(input=10, output=len(backend.words))
        progress.usage(usage)
        await trio.sleep(backend.step)
        return ModelReply(Message("assistant", "".join(backend.words)), "stop", usage)

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._backend.closed += 1
        await trio.lowlevel.checkpoint()


class Recorder:
    """A hook that keeps every transition."""

    def __init__(self) -> None:
        self.seen: list[Transition] = []

    def __call__(self, transition: Transition) -> None:
        self.seen.append(transition)

    def kinds(self) -> list[str]:
        return [transition.kind for transition in self.seen]

    def outcomes(self) -> list[str]:
        return [transition.outcome for transition in self.seen if transition.kind == "finished"]


@asynccontextmanager
async def running(owner: Owner) -> AsyncIterator[Owner]:
    """The owner serves inside the block; the block's end waits until it is quiet, checks its books, and ends it."""
    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        yield owner
        await trio.testing.wait_all_tasks_blocked()
        assert_balanced(owner)
        nursery.cancel_scope.cancel()


def one_endpoint(
    backend: StagedBackend,
    *,
    slots: int = 1,
    hooks: Sequence[Hook] = (),
    dispatch: DispatchConfig | None = None,
    **config: object,
) -> Owner:
    """An owner of one staged endpoint with a fixed number of slots."""
    endpoint = Endpoint(backend.name, backend, concurrency=ConcurrencyConfig(fixed=slots))
    return Owner(OwnerConfig("test", dispatch or DispatchConfig(), **config), [endpoint], hooks=hooks)  # type: ignore[arg-type]


def assert_balanced(owner: Owner) -> None:
    """Every counter that must be zero when nothing is going on is zero."""
    statistics = owner.statistics()
    assert (statistics.waiting, statistics.held, statistics.queued, statistics.live) == (0, 0, 0, 0)
    for endpoint in statistics.endpoints:
        assert endpoint.in_flight == 0, endpoint
    for share in statistics.tenants.values():
        assert (share.queued, share.live) == (0, 0)
    policy = owner.policy
    assert policy.admission.all.calls == 0
    now = trio.current_time()
    for limits in [*(e.limits for e in policy.endpoints), *policy.tenant_limits.values()]:
        books = limits.statistics(now)
        assert (books.in_flight_calls, books.tokens_in_flight, books.awaiting_first_token) == (0, 0, 0)
        assert all(limit.held == 0 for limit in books.limits)


def request(text: str = "hello", *, max_tokens: int = 16) -> ModelRequest:
    return ModelRequest("any", (Message("user", text),), max_tokens=max_tokens)
