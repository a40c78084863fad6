"""A model that the daemon calls: each call under its own key, asked for until its outcome is there."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import trio

from agents import errors
from agents.errors import HeadraceError, ModelError
from agents.messages import ModelReply, ModelRequest
from agents.port import Call, Flow, Priority, Receipt
from orchestrator.views.workers import (
    LONGEST_HOLD,
    CallFailure,
    CallLeave,
    WorkerCallAnswer,
    WorkerCallRequest,
)
from orchestrator.worker.hold import Hold

LEAVE_SECONDS: Final = 2.0
"""How long it may take to learn what is known of a call whose caller has left."""


class ClaimModel:
    """Implements `agents.port.ModelPort` under a claim."""

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        """See `agents.port.ModelPort`. Also raises `ClaimGone`, and what `Link.ask` raises."""
        receipt = receipt or Receipt()
        left = deadline - trio.current_time()
        asked = WorkerCallRequest(
            claim=self._hold.claim,
            key=receipt.key,
            request=request,
            deadline=None if math.isinf(left) else max(left, 0.0),
            priority=None if priority is None else int(priority),
        )
        try:
            while True:
                answer = await self._hold.ask(WorkerCallAnswer, "call", body=asked, hold=LONGEST_HOLD)
                if answer.reply is not None or answer.failure is not None:
                    break
        except trio.Cancelled:
            await self._left(request, receipt)
            raise
        _tell(receipt, request, answer)
        if answer.reply is not None:
            return answer.reply
        assert answer.failure is not None
        raise error_of(answer.failure)

    async def _left(self, request: ModelRequest, receipt: Receipt) -> None:
        with trio.CancelScope(shield=True, relative_deadline=LEAVE_SECONDS):
            try:
                leave = CallLeave(claim=self._hold.claim, key=receipt.key)
                _tell(receipt, request, await self._hold.ask(WorkerCallAnswer, "call", "leave", body=leave))
            except HeadraceError:
                pass  # nobody knows

    def __repr__(self) -> str:
        return f"<ClaimModel of {self._hold.run}>"


def _tell(receipt: Receipt, request: ModelRequest, answer: WorkerCallAnswer) -> None:
    if answer.sent is None:
        return
    call = Call(request, Flow(), key=receipt.key, held=receipt.held)
    call.sent = int(answer.sent)
    receipt.hold(call)


def error_of(failure: CallFailure) -> ModelError:
    """The error that the daemon's call ended with."""
    make = _ERRORS.get(failure.kind)
    return _plain(ModelError)(failure) if make is None else make(failure)


Make = Callable[[CallFailure], ModelError]


def _plain(kind: type[ModelError]) -> Make:
    def make(said: CallFailure) -> ModelError:
        return kind(said.message, status=said.status, code=said.code, usage=said.usage, partial=said.partial)

    return make


def _unavailable(kind: type[errors.Unavailable]) -> Make:
    def make(said: CallFailure) -> ModelError:
        return kind(
            said.message,
            status=said.status,
            code=said.code,
            usage=said.usage,
            partial=said.partial,
            worked=said.worked,
            retry_after=said.retry_after,
        )

    return make


_PLAIN: Final = (
    errors.TooLarge,
    errors.QueueTimeout,
    errors.CallTimeout,
    errors.OwnerClosed,
    errors.CallerGone,
    errors.CallLost,
    errors.UnknownModel,
)
_UNAVAILABLE: Final = (errors.Unavailable, errors.ConnectTimeout, errors.SilenceTimeout, errors.Truncated)

_ERRORS: Final[Mapping[str, Make]] = {
    **{kind.kind: _plain(kind) for kind in _PLAIN},
    **{kind.kind: _unavailable(kind) for kind in _UNAVAILABLE},
    errors.Throttled.kind: lambda said: errors.Throttled(
        said.message, retry_after=said.retry_after, status=said.status, code=said.code
    ),
    errors.Overloaded.kind: lambda said: errors.Overloaded(
        said.message,
        retry_after=said.retry_after,
        status=said.status,
        code=said.code,
        usage=said.usage,
        partial=said.partial,
    ),
    errors.Refused.kind: lambda said: errors.Refused(said.message, status=said.status, code=said.code),
    errors.QueueFull.kind: lambda said: errors.QueueFull(said.message, retry_after=said.retry_after or 0.0),
    errors.BudgetExceeded.kind: lambda said: errors.BudgetExceeded(said.message),
}
