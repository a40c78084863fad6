"""One model call of a run: reserve, announce, submit, settle, record."""

import json
from collections.abc import Mapping
from typing import Final

import trio
from msgspec import Struct

from agents.budget import Amounts, Blocked, Exhausted, Reservation
from agents.errors import ModelError, Overloaded, QueueFull, Refused, Throttled, may_have_worked
from agents.events import ModelFailed, ModelReplied, ModelRequested
from agents.lifecycle import StopReason
from agents.log import JournalLost
from agents.messages import ModelReply, ModelRequest, Usage
from agents.model_need import ModelNeed, model_need, settlement
from agents.port import Receipt
from agents.reserve import when_room
from agents.result import Stop
from agents.run_state import RunState
from agents.size import input_bound
from agents.spec import DEFAULT_MAX_TOKENS

CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
REFUSAL_CODES: Final = frozenset({"content_filter", "content_policy_violation"})


class _Grant(Struct, frozen=True):
    need: ModelNeed
    reservation: Reservation


class Answer:
    """A reply with what the budget had done to the request."""

    __slots__ = ("reply", "shrunk_by", "step")

    def __init__(self, step: int, reply: ModelReply, shrunk_by: Exhausted | None) -> None:
        self.step = step
        self.reply = reply
        self.shrunk_by = shrunk_by


async def model_step(state: RunState) -> Answer | Stop:
    """Asks the model once. Whatever happens, the reservation is settled exactly once and the journal says how."""
    agent = state.agent
    limited = state.scope.limited("tokens", "micro_dollars")
    asked = agent.max_tokens or DEFAULT_MAX_TOKENS
    messages = tuple(state.messages)
    tokens = input_bound(agent.request(messages, asked))

    def decide() -> _Grant | Exhausted | Blocked:
        need = model_need(state.scope, tokens, asked, agent.output_floor, state.price)
        if isinstance(need, Exhausted):
            return need
        granted = state.scope.reserve(need.amounts)
        return _Grant(need, granted) if isinstance(granted, Reservation) else granted

    grant: _Grant | Exhausted = await when_room(decide)
    if isinstance(grant, Exhausted):
        return Stop.exhausted(grant)
    need, reservation = grant.need, grant.reservation
    max_tokens = need.max_tokens if limited else agent.max_tokens
    step = state.step
    call = _ModelCall(state, step, reservation)
    try:
        await state.log.append(
            ModelRequested(
                run=state.run,
                step=step,
                attempt=1,
                reserved_tokens=need.amounts.tokens,
                reserved_micro_dollars=need.amounts.micro_dollars,
                max_tokens=max_tokens,
                shrunk_by=need.shrunk_by,
            )
        )
        reply = await call.make(agent.request(messages, max_tokens))
    except JournalLost:
        reservation.release()
        raise
    if isinstance(reply, Stop):
        return reply
    return Answer(step, reply, need.shrunk_by)


class _ModelCall:
    """The call itself, from submission to its one recorded end."""

    __slots__ = ("_reservation", "_state", "_step")

    def __init__(self, state: RunState, step: int, reservation: Reservation) -> None:
        self._state = state
        self._step = step
        self._reservation = reservation

    async def make(self, request: ModelRequest) -> ModelReply | Stop:
        state = self._state
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled:
            await self._fail("cancelled", "cancelled before it was submitted", worked=False)
            raise
        state.lifecycle.open("model")
        receipt = Receipt()
        try:
            reply = await state.model.call(request, deadline=state.deadline, priority=state.priority, receipt=receipt)
        except ModelError as error:
            # an earlier try may have worked, whatever became of the last one
            worked = may_have_worked(error) if receipt.sent is None else receipt.sent
            await self._fail(error.kind, error.message, worked=worked, usage=error.usage)
            state.partial = error.partial or state.partial
            return await self._stop(stop_for(error))
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

    async def _record(self, reply: ModelReply) -> None:
        state = self._state
        used, unknown = self._settlement(reply.usage, worked=True)
        self._reservation.settle(used + Amounts(rounds=1), unknown)
        cost = None if state.price is None else state.price.cost(reply.usage)
        await state.log.append(ModelReplied(run=state.run, step=self._step, attempt=1, reply=reply, micro_dollars=cost))
        state.rounds += 1
        state.usage = state.usage + reply.usage
        self._count_cost(cost)
        state.partial = reply.message.content if reply.message.content.strip() else state.partial

    async def _fail(self, kind: str, message: str, *, worked: bool, usage: Usage | None = None) -> None:
        state = self._state
        known = usage or Usage()
        used, unknown = self._settlement(known, worked=worked)
        self._reservation.settle(used, unknown)
        state.usage = state.usage + known
        if worked or usage is not None:
            self._count_cost(None if state.price is None else state.price.cost(known))
        await state.log.append(
            ModelFailed(
                run=state.run,
                step=self._step,
                attempt=1,
                kind=kind,
                message=message,
                usage=known,
                unknown_tokens=unknown.tokens,
                unknown_micro_dollars=unknown.micro_dollars,
            )
        )

    async def _stop(self, stop: Stop) -> Stop:
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


def stop_for(error: ModelError) -> Stop:
    """The stop reason of a model call's error; decided from its type and structured code."""
    if isinstance(error, Throttled | Overloaded | QueueFull):
        return Stop(StopReason.OVERLOADED, error.message)
    if isinstance(error, Refused):
        if error.code in CONTEXT_CODES:
            return Stop(StopReason.CONTEXT_LIMIT, error.message)
        if error.code in REFUSAL_CODES:
            return Stop(StopReason.REFUSAL, error.message)
    again = error.retryable or error.blame == "queue"
    return Stop(StopReason.PLANNER_ERROR, error.message, next="retry" if again else "human")


def judge(answer: Answer, response_format: Mapping[str, object] | None) -> Stop | None:
    """What a reply means for the run: a reason to stop, or None where there are tool calls to make."""
    reply = answer.reply
    message = reply.message
    if reply.finish_reason == "length":
        if answer.shrunk_by is not None:
            return Stop.exhausted(answer.shrunk_by)
        return Stop(StopReason.OUTPUT_LIMIT, "the answer was cut off at its output limit")
    if reply.finish_reason == "content_filter":
        return Stop(StopReason.REFUSAL, "the provider withheld the answer")
    if message.tool_calls:
        ids = [call.id for call in message.tool_calls]
        if not all(ids) or len(set(ids)) < len(ids):
            return Stop(StopReason.INVALID_ACTION, "the answer's tool calls have no ids of their own")
        return None
    if reply.finish_reason == "tool_calls":
        return Stop(StopReason.INVALID_ACTION, "the answer announces tool calls and has none")
    if not message.content.strip():
        return Stop(StopReason.INVALID_ACTION, "the answer is empty")
    if _wants_json(response_format) and not _is_json(message.content):
        return Stop(StopReason.MALFORMED_OUTPUT, "the answer is not the JSON that was asked for")
    return Stop(StopReason.FINAL_ANSWER)


def _wants_json(response_format: Mapping[str, object] | None) -> bool:
    return response_format is not None and response_format.get("type") in {"json_object", "json_schema"}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
