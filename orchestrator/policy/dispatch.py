"""Which call goes out next, and where: the owner's one decision, made from all the others.

`Dispatcher` composes the fair order, the limits of endpoints and tenants, estimates, admission and retry. It answers
`Start(ticket, endpoint)`, `WaitUntil(t)` or `Idle`, and is told of everything that happens to a call. It is a plain
function of its state and the `now` it is given.

Obstacles, and whom they stop:

- A tenant at its **own** limit is parked until that limit has room, and blocks nobody.
- A head short of room **in flight** blocks everybody: whoever passed it would take the room it waits for.
- A head short of a **minute limit's tokens** may be passed by later calls in order, as long as their total since it
  became head is at most its own size. So the tokens that trickle in are used while a large call waits for many, and
  small calls never starve it: it waits at most as long as if it had been twice its size.
- A run that waits for its own endpoint (`sticky`) may be passed by anybody, for `sticky_seconds`.

Where a limit is full of *live* calls there is no time at which to look again; blocked calls are looked at at every
settlement. So the answer of a fruitless look is kept until something changes.

Known limit: at most `SCAN` tenants behind a blocked head are looked at, so with very many tenants of large calls a
small call far back may wait although it would fit.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from agents.errors import ModelError, Refused, TooLarge
from agents.messages import ModelReply, Usage
from agents.port import Call, Priority
from orchestrator.policy.admission import Admission, AdmissionConfig, Admitted
from orchestrator.policy.endpoints import EndpointState, Placement
from orchestrator.policy.estimate import Estimator, ServiceWeights
from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.feedback import Reading
from orchestrator.policy.limits import Blocked, InFlightSpec, Lease, LimitSet, LimitSpec
from orchestrator.policy.retry import GiveUp, RetryAt, RetryConfig, decide
from orchestrator.policy.settlement import Settlement, settle
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.timers import Timers

SCAN = 32


class Start(Struct, frozen=True, gc=False):
    """Send this call to this endpoint now; all it needs is reserved."""

    ticket: Ticket
    endpoint: EndpointState


class WaitUntil(Struct, frozen=True, gc=False):
    """Nothing can start before `at`, unless something changes."""

    at: float


class Idle(Struct, frozen=True, gc=False):
    """Nothing can start until something changes."""


class Attempt(Protocol):
    """What the policy reads of a live attempt; times on the owner's clock, None while it has not happened."""

    written_at: float | None
    headers_at: float | None
    first_token_at: float | None
    streamed: int
    usage_so_far: Usage | None
    readings: Sequence[Reading]


Decision = Start | WaitUntil | Idle
IDLE = Idle()


class TenantConfig(Struct, frozen=True):
    """What a tenant may use of one backend. `highest_priority` caps what its calls may ask for."""

    weight: float = 1.0
    limits: tuple[LimitSpec, ...] = ()
    in_flight: InFlightSpec | None = None
    highest_priority: Priority = Priority.INTERACTIVE


class DispatchConfig(Struct, frozen=True):
    """`default_max_tokens` bounds a call that names none, in tokens; `sticky_seconds` is a run's loyalty."""

    fair: FairConfig = field(default_factory=FairConfig)
    tenants: Mapping[str, TenantConfig] = {}
    weights: ServiceWeights = field(default_factory=ServiceWeights)
    retry: RetryConfig = field(default_factory=RetryConfig)
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    default_max_tokens: int = 4096
    sticky_seconds: float = 2.0


class Dispatcher:
    """The policy of one backend. Times are on the owner's clock, amounts in tokens."""

    def __init__(
        self,
        config: DispatchConfig,
        endpoints: Sequence[EndpointState],
        *,
        estimator: Estimator,
        rng: random.Random,
        now: float,
    ) -> None:
        self._config = config
        self.endpoints = tuple(endpoints)
        self.estimator = estimator
        self._rng = rng
        self._fair_config = _with_weights(config)
        self.fair = FairQueue(self._fair_config)
        self._placement = Placement(endpoints, config.sticky_seconds)
        self.tenant_limits = {
            name: LimitSet(tenant.limits, tenant.in_flight, now=now, cv=lambda: estimator.cv)
            for name, tenant in config.tenants.items()
            if tenant.limits or tenant.in_flight is not None
        }
        self._parked_by: dict[str, Blocked] = {}
        self.admission = Admission(config.admission, weight=self._weight, work=self._service)
        self._retries: Timers[Ticket] = Timers(lambda ticket: ticket.state == "waiting")
        self._deadlines: Timers[Ticket] = Timers(lambda ticket: ticket.state != "done")
        self._parked: Timers[str] = Timers(self._parked_by.__contains__)
        self._seq = 0
        self._quiet_until = -math.inf

    # A call arrives

    def ticket(self, call: Call, now: float) -> Ticket:
        """A ticket for a call just taken from the inbox, sized by what has been learned so far."""
        request, flow = call.request, call.flow
        self._seq += 1
        size = request.input_bytes()
        tokens, sigma = self.estimator.input(size, len(request.messages))
        bound = request.max_tokens if request.max_tokens is not None else self._config.default_max_tokens
        tenant = self._config.tenants.get(flow.tenant)
        priority = call.priority
        if tenant is not None and priority < tenant.highest_priority:
            priority = tenant.highest_priority
        ticket = Ticket(
            seq=self._seq,
            tenant=flow.tenant,
            job=flow.job,
            run=flow.run,
            priority=priority,
            arrived=now,
            deadline=call.deadline,
            bytes=size,
            input=tokens,
            input_sigma=sigma,
            output=self.estimator.output((flow.tenant, flow.job), bound),
            max_output=bound,
            agent=call.agent,
            call=call,
        )
        ticket.run_state = self.fair.runs.use(flow.tenant, flow.job, flow.run)
        call.ticket = ticket
        return ticket

    def admit(self, ticket: Ticket, now: float) -> Admitted | ModelError:
        """Queues the call, or says why it can't be; names the queued calls that had to make room for it."""
        answer = self._too_large(ticket) or self.admission.admit(ticket, now)
        if not isinstance(answer, Admitted):
            ticket.state = "done"
            return answer
        for evicted in answer.evicted:
            self.drop(evicted.ticket, now)
        if ticket.deadline < math.inf:
            self._deadlines.add(ticket.deadline, ticket)
        self._enqueue(ticket, now)
        return answer

    def _too_large(self, ticket: Ticket) -> TooLarge | None:
        own = self.tenant_limits.get(ticket.tenant)
        message = own.too_large(ticket) if own is not None else None
        if message is not None:
            return TooLarge(f"tenant {ticket.tenant}: {message}")
        for endpoint in self.endpoints:
            message = endpoint.limits.too_large(ticket)
            if message is None:
                return None
        return TooLarge(f"endpoint {self.endpoints[-1].name}: {message}")

    def _enqueue(self, ticket: Ticket, now: float) -> None:
        state = ticket.run_state
        if state is not None and state.previous_input is not None:
            ticket.cached = self.estimator.cached(state.previous_input, ticket.input)
        ticket.state = "queued"
        ticket.eligible_since = now
        ticket.streamed = 0.0
        self.fair.push(ticket, now)
        self._quiet_until = -math.inf

    # What goes next

    def next(self, now: float) -> Decision:
        """The next call to send, with everything it needs reserved; or how long there is none."""
        self._bring_back(now)
        if now < self._quiet_until:
            return self._rest()
        head: Ticket | None = None
        obstacle: Blocked | None = None
        look_again = math.inf
        seen = 0
        for ticket in self.fair.candidates():
            own = self.tenant_limits.get(ticket.tenant)
            if own is not None:
                blocked = own.check(ticket, now)
                if blocked is not None:
                    self._park(ticket, blocked)
                    continue
            place = self._placement.place(ticket, self._preferred(ticket), now)
            if isinstance(place, EndpointState):
                if head is None or self._may_pass(ticket, head, obstacle):
                    return self._start(ticket, place, now)
            else:
                ticket.held_by = place.limit
                look_again = min(look_again, place.until)
                if place.short_of == "in_flight":
                    break
                if head is None and place.limit != "sticky":
                    head, obstacle = ticket, place
            seen += 1
            if seen >= SCAN:
                break
        self._quiet_until = look_again
        return self._rest()

    def _may_pass(self, ticket: Ticket, head: Ticket, obstacle: Blocked | None) -> bool:
        """Whether a call that fits may go before the head that does not; books it on the head if so."""
        assert obstacle is not None
        if obstacle.window is None or obstacle.amount <= 0:
            return False
        endpoint = self.endpoints[0] if len(self.endpoints) == 1 else self._owner_of(obstacle)
        share = endpoint.limits.amount_of(ticket, obstacle.window) / obstacle.amount
        if head.passed + share > 1.0:
            return False
        head.passed += share
        return True

    def _owner_of(self, obstacle: Blocked) -> EndpointState:
        for endpoint in self.endpoints:
            if endpoint.limits.owns(obstacle.window):
                return endpoint
        return self.endpoints[0]

    def _start(self, ticket: Ticket, endpoint: EndpointState, now: float) -> Start:
        endpoint.start(ticket, now)
        own = self.tenant_limits.get(ticket.tenant)
        ticket.tenant_lease = None if own is None else own.reserve(ticket, now)
        self.fair.start(ticket, self._service(ticket))
        self.admission.release(ticket, now, sent=True)
        ticket.state = "live"
        ticket.stage = "sent"
        ticket.started = now
        ticket.attempts += 1
        return Start(ticket, endpoint)

    def _rest(self) -> Decision:
        at = min(self._quiet_until, self._retries.next(), self._parked.next(), self._deadlines.next())
        return WaitUntil(at) if at < math.inf else IDLE

    def _service(self, ticket: Ticket) -> float:
        """What the call is expected to cost, in service units."""
        return self._config.weights.cost(ticket.input - ticket.cached, ticket.cached, ticket.output)

    def _weight(self, tenant: str) -> float:
        return self._fair_config.weights.get(tenant, 1.0)

    def _preferred(self, ticket: Ticket) -> int | None:
        return None if ticket.run_state is None else ticket.run_state.endpoint

    # Waiting and coming back

    def _bring_back(self, now: float) -> None:
        if self._retries.next() <= now:
            for ticket in self._retries.due(now):
                self.admission.rejoin(ticket, now)
                self._enqueue(ticket, now)
        if self._parked.next() <= now:
            for tenant in self._parked.due(now):
                self._unpark(tenant)

    def _park(self, ticket: Ticket, blocked: Blocked) -> None:
        ticket.held_by = f"tenant {blocked.limit}"
        self._parked_by[ticket.tenant] = blocked
        self.fair.park(ticket.tenant)
        if blocked.until < math.inf:
            self._parked.add(blocked.until, ticket.tenant)

    def _unpark(self, tenant: str) -> None:
        if self._parked_by.pop(tenant, None) is not None:
            self.fair.unpark(tenant)
            self._quiet_until = -math.inf

    def expired(self, now: float) -> list[Ticket]:
        """Calls whose deadline passed before they were dispatched, taken out of the queue."""
        late = [ticket for ticket in self._deadlines.due(now) if ticket.state in ("queued", "waiting")]
        for ticket in late:
            self.drop(ticket, now)
        return late

    def drop(self, ticket: Ticket, now: float) -> None:
        """Takes a call that is queued, or waits for its retry, out of everything."""
        if ticket.state == "queued":
            self.admission.release(ticket, now, sent=False)
            self.fair.discard(ticket)
            # the head may have been in somebody's way
            self._quiet_until = -math.inf
        elif ticket.state == "waiting":
            self._retries.forget()
        self._finish(ticket)

    # A live call tells

    def progressed(self, ticket: Ticket, attempt: Attempt, now: float) -> None:
        """Books what an attempt has written down so far. What may free room ends the rest of a fruitless look."""
        freed = False
        if attempt.headers_at is not None and ticket.stage == "sent":
            ticket.stage = "answering"
            freed = self._answering(ticket, attempt.written_at, attempt.headers_at)
        if attempt.readings:
            ticket.endpoint.limits.observe(attempt.readings, now)
            attempt.readings = ()
            freed = True
        if attempt.first_token_at is not None and ticket.stage != "streaming":
            ticket.stage = "streaming"
            for lease in _leases(ticket):
                freed |= lease.first_token(attempt.first_token_at)
        if attempt.streamed > ticket.streamed:
            self._streamed(ticket, attempt.streamed, now)
        usage = attempt.usage_so_far
        if usage is not None and usage.all_input is not None:
            for lease in _leases(ticket):
                freed |= lease.input_known(usage.all_input, now, cached=usage.cached or 0)
        if freed:
            self._quiet_until = -math.inf
            if ticket.tenant_lease is not None:
                self._unpark(ticket.tenant)

    def _answering(self, ticket: Ticket, written_at: float | None, headers_at: float) -> bool:
        freed = False
        for lease in _leases(ticket):
            if written_at is not None:
                lease.written(written_at)
            freed |= lease.headers(headers_at)
        return freed

    def _streamed(self, ticket: Ticket, streamed: float, now: float) -> None:
        more = streamed - ticket.streamed
        for lease in _leases(ticket):
            lease.streamed(more, now)
        beyond = streamed - max(ticket.output, ticket.streamed)
        ticket.streamed = streamed
        if beyond > 0:
            self.fair.charge(ticket, self._config.weights.w_out * beyond)

    def ended(self, ticket: Ticket, outcome: ModelReply | ModelError, now: float) -> RetryAt | GiveUp | None:
        """Settles an ended attempt everywhere. None: the call has its reply; otherwise what follows its failure."""
        booked = settle(ticket, outcome, self._config.weights)
        self._release(ticket, booked, now)
        error = outcome if isinstance(outcome, ModelError) else None
        endpoint: EndpointState = ticket.endpoint
        endpoint.ended(ticket, error, now)
        self.fair.settle(ticket, booked.service)
        self._learn(ticket, booked, endpoint)
        self._quiet_until = -math.inf
        if error is None:
            self._finish(ticket)
            return None
        answer = self._after(error, ticket, now)
        if isinstance(answer, RetryAt):
            ticket.state = "waiting"
            ticket.held_by = "retry"
            self._retries.add(answer.at, ticket)
        else:
            self._finish(ticket)
        return answer

    def _release(self, ticket: Ticket, booked: Settlement, now: float) -> None:
        for lease in _leases(ticket):
            lease.settle(input=booked.input, output=booked.output, now=now, worked=booked.worked, cached=booked.cached)
        ticket.endpoint_lease = None
        if ticket.tenant_lease is not None:
            ticket.tenant_lease = None
            self._unpark(ticket.tenant)

    def _learn(self, ticket: Ticket, booked: Settlement, endpoint: EndpointState) -> None:
        state = ticket.run_state
        previous = state.previous_input if state is not None else None
        if booked.usage is not None:
            self.estimator.observe(
                key=(ticket.tenant, ticket.job),
                bytes=ticket.bytes,
                messages=len(ticket.call.request.messages),
                usage=booked.usage,
                previous_input=previous,
            )
        if state is not None and booked.worked:
            state.endpoint = endpoint.index
            state.previous_input = ticket.input if booked.input is None else booked.input

    def _after(self, error: ModelError, ticket: Ticket, now: float) -> RetryAt | GiveUp:
        streamed = ticket.streamed > 0 and ticket.call.deltas is not None and not ticket.call.restartable
        endpoint_fault = isinstance(error, Refused) and error.endpoint_fault
        if endpoint_fault and not streamed and ticket.attempts < len(self.endpoints):
            # the endpoint is at fault, not the request: its breaker is open now, another one may take the call
            if any(endpoint.breaker.allows(now) for endpoint in self.endpoints):
                return RetryAt(now)
        return decide(
            error,
            attempt=ticket.attempts,
            streamed=streamed,
            now=now,
            deadline=ticket.deadline,
            config=self._config.retry,
            rng=self._rng,
        )

    def _finish(self, ticket: Ticket) -> None:
        ticket.state = "done"
        if ticket.deadline < math.inf:
            self._deadlines.forget()

    def __repr__(self) -> str:
        return f"<Dispatcher queued={len(self.fair)} retrying={len(self._retries)} parked={sorted(self._parked_by)}>"


def _leases(ticket: Ticket) -> Iterator[Lease]:
    if ticket.endpoint_lease is not None:
        yield ticket.endpoint_lease
    if ticket.tenant_lease is not None:
        yield ticket.tenant_lease


def _with_weights(config: DispatchConfig) -> FairConfig:
    """The fair order's configuration with the tenants' weights in it."""
    weights = {name: tenant.weight for name, tenant in config.tenants.items()}
    return replace(config.fair, weights={**weights, **config.fair.weights})
