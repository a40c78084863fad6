"""One model call of a run: reserve, announce, submit, settle, record."""

import functools
from collections.abc import Callable
from typing import Final

import trio
from msgspec import Struct

from agents.amounts import Amounts
from agents.budget import Blocked, Exhausted, Reservation
from agents.errors import CallLost, CallTimeout, ModelError, may_have_worked
from agents.events import ModelFailed, ModelReplied, ModelRequested, Purpose
from agents.judge import stop_for
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.messages import ModelReply, ModelRequest, Usage
from agents.model_need import ModelNeed, model_need, settlement
from agents.open_step import OpenStep
from agents.port import Held, Receipt
from agents.reserve import when_room
from agents.result import Stop
from agents.run_state import RunState
from agents.size import input_bound
from agents.spec import DEFAULT_MAX_TOKENS

ONE_ROUND: Final = Amounts(rounds=1)

MOST_LOST: Final = 3
"""How many calls in a row may be lost with whoever made them; then the run fails, since they may be why."""

MOST_REFUSALS: Final = 3
"""How often in a row a spent limit may refuse what the run's own view of it allows, before that is the run's end."""

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class _Grant(Struct, frozen=True):
    need: ModelNeed
    reservation: Reservation


class Asked(Struct, frozen=True):
    """A call that was answered; `shrunk_by` is the limit because of which the answer could be no longer."""

    step: int
    reply: ModelReply
    shrunk_by: Exhausted | None


async def model_step(state: RunState) -> OpenStep | Stop:
    """Asks the model for the next step: its reply, or why there is none."""
    agent = state.agent
    while True:
        messages = (*state.messages, *state.read_inbox())
        asked = await ask(state, functools.partial(agent.request, messages), agent.max_tokens)
        if isinstance(asked, Asked):
            return OpenStep(asked.step, asked.reply, asked.shrunk_by)
        if asked is not None:
            return asked
        await trio.lowlevel.checkpoint()
        if state.cancel is not None:
            return state.cancel


async def ask(
    state: RunState, request: Callable[[int | None], ModelRequest], wanted: int | None, purpose: Purpose = "step"
) -> Asked | Stop | None:
    """Asks the model once; None where something from outside, more time, or a budget that others share calls for
    another request.

    `request` makes the request for so many `max_tokens`; `wanted` of them are asked for, None for the default. Whatever
    happens, the reservation is settled exactly once and the journal says how. The messages of a step's request are the
    transcript and the inbox, which are one from then on.
    """
    asked, news = wanted or DEFAULT_MAX_TOKENS, state.news
    grant: _Grant | Exhausted = await when_room(_decision(state, input_bound(request(asked)), asked))
    if isinstance(grant, Exhausted):
        return Stop.exhausted(grant)
    need, reservation = grant.need, grant.reservation
    max_tokens = need.max_tokens if state.scope.limited("tokens", "micro_dollars") else wanted
    requested = ModelRequested(
        run=state.run,
        at=state.wall(),
        step=state.step,
        attempt=state.attempts + 1,
        reserved_tokens=need.amounts.tokens,
        reserved_micro_dollars=need.amounts.micro_dollars,
        max_tokens=max_tokens,
        shrunk_by=need.shrunk_by,
        purpose=purpose,
    )
    try:
        if not await state.log.append(requested, unless=lambda: state.ending or state.news != news):
            reservation.release()
            return await _refused(state)
        state.attempts += 1
        if purpose == "step":
            state.messages += state.read_inbox()
            state.inbox.clear()
        reply = await _ModelCall(state, requested, reservation).make(request(max_tokens))
    except JournalLost:
        reservation.release()
        raise
    return Asked(requested.step, reply, need.shrunk_by) if isinstance(reply, ModelReply) else reply


async def _refused(state: RunState) -> Stop | None:
    """Nothing was appended: it is decided anew, with budgets above the run as they stand by now.

    What this executor sees of them may be behind what they are, so it does not try again at once for ever.
    """
    log = state.log
    if state.ending or not log.refusals:
        return None
    if log.refused is not None and log.refusals >= MOST_REFUSALS:
        return Stop.exhausted(log.refused)
    if log.refusals > 1:
        await trio.sleep(min(_FIRST_PAUSE * 2.0 ** min(log.refusals, 8), _LONGEST_PAUSE))
    return None


def _decision(state: RunState, tokens: int, asked: int) -> Callable[[], _Grant | Exhausted | Blocked]:
    def decide() -> _Grant | Exhausted | Blocked:
        need = model_need(state.scope, tokens, asked, state.agent.output_floor, state.price)
        if isinstance(need, Exhausted):
            return need
        granted = state.scope.reserve(need.amounts)
        return _Grant(need, granted) if isinstance(granted, Reservation) else granted

    return decide


class _ModelCall:
    """The call itself, from submission to its one recorded end."""

    __slots__ = ("_requested", "_reservation", "_state")

    def __init__(self, state: RunState, requested: ModelRequested, reservation: Reservation) -> None:
        self._state = state
        self._requested = requested
        self._reservation = reservation

    async def make(self, request: ModelRequest) -> ModelReply | Stop | None:
        state = self._state
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            await self._fail("cancelled", "cancelled before it was submitted", worked=False)
            raise
        state.lifecycle.open("model")
        need = self._reservation.need
        held = Held(need.tokens, need.micro_dollars, state.price)
        receipt, deadline = Receipt(self._requested.key, held), state.deadline
        try:
            reply = await state.model.call(request, deadline=deadline, priority=state.priority, receipt=receipt)
        except ModelError as error:
            # an earlier try may have worked, whatever became of the last one
            worked = may_have_worked(error) if receipt.sent is None else receipt.sent
            await self._fail(error.kind, error.message, worked=worked, usage=error.usage, partial=error.partial)
            if isinstance(error, CallLost):
                return await self._lost(error)
            more_time = isinstance(error, CallTimeout) and deadline <= trio.current_time() < state.deadline
            return await self._stop(None if more_time else stop_for(error))
        except Exception as error:
            await self._fail("client_error", f"{type(error).__name__}: {error}", worked=True)
            return await self._stop(Stop(StopReason.PLANNER_ERROR, f"the model client failed: {error!r}"))
        except BaseException:
            await self._fail("cancelled", "the run went away before the answer", worked=receipt.sent is not False)
            raise
        finally:
            state.lifecycle.close("model")
        await self._record(reply)
        return reply

    async def _lost(self, error: CallLost) -> Stop | None:
        self._state.calls_lost += 1
        return await self._stop(stop_for(error) if self._state.calls_lost >= MOST_LOST else None)

    async def _record(self, reply: ModelReply) -> None:
        state, requested = self._state, self._requested
        used, unknown = self._settlement(reply.usage, worked=True)
        is_step = requested.purpose == "step"
        self._reservation.settle(used + ONE_ROUND if is_step else used, unknown)
        cost = None if state.price is None else state.price.cost(reply.usage)
        await state.log.append(
            ModelReplied(
                run=state.run,
                at=state.wall(),
                step=requested.step,
                attempt=requested.attempt,
                reply=reply,
                micro_dollars=cost,
                unknown_tokens=unknown.tokens,
                unknown_micro_dollars=unknown.micro_dollars,
                purpose=requested.purpose,
            )
        )
        state.usage = state.usage + reply.usage
        state.calls_lost = 0
        self._count_cost(cost)
        if is_step:
            state.rounds += 1
            state.attempts = 0
            state.context = reply.usage.total
            state.partial = reply.message.content if reply.message.content.strip() else state.partial

    async def _fail(
        self, kind: str, message: str, *, worked: bool, usage: Usage | None = None, partial: str = ""
    ) -> None:
        state, requested = self._state, self._requested
        known = usage or Usage()
        used, unknown = self._settlement(known, worked=worked)
        self._reservation.settle(used, unknown)
        state.usage = state.usage + known
        cost: int | None = 0
        if worked or usage is not None:
            cost = None if state.price is None else state.price.cost(known)
        self._count_cost(cost)
        state.partial = partial or state.partial
        await state.log.append(
            ModelFailed(
                run=state.run,
                at=state.wall(),
                step=requested.step,
                attempt=requested.attempt,
                kind=kind,
                message=message,
                usage=known,
                micro_dollars=cost,
                unknown_tokens=unknown.tokens,
                unknown_micro_dollars=unknown.micro_dollars,
                purpose=requested.purpose,
                partial=partial,
            )
        )

    async def _stop(self, stop: Stop | None) -> Stop | None:
        # A cancellation or a clock that ran out meanwhile goes before the error it may have caused: a checkpoint lets
        # trio deliver it.
        await trio.lowlevel.checkpoint()
        return self._state.interrupted_by(trio.current_time()) or stop

    def _count_cost(self, cost: int | None) -> None:
        state = self._state
        if cost is None or state.micro_dollars is None:
            state.micro_dollars = None
        else:
            state.micro_dollars += cost

    def _settlement(self, usage: Usage, *, worked: bool) -> tuple[Amounts, Amounts]:
        """What was certainly used, and what stays held because the provider did not say."""
        return settlement(self._reservation.need, usage, self._state.price, worked=worked)
