"""The model calls of one run that is driven elsewhere: each made once, by its key, however often it is asked for."""

import math
from collections.abc import Callable
from typing import Final

import trio

from agents.amounts import Amounts
from agents.errors import CallLost, ModelError, may_have_worked
from agents.messages import ModelReply
from agents.money import Price
from agents.port import Held, ModelPort, Priority, Receipt
from orchestrator.views.workers import CallFailure, WorkerCallAnswer, WorkerCallRequest

LOST: Final = "the daemon that made this call is gone, and nobody knows what became of it"


class RemoteCalls:
    """The calls of one run. An outcome is kept until it is in the run's log, or nobody has a claim to the run."""

    def __init__(self, model: Callable[[], ModelPort], price: Price | None) -> None:
        self._model = model
        self._price = price
        self._calls: dict[str, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def join(self, nursery: trio.Nursery, asked: WorkerCallRequest, held: Amounts | None) -> "_Call | None":
        """The call of this key, made in the nursery if there is none. None for one that holds nothing here: an earlier
        daemon has made it.
        """
        call = self._calls.get(asked.key)
        if call is None and held is not None:
            receipt = Receipt(asked.key, Held(held.tokens, held.micro_dollars, self._price))
            call = self._calls[asked.key] = _Call(receipt)
            nursery.start_soon(call.make, self._model(), asked)
        return call

    async def leave(self, key: str) -> WorkerCallAnswer:
        """Its caller has left: what is known of it then."""
        call = self._calls.get(key)
        if call is None:
            return lost(None)
        call.scope.cancel()
        await call.done.wait()
        return call.answer()

    def forget(self, key: str) -> None:
        """Its end is in the run's log."""
        call = self._calls.pop(key, None)
        if call is not None:
            call.scope.cancel()

    def cut_off(self) -> None:
        """Nobody is left to hear of their outcomes."""
        for call in self._calls.values():
            call.scope.cancel()
        self._calls.clear()


class _Call:
    """One call under way, or ended. Its answer says nothing while it is under way."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._reply: ModelReply | None = None
        self._failure: CallFailure | None = None
        self.scope = trio.CancelScope()
        self.done = trio.Event()

    async def make(self, model: ModelPort, asked: WorkerCallRequest) -> None:
        deadline = math.inf if asked.deadline is None else trio.current_time() + asked.deadline
        priority = None if asked.priority is None else Priority(asked.priority)
        self._failure = CallFailure(kind=CallLost.kind, message=LOST)  # unless it comes to its end
        try:
            with self.scope:
                self._reply = await model.call(
                    asked.request, deadline=deadline, priority=priority, receipt=self._receipt
                )
                self._failure = None
        except ModelError as error:
            self._failure = _told(error)
        except Exception as error:
            self._failure = CallFailure(kind="client_error", message=f"{type(error).__name__}: {error}")
        finally:
            self.done.set()

    def answer(self) -> WorkerCallAnswer:
        if not self.done.is_set():
            return WorkerCallAnswer()
        return WorkerCallAnswer(reply=self._reply, failure=self._failure, sent=self._receipt.sent)


def lost(sent: bool | None) -> WorkerCallAnswer:
    """The answer about a call of which nothing is known here."""
    return WorkerCallAnswer(failure=CallFailure(kind=CallLost.kind, message=LOST), sent=sent)


def _told(error: ModelError) -> CallFailure:
    return CallFailure(
        kind=error.kind,
        message=error.message,
        status=error.status,
        code=error.code,
        usage=error.usage,
        partial=error.partial,
        retry_after=getattr(error, "retry_after", None),
        worked=may_have_worked(error),
    )
