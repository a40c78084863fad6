"""Calls without anybody between them and the provider: each goes out when it comes, and again after a 429.

The baseline of a replay. Each call is its own client, as programs are that share a key and know nothing of each other:
it obeys `retry-after`, backs off exponentially with jitter where none is named or it was too short, and gives up after
as many tries as Headrace would (`orchestrator.policy.retry`). Endpoints take turns.
"""

import random
from collections.abc import Sequence

import trio

from agents.errors import CallTimeout, ModelError
from agents.messages import Delta, ModelReply, Usage
from agents.port import Call
from orchestrator.emitter import Emitter
from orchestrator.owner import Endpoint
from orchestrator.policy.feedback import Reading
from orchestrator.policy.retry import GiveUp, RetryConfig, decide
from orchestrator.policy.ticket import Ticket
from orchestrator.transitions import Hook


class Direct:
    """Makes calls by themselves. `hooks` see `first_token`, `attempt_failed` and `finished` as they would an owner's.

    A call's `waited` is the time that none of its tries was under way.
    """

    def __init__(
        self,
        name: str,
        endpoints: Sequence[Endpoint],
        *,
        hooks: Sequence[Hook] = (),
        retry: RetryConfig | None = None,
        seed: int = 0,
    ) -> None:
        self._endpoints = tuple(endpoints)
        self._emit = Emitter(name, hooks)
        self._retry = retry or RetryConfig()
        self._rng = random.Random(f"{seed}/direct")
        self._turn = 0

    async def call(self, call: Call) -> ModelReply | ModelError:
        """The outcome of a call, which is set on it as well."""
        ticket = _ticket(call, trio.current_time())
        with trio.move_on_at(call.deadline):
            await self._tries(call, ticket)
        now = trio.current_time()
        if call.outcome is None:
            call.resolve(CallTimeout("no complete answer before the call's deadline"))
        outcome = call.outcome
        assert outcome is not None
        seconds, waited = now - ticket.arrived, ticket.waited
        if isinstance(outcome, ModelError):
            self._emit("finished", ticket, now, outcome=outcome.kind, seconds=seconds, waited=waited)
        else:
            self._emit("finished", ticket, now, outcome="ok", seconds=seconds, waited=waited, usage=outcome.usage)
        return outcome

    async def _tries(self, call: Call, ticket: Ticket) -> None:
        while True:
            ticket.attempts += 1
            ticket.started = trio.current_time()
            endpoint = self._endpoints[self._turn % len(self._endpoints)]
            self._turn += 1
            progress = _Progress(self._emit, ticket)
            connection = endpoint.backend.connect()
            try:
                reply = await connection.send(call.request, progress)
            except ModelError as error:
                now = trio.current_time()
                self._emit("attempt_failed", ticket, now, outcome=error.kind, seconds=now - ticket.started)
                answer = decide(
                    error,
                    attempt=ticket.attempts,
                    streamed=False,
                    now=now,
                    deadline=call.deadline,
                    config=self._retry,
                    rng=self._rng,
                )
            else:
                call.resolve(reply)
                return
            if isinstance(answer, GiveUp):
                call.resolve(answer.error)
                return
            ticket.waited += answer.at - now
            await trio.sleep_until(answer.at)


def _ticket(call: Call, now: float) -> Ticket:
    """What the emitter reads of a call; nothing here is estimated."""
    flow = call.flow
    call.ticket = ticket = Ticket(
        seq=0,
        tenant=flow.tenant,
        job=flow.job,
        run=flow.run,
        priority=call.priority,
        arrived=now,
        deadline=call.deadline,
        bytes=0,
        memory=0,
        input=0.0,
        input_sigma=0.0,
        output=0.0,
        max_output=0,
        agent=call.agent,
        call=call,
    )
    return ticket


class _Progress:
    """Notes the first token of a try."""

    __slots__ = ("_emit", "_first", "_ticket")

    def __init__(self, emit: Emitter, ticket: Ticket) -> None:
        self._emit = emit
        self._ticket = ticket
        self._first = True

    def connected(self) -> None:
        """Nothing here is timed before the first token."""

    def written(self) -> None:
        """Nothing here is timed before the first token."""

    def headers(self, readings: Sequence[Reading]) -> None:
        """A client by itself makes nothing of its limits' readings."""

    def alive(self) -> None:
        """No clock runs on silence."""

    def usage(self, usage: Usage) -> None:
        """The reply has it at the end."""

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        if self._first:
            self._first = False
            now = trio.current_time()
            self._emit("first_token", self._ticket, now, seconds=now - self._ticket.started)
        await trio.lowlevel.checkpoint()
