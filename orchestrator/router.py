"""A model's backends in order: a call goes to the first that can serve it.

An owner moves calls among the endpoints of its backend and tries them again; only when it gives a call up does the
router go on to the model's next backend. Every backend but the last is told that there is another (`Call.elsewhere`),
and gives calls back at once while it can serve nobody; the last one keeps them, so an outage of all is waited out
there.

| the backend's error                                          | what follows                     |
|--------------------------------------------------------------|----------------------------------|
| Throttled, Overloaded, Unavailable                           | the next backend                 |
| Refused, the endpoint's fault (a wrong key, no quota)        | the next backend                 |
| OwnerClosed                                                  | the next backend                 |
| CallTimeout because no further try fits before the deadline  | the next backend                 |
| everything else: the request, the queue or the caller        | the end                          |

A stream whose reader has something already goes on only if the reader understands a reset delta. The error that is
raised in the end is the last backend's, and says what happened at all of them.

Known limit: a call that waits at the last backend does not come back when an earlier one recovers.
"""

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import trio
from msgspec.structs import replace

from agents.errors import CallTimeout, ModelError, OwnerClosed, Refused, UnknownModel
from agents.messages import Delta, ModelReply, ModelRequest
from agents.owner_port import OwnerPort, ReplyStream
from agents.port import Flow, Priority, Receipt
from orchestrator.catalogue import Catalogue, Target
from orchestrator.inbox import CallInbox
from orchestrator.owner import Owner

RESET = (Delta(reset=True),)


class Router:
    """Gives out models by name. `owners` may change while it is in use; `catalogue` is asked at every call."""

    def __init__(self, owners: Mapping[str, Owner], catalogue: Callable[[], Catalogue]) -> None:
        self._owners = owners
        self._catalogue = catalogue

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = True) -> "RoutedPort":
        """A port whose calls go where their model is served; not `agent`: they count towards the queue's caps."""
        return RoutedPort(self, flow, priority, agent=agent)

    def ended(self, flow: Flow) -> None:
        """The run of this flow makes no more calls."""
        for owner in self._owners.values():
            owner.forget(flow)

    def targets(self, model: str) -> Sequence[Target]:
        """The model's backends, the first choice first; at least one. Raises `UnknownModel`."""
        targets = self._catalogue().targets(model)
        if not targets:
            raise UnknownModel(f"the model {model!r} has no backend; models.{model}.backends must name one")
        return targets

    def inbox(self, backend: str) -> CallInbox:
        """The way to the backend's owner; one that is shut where no such backend runs (any more)."""
        owner = self._owners.get(backend)
        if owner is not None:
            return owner.inbox
        nobody = CallInbox(backend)
        nobody.break_off()
        return nobody

    def __repr__(self) -> str:
        return f"<Router {', '.join(self._owners)}>"


class _Way:
    """One call's way along its model's backends, and what came of those it has tried. Times on trio's clock."""

    __slots__ = ("_deadline", "_targets", "_tried")

    def __init__(self, targets: Sequence[Target], deadline: float) -> None:
        self._targets = targets
        self._deadline = deadline
        self._tried: list[tuple[str, ModelError, float]] = []

    @property
    def target(self) -> Target:
        return self._targets[len(self._tried)]

    @property
    def elsewhere(self) -> bool:
        """Whether there is another backend behind the present one."""
        return len(self._tried) + 1 < len(self._targets)

    def go_on(self, error: ModelError, now: float, *, final: bool = False) -> None:
        """Books the present backend's failure and turns to the next; raises the error to end with if there is none."""
        more = self.elsewhere and not final and now < self._deadline and may_go_on(error)
        self._tried.append((self.target.backend, error, now))
        if not more:
            raise _summary(self._tried, now)


def may_go_on(error: ModelError) -> bool:
    """Whether another backend may serve the call that ended so."""
    if isinstance(error, CallTimeout) and isinstance(error.__cause__, ModelError):
        error = error.__cause__
    if isinstance(error, Refused):
        return error.endpoint_fault
    return error.blame == "provider" or isinstance(error, OwnerClosed)


def _summary(tried: Sequence[tuple[str, ModelError, float]], now: float) -> ModelError:
    """The last error with all that was tried in its message, and the least wait that any backend still asks for."""
    *before, (backend, last, _) = tried
    if not before:
        return last
    earlier = ", then ".join(f"{name} ({error.message})" for name, error, _ in before)
    summary = last.__class__.__new__(last.__class__)
    summary.__dict__.update(last.__dict__)
    summary.args = (f"tried {earlier}, then {backend}: {last.message}",)
    summary.__cause__ = ExceptionGroup("what each backend said", [error for _, error, _ in tried])
    if hasattr(summary, "retry_after"):
        waits = [
            max(0.0, at + wait - now)
            for _, error, at in tried
            if (wait := getattr(error, "retry_after", None)) is not None and math.isfinite(wait)
        ]
        summary.retry_after = min(waits, default=summary.retry_after)
    return summary


class RoutedPort:
    """A `ModelPort` for one flow whose calls go to the backends of their model."""

    __slots__ = ("_agent", "_flow", "_priority", "_router")

    def __init__(self, router: Router, flow: Flow, priority: Priority, *, agent: bool) -> None:
        self._router = router
        self._flow = flow
        self._priority = priority
        self._agent = agent

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        """One answer. Raises `UnknownModel`, and the last backend's `ModelError`."""
        way = _Way(self._router.targets(request.model), deadline)
        while True:
            try:
                return await self._owner_port(way.target).call(
                    _for_target(request, way.target),
                    deadline=deadline,
                    priority=priority,
                    receipt=receipt,
                    elsewhere=way.elsewhere,
                )
            except ModelError as error:
                way.go_on(error, trio.current_time())

    @asynccontextmanager
    async def stream(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        restartable: bool = True,
        receipt: Receipt | None = None,
    ) -> AsyncGenerator["RoutedStream", None]:
        """Opens a streamed call; leaving the block early takes the call with it.

        A reader that does not understand a reset delta is not `restartable`.
        Raises `UnknownModel`, and the last backend's error if none takes the call.
        """
        way = _Way(self._router.targets(request.model), deadline)

        def open_next() -> AbstractAsyncContextManager[ReplyStream]:
            return self._owner_port(way.target).stream(
                _for_target(request, way.target),
                deadline=deadline,
                priority=priority,
                restartable=restartable,
                receipt=receipt,
                elsewhere=way.elsewhere,
            )

        async with AsyncExitStack() as stack:
            routed = RoutedStream(way, open_next, stack, restartable=restartable)
            await routed.open()
            yield routed

    def _owner_port(self, target: Target) -> OwnerPort:
        inbox = self._router.inbox(target.backend)
        return OwnerPort(inbox, self._flow, self._priority, agent=self._agent)


def _for_target(request: ModelRequest, target: Target) -> ModelRequest:
    return request if request.model == target.model else replace(request, model=target.model)


class RoutedStream(ReplyStream):
    """The pieces of an answer, from one backend after the other if need be.

    Its reader iterates it and then asks for the reply. `open` and what it opens belong to `RoutedPort.stream`.
    """

    def __init__(
        self,
        way: _Way,
        open_next: Callable[[], AbstractAsyncContextManager[ReplyStream]],
        stack: AsyncExitStack,
        *,
        restartable: bool,
    ) -> None:
        self._way = way
        self._open_next = open_next
        self._stack = stack
        self._restartable = restartable
        self._given = False
        self._reset_due = False
        self._outcome: ModelReply | ModelError | None = None

    async def open(self) -> None:
        """Opens the stream at the next backend that takes the call."""
        while True:
            try:
                self._stream = await self._stack.enter_async_context(self._open_next())
            except ModelError as error:
                self._way.go_on(error, trio.current_time())
            else:
                self._batches = aiter(self._stream)
                return

    def __aiter__(self) -> AsyncIterator[tuple[Delta, ...]]:
        return self

    async def __anext__(self) -> tuple[Delta, ...]:
        while self._outcome is None:
            if self._reset_due:
                self._reset_due = self._given = False
                return RESET
            batch = await anext(self._batches, None)
            if batch is not None:
                self._given = True
                return batch
            await self._end_of_backend()
        raise StopAsyncIteration

    async def reply(self) -> ModelReply:
        """The whole answer, once the stream has ended; raises the call's error."""
        while self._outcome is None:
            await self._end_of_backend()
        if isinstance(self._outcome, ModelError):
            raise self._outcome
        return self._outcome

    async def _end_of_backend(self) -> None:
        """Keeps the outcome, or goes on to the next backend."""
        try:
            try:
                self._outcome = await self._stream.reply()
            except ModelError as error:
                self._way.go_on(error, trio.current_time(), final=self._given and not self._restartable)
                self._reset_due = self._given
                await self._stack.aclose()
                await self.open()
        except ModelError as error:
            self._outcome = error
