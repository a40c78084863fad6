"""The backend-owner task: one queue, one inbox, every call finished exactly once.

A turn reads all notes, at most `SUBMITS_PER_TURN` submits, starts what may start, and is one checkpoint. Between turns
the owner sleeps until something arrives or the next known time comes; there is no ticker.

All decisions are the policy's (`orchestrator.policy.dispatch`), which never awaits; the owner carries them out and says
what happened. Only the owner finishes a call, in `_finish`, which is synchronous and idempotent. When it ends, for
whatever reason, it closes its inbox and finishes every call it holds, so no caller waits for ever.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import trio

from agents.errors import (
    CallerGone,
    InvalidLimits,
    ModelError,
    OwnerClosed,
    QueueTimeout,
    Refused,
    Unavailable,
    may_have_worked,
)
from agents.messages import ModelReply
from agents.port import Call, Flow
from orchestrator.attempt import Attempt
from orchestrator.emitter import Emitter
from orchestrator.inbox import CallInbox
from orchestrator.owner_config import Endpoint, EndpointLimits, OwnerConfig, check_limits, make_policy
from orchestrator.policy.dispatch import DispatchConfig, Dispatcher, Start, WaitUntil
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.retry import GiveUp, RetryAt
from orchestrator.policy.ticket import Ticket
from orchestrator.slots import Slots
from orchestrator.statistics import OwnerStatistics, take_statistics
from orchestrator.transitions import Hook

__all__ = ["Endpoint", "Owner", "OwnerConfig"]

SUBMITS_PER_TURN = 256


class Owner:
    """Owns one backend. Use: `await nursery.start(owner.run)`, then `OwnerPort(owner.inbox, flow)` for callers.

    `hooks` see every transition; they are synchronous and never raise. `on_turn` is told each turn's seconds of work,
    `on_endpoint` backend and endpoint when one goes down (with what it failed with last) or is back (None). `trace`
    says the trace context (`traceparent`) of the request that goes out for a call now.
    """

    def __init__(
        self,
        config: OwnerConfig,
        endpoints: Sequence[Endpoint],
        *,
        hooks: Sequence[Hook] = (),
        on_turn: Callable[[float], None] | None = None,
        on_endpoint: Callable[[str, str, ModelError | None], None] | None = None,
        rng: random.Random | None = None,
        trace: Callable[[Call], str] | None = None,
    ) -> None:
        if not endpoints:
            raise ValueError(f"backend {config.name}: at least one endpoint is needed")
        self.config = config
        self.endpoints = tuple(endpoints)
        self.inbox = CallInbox(config.name)
        self._emit = Emitter(config.name, hooks)
        self._on_turn = on_turn
        self._on_endpoint = on_endpoint
        self._rng = rng or random.Random()
        self._trace = trace
        self._open: dict[Call, Attempt | None] = {}
        self._policy: Dispatcher | None = None
        self._slots: list[Slots] = []
        self._clocks_due = math.inf
        self._now: Callable[[], float] = trio.current_time
        self._troubled = False
        self._ending = False

    async def run(self, *, task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until it is closed and has finished everything, or is cancelled."""
        if self._policy is not None:
            raise RuntimeError(f"the owner of backend {self.config.name} has run already")
        self._now = trio.lowlevel.current_clock().current_time
        self._policy = make_policy(self.config, self.endpoints, self._rng, self._now())
        try:
            async with trio.open_nursery() as nursery:
                self._slots = [
                    Slots(endpoint.name, endpoint.backend.connect, nursery, self._trace) for endpoint in self.endpoints
                ]
                task_status.started()
                try:
                    await self._serve(self._policy)
                finally:
                    self._end_calls()
                    nursery.cancel_scope.cancel()
        finally:
            self._end_calls()

    def close(self) -> None:
        """Takes no new calls; `run` returns when the calls it holds are finished. Idempotent."""
        self.inbox.close()
        self.inbox.ring()

    def outage(self) -> ModelError | None:
        """Why no endpoint can serve anybody at the moment, if that is so; a fresh error for one caller."""
        return None if self._policy is None else self._policy.outage(trio.current_time())

    def prepare(self, dispatch: DispatchConfig, endpoints: Mapping[str, EndpointLimits]) -> Callable[[], None]:
        """Checks a change of limits, tenants, admission and retries, and returns what puts it in force.

        Raises `InvalidLimits`; then, and until the returned function is called, nothing has changed. That function
        does not fail and does not wait, so several owners change together or not at all. Endpoints that are not named
        stay as they are. A queued call that the new limits could never admit ends as `TooLarge`.
        """
        unknown = endpoints.keys() - {endpoint.name for endpoint in self.endpoints}
        if unknown:
            raise InvalidLimits(f"backend {self.config.name}", f"there is no endpoint {min(unknown)!r}")
        check_limits(dispatch, endpoints)
        return lambda: self._reconfigure(self.policy, dispatch, endpoints)

    def _reconfigure(
        self, policy: Dispatcher, dispatch: DispatchConfig, endpoints: Mapping[str, EndpointLimits]
    ) -> None:
        now = trio.current_time()
        for state in policy.endpoints:
            change = endpoints.get(state.name)
            if change is not None:
                state.limits.reconfigure(change.limits, change.in_flight, now)
                state.concurrency.configure(change.concurrency)
        policy.reconfigure(dispatch, now)
        for call, attempt in list(self._open.items()):
            error = policy.too_large(call.ticket) if attempt is None else None
            if error is not None:
                policy.drop(call.ticket, now)
                self._finish(call, error, now)
        self.inbox.ring()

    def forget(self, flow: Flow) -> None:
        """A run has ended: what was remembered for its next call is let go. Optional, as that memory is bounded."""
        if self._policy is not None:
            self._policy.fair.runs.drop(flow.tenant, flow.job, flow.run)

    def unsent(self) -> Iterator[Ticket]:
        """Calls that wait for their first attempt or for another one."""
        return (call.ticket for call, attempt in self._open.items() if attempt is None)

    @property
    def policy(self) -> Dispatcher:
        """The owner's decisions, to look at; changing anything there is the owner's business alone."""
        if self._policy is None:
            raise RuntimeError(f"the owner of backend {self.config.name} does not run yet")
        return self._policy

    def statistics(self) -> OwnerStatistics:
        """Counts and gauges at this moment."""
        return take_statistics(
            self.config.name,
            self.policy,
            waiting=self.inbox.waiting(),
            held=len(self._open),
            live=sum(attempt is not None for attempt in self._open.values()),
            now=trio.current_time(),
        )

    # Turns

    async def _serve(self, policy: Dispatcher) -> None:
        while True:
            now = self._now()
            for call in self.inbox.take_notes():
                self._look_at(policy, call, now)
            for call in self.inbox.take_submits(SUBMITS_PER_TURN):
                self._take_in(policy, call, now)
            for ticket in policy.expired(now):
                self._expire(ticket, now)
            if self._troubled:
                self._give_back(policy, now)
            if now >= self._clocks_due:
                self._check_clocks(now)
            wake_at = min(self._start_ready(policy, now), self._clocks_due)
            if self._on_turn is not None:
                self._on_turn(self._now() - now)
            if self.inbox.closed and not self._open and not self.inbox.waiting():
                return
            await self.inbox.wait(wake_at)

    def _take_in(self, policy: Dispatcher, call: Call, now: float) -> None:
        if call.abandoned:
            return
        self._open[call] = None
        answer = policy.admit(call, now)
        if isinstance(answer, ModelError):
            self._finish(call, answer, now)
            return
        self._emit("queued", call.ticket, now)
        for evicted in answer.evicted:
            self._finish(evicted.ticket.call, evicted.error, now)

    def _start_ready(self, policy: Dispatcher, now: float) -> float:
        while True:
            decision = policy.next(now)
            if not isinstance(decision, Start):
                return decision.at if isinstance(decision, WaitUntil) else math.inf
            self._start(decision.ticket, decision.endpoint, now)

    def _start(self, ticket: Ticket, endpoint: EndpointState, now: float) -> None:
        call: Call = ticket.call
        attempt = Attempt(
            call, endpoint.name, self.config.clocks, self.inbox.note, self._now, now=now, delivered=ticket.delivered
        )
        self._open[call] = attempt
        call.sent += 1
        self._clocks_due = min(self._clocks_due, attempt.due())
        self._slots[endpoint.index].start(attempt)
        waited = now - ticket.eligible_since
        ticket.waited += waited
        self._emit("started", ticket, now, waited=waited)

    def _give_back(self, policy: Dispatcher, now: float) -> None:
        """Ends the calls for which waiting is of no use while no endpoint serves anybody (see `policy.outage`).

        An outage is told once; refusals of everybody hold for those who come later as well.
        """
        down = policy.outage(now)
        self._troubled = isinstance(down, Refused)
        if down is None:
            return
        for call, attempt in list(self._open.items()):
            error = policy.useless_to_wait(call, now) if attempt is None else None
            if error is not None:
                policy.drop(call.ticket, now)
                self._finish(call, error, now)

    def _check_clocks(self, now: float) -> None:
        """Ends the attempts whose clock has run out, and finds the next time to look.

        An attempt moves its clocks without a word, so a look may find nothing. It comes once in a clock's length, and
        costs less than keeping all clocks in order would.
        """
        # a reader may hold an attempt's clock still for as long as it likes, so look again within one silence
        nearest = now + self.config.clocks.silence if self._open else math.inf
        for attempt in self._open.values():
            if attempt is None or attempt.outcome is not None:
                continue
            due = attempt.due()
            if due <= now:
                attempt.expire(now)
            elif due < nearest:
                nearest = due
        self._clocks_due = nearest

    def _look_at(self, policy: Dispatcher, call: Call, now: float) -> None:
        """Acts on whatever has happened to a call since it was last looked at."""
        if call not in self._open:
            return
        ticket: Ticket = call.ticket
        attempt = self._open[call]
        if attempt is None:
            if call.abandoned:
                policy.drop(ticket, now)
                self._finish(call, CallerGone("the caller left the queue"), now)
            return
        if ticket.stage != "streaming" and attempt.first_token_at is not None:
            at = attempt.first_token_at
            self._emit("first_token", ticket, at, seconds=at - ticket.started)
        if attempt.outcome is not None:
            self._ended(policy, ticket, attempt, attempt.outcome, now)
            return
        policy.progressed(ticket, attempt, now)
        if call.abandoned:
            attempt.abandon()

    def _ended(
        self, policy: Dispatcher, ticket: Ticket, attempt: Attempt, outcome: ModelReply | ModelError, now: float
    ) -> None:
        call: Call = ticket.call
        ticket.delivered = attempt.delivered
        breaker = ticket.endpoint.breaker
        was_closed = breaker.closed
        answer = policy.ended(ticket, attempt, outcome, now)
        if breaker.closed != was_closed and self._on_endpoint is not None:
            why = outcome if isinstance(outcome, ModelError) else None
            self._on_endpoint(self.config.name, ticket.endpoint.name, why if was_closed else None)
        if not isinstance(outcome, ModelError):
            self._finish(call, outcome, now)
            return
        if attempt.written_at is None or not may_have_worked(outcome):
            call.sent -= 1
        if isinstance(outcome, Unavailable) or (isinstance(outcome, Refused) and outcome.endpoint_fault):
            self._troubled = True
        kind, seconds = outcome.kind, now - ticket.started
        self._emit("attempt_failed", ticket, now, outcome=kind, seconds=seconds, usage=outcome.usage)
        if isinstance(answer, RetryAt) and not (call.abandoned or self._ending):
            self._open[call] = None
            self._emit("retrying", ticket, now, outcome=kind, seconds=answer.at - now)
            return
        if isinstance(answer, RetryAt):
            policy.drop(ticket, now)
        self._finish(call, answer.error if isinstance(answer, GiveUp) else outcome, now)

    def _expire(self, ticket: Ticket, now: float) -> None:
        waited = now - ticket.arrived
        ticket.waited = waited
        reason = f", held by {ticket.held_by}" if ticket.held_by else ""
        error = QueueTimeout(f"backend {self.config.name}: the deadline passed after {waited:.1f} s in queue{reason}")
        self._finish(ticket.call, error, now)

    # Endings

    def _finish(self, call: Call, outcome: ModelReply | ModelError, now: float) -> None:
        """The one place where a call leaves the owner. Idempotent."""
        if call not in self._open:
            return
        del self._open[call]
        call.resolve(outcome)
        ticket: Ticket = call.ticket
        seconds, waited = now - ticket.arrived, ticket.waited
        if isinstance(outcome, ModelError):
            self._emit("finished", ticket, now, outcome=outcome.kind, seconds=seconds, waited=waited)
        else:
            self._emit("finished", ticket, now, outcome="ok", seconds=seconds, waited=waited, usage=outcome.usage)

    def _end_calls(self) -> None:
        """Finishes every call there is, those still in the inbox included, and lets no more in."""
        self._ending = True
        now = trio.current_time()
        reason = f"backend {self.config.name}: its owner has ended"
        for call in self.inbox.break_off():
            call.resolve(OwnerClosed(reason))
        for call, attempt in list(self._open.items()):
            if attempt is None:
                self.policy.drop(call.ticket, now)
                self._finish(call, OwnerClosed(reason), now)
            else:
                self._ended(self.policy, call.ticket, attempt, attempt.outcome or OwnerClosed(reason), now)

    def __repr__(self) -> str:
        return f"<Owner {self.config.name} open={len(self._open)} {self.inbox!r}>"
