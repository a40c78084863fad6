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
- A run that waits for its own endpoint may be passed by anybody, for `sticky_seconds`; so may the call of a tenant at
  its share while a local engine keeps room free (`headroom`).

Where a limit is full of *live* calls there is no time at which to look again; blocked calls are looked at at every
settlement. So the answer of a fruitless look is kept until something changes.

Known limit: at most `SCAN` tenants behind a blocked head are looked at, so with very many tenants of large calls a
small call far back may wait although it would fit. And a call is dropped at its deadline and not before: where more
has a deadline than can be served, calls go out that cannot end in time any more, and take room from those that could.
"""

import math
import random
from collections.abc import Sequence

from msgspec.structs import replace

from agents.errors import ModelError, TooLarge
from agents.messages import ModelReply
from agents.port import Call
from orchestrator.policy.accounts import Accounts
from orchestrator.policy.admission import Admission, Admitted
from orchestrator.policy.after_failure import AfterFailure
from orchestrator.policy.booking import AttemptView, Booking
from orchestrator.policy.config import DispatchConfig, TenantConfig
from orchestrator.policy.decision import IDLE, Decision, Idle, Start, WaitUntil
from orchestrator.policy.endpoints import ALONE, CLOSED_OFF, EndpointState, Placement
from orchestrator.policy.estimate import Estimator
from orchestrator.policy.fair_config import FairConfig
from orchestrator.policy.fairness import FairQueue
from orchestrator.policy.limits import Blocked, LimitSet
from orchestrator.policy.outage import outage, useless_to_wait
from orchestrator.policy.oversize import too_large
from orchestrator.policy.pace import Pace
from orchestrator.policy.parking import Parking
from orchestrator.policy.passing import may_pass
from orchestrator.policy.retry import GiveUp, RetryAt
from orchestrator.policy.sizing import Sizing
from orchestrator.policy.tenant_limits import set_tenant_limits
from orchestrator.policy.ticket import Ticket
from orchestrator.policy.timers import Timers
from orchestrator.policy.waits import MOMENT, RETRY, TENANT_LIMIT, Reasons

__all__ = ["DispatchConfig", "Dispatcher", "Idle", "Start", "TenantConfig", "WaitUntil"]

SCAN = 32


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
        self.fair = FairQueue(_with_weights(config))
        self.tenant_limits: dict[str, LimitSet] = {}
        set_tenant_limits(self.tenant_limits, config.tenants, now)
        self._sizing = Sizing(config, estimator, self.fair.runs)
        self._booking = Booking(self.fair, estimator, config.weights)
        self._placement = Placement(endpoints, config.sticky_seconds)
        self._after = AfterFailure(config.retry, self.endpoints, self._placement, rng)
        self.admission = Admission(config.admission, weight=self.fair.weight, work=self._sizing.service)
        self.reasons = Reasons(now)
        self.pace = Pace(now)
        self.accounts = Accounts()
        self._parking = Parking(self.fair, self.reasons)
        self._retries: Timers[Ticket] = Timers(lambda ticket: ticket.state == "waiting")
        self._deadlines: Timers[Ticket] = Timers(lambda ticket: ticket.state != "done")
        self._headrooms = [endpoint.headroom for endpoint in endpoints if endpoint.headroom is not None]
        self._quiet_until = -math.inf

    # A call arrives

    def admit(self, call: Call, now: float) -> Admitted | ModelError:
        """Makes the call's ticket and queues it, or says why it can't be; names queued calls that had to make room."""
        ticket = self._sizing.ticket(call, now)
        answer = self.too_large(ticket) or self._nobody_serves(call, now) or self.admission.admit(ticket, now)
        if not isinstance(answer, Admitted):
            ticket.state = "done"
            return answer
        for evicted in answer.evicted:
            self.drop(evicted.ticket, now)
        if ticket.deadline < math.inf:
            self._deadlines.add(ticket.deadline, ticket)
        self._enqueue(ticket, now)
        return answer

    def _nobody_serves(self, call: Call, now: float) -> ModelError | None:
        """An agent's call can only wait until an endpoint is back; everybody else has something better to do."""
        return self.outage(now) if call.elsewhere or not call.agent else None

    def too_large(self, ticket: Ticket) -> TooLarge | None:
        """Why no limit could ever admit the call, if that is so."""
        return too_large(ticket, self.tenant_limits.get(ticket.tenant), self.endpoints)

    def _enqueue(self, ticket: Ticket, now: float) -> None:
        self._sizing.expect_cached(ticket)
        ticket.state = "queued"
        ticket.eligible_since = now
        ticket.streamed = 0.0
        account = ticket.account = self.accounts.of(ticket.tenant)
        ticket.own_before = account.sent
        ticket.all_before = self.accounts.sent
        self.fair.push(ticket, now)
        for headroom in self._headrooms:
            headroom.queued(ticket.tenant, now)
        self._quiet_until = -math.inf

    # What goes next

    def next(self, now: float) -> Decision:
        """The next call to send, with everything it needs reserved; or how long there is none."""
        if now >= self._retries.next() or now >= self._parking.next():
            self._bring_back(now)
        if now < self._quiet_until:
            return self._rest()
        head = self.fair.head()
        if head is None:
            self._quiet_until = math.inf
            if self.reasons.backend.what:
                self._found("", now)
            return self._rest()
        own = self.tenant_limits.get(head.tenant)
        if own is None or own.check(head, now) is None:
            # by far the most frequent case, and the cheapest: the head simply goes
            place = self._placement.place(head, now)
            if isinstance(place, EndpointState):
                return self._start(head, place, own, now)
        return self._look_on(now)

    def _look_on(self, now: float) -> Decision:
        """Goes through the calls in order until one may start."""
        head: Ticket | None = None
        obstacle: Blocked | None = None
        look_again = math.inf
        holds = ""
        for seen, ticket in enumerate(self.fair.candidates()):
            if seen >= SCAN:
                break
            own = self.tenant_limits.get(ticket.tenant)
            if own is not None:
                blocked = own.check(ticket, now)
                if blocked is not None:
                    ticket.held_by = f"tenant {blocked.limit}"
                    self._parking.park(ticket.tenant, blocked, now)
                    continue
            place = self._placement.place(ticket, now)
            if isinstance(place, EndpointState):
                if obstacle is None or head is None or may_pass(ticket, head, obstacle, self.endpoints):
                    return self._start(ticket, place, own, now)
                continue
            ticket.held_by = place.limit
            holds = holds or place.limit
            look_again = min(look_again, place.until)
            if place.short_of == "in_flight":
                break
            if head is None and place.limit not in ALONE:
                head, obstacle = ticket, place
        self._quiet_until = look_again
        if holds != self.reasons.backend.what or holds in CLOSED_OFF:
            self._found(holds, now)
        return self._rest()

    def _found(self, holds: str, now: float) -> None:
        """From a fruitless look: this holds the call that would go next now, or there is none."""
        self.reasons.backend.note(holds, now)
        moving = holds != "" and (holds not in CLOSED_OFF or any(endpoint.is_open(now) for endpoint in self.endpoints))
        self.pace.waits(moving, now)

    def _start(self, ticket: Ticket, endpoint: EndpointState, own: LimitSet | None, now: float) -> Start:
        self._sizing.renew(ticket)
        ticket.lease = endpoint.start(ticket, own, now)
        service = self._sizing.service(ticket)
        self.fair.start(ticket, service)
        ticket.account.sent += service
        self.accounts.sent += service
        for headroom in self._headrooms:
            headroom.unqueued(ticket.tenant)
        if not ticket.agent:
            self.admission.release(ticket, now, sent=True)
        if now - ticket.eligible_since > MOMENT:
            self.reasons.queued(ticket, self.accounts.sent, now)
        ticket.state = "live"
        ticket.stage = "sent"
        ticket.started = now
        ticket.attempts += 1
        return Start(ticket, endpoint)

    def _rest(self) -> Decision:
        at = min(self._quiet_until, self._retries.next(), self._parking.next(), self._deadlines.next())
        return WaitUntil(at) if at < math.inf else IDLE

    # Waiting and coming back

    def _bring_back(self, now: float) -> None:
        if self._retries.next() <= now:
            for ticket in self._retries.due(now):
                self.reasons.between_attempts(ticket, now)
                self.admission.rejoin(ticket, now)
                self._enqueue(ticket, now)
        if self._parking.next() <= now and self._parking.release_due(now):
            self._quiet_until = -math.inf

    def expired(self, now: float) -> list[Ticket]:
        """Calls whose deadline passed before they were dispatched, taken out of the queue."""
        late = [ticket for ticket in self._deadlines.due(now) if ticket.state in ("queued", "waiting")]
        for ticket in late:
            self.drop(ticket, now)
        return late

    def useless_to_wait(self, call: Call, now: float) -> ModelError | None:
        """Why a call that waits should wait no longer, if that is so; a fresh error for its caller."""
        return useless_to_wait(call, self.endpoints, now)

    def outage(self, now: float) -> ModelError | None:
        """Why no endpoint can serve anybody at the moment, if that is so; a fresh error for one caller."""
        return outage(self.endpoints, now)

    def drop(self, ticket: Ticket, now: float) -> None:
        """Takes a call that is queued, or waits for its retry, out of everything."""
        if ticket.state == "queued":
            self.admission.release(ticket, now, sent=False)
            self.fair.discard(ticket)
            self.reasons.queued(ticket, self.accounts.sent, now)
            for headroom in self._headrooms:
                headroom.unqueued(ticket.tenant)
            # the head may have been in somebody's way
            self._quiet_until = -math.inf
        elif ticket.state == "waiting":
            self._retries.forget()
            self.reasons.between_attempts(ticket, now)
        self._finish(ticket)

    # A live call tells

    def progressed(self, ticket: Ticket, attempt: AttemptView, now: float) -> None:
        """Books what an attempt has written down so far. What may free room ends the rest of a fruitless look."""
        if self._booking.progressed(ticket, attempt, now):
            self._quiet_until = -math.inf
            self._parking.release(ticket.tenant, now)

    def ended(
        self, ticket: Ticket, attempt: AttemptView, outcome: ModelReply | ModelError, now: float
    ) -> RetryAt | GiveUp | None:
        """Settles an ended attempt everywhere. None: the call has its reply; otherwise what follows its failure."""
        error = outcome if isinstance(outcome, ModelError) else None
        service = self._booking.ended(ticket, attempt, outcome, now).service
        if service > 0.0:
            ticket.account.ended(service)
            self.pace.ended(service, now)
        probed_after = None if error is None else ticket.endpoint.breaker.probed_after(sent=ticket.started)
        ticket.endpoint.ended(ticket, error, now)
        self._quiet_until = -math.inf
        self._parking.release(ticket.tenant, now)
        if error is None:
            self._finish(ticket)
            return None
        never = self.too_large(ticket)  # a limit may have been lowered meanwhile
        answer = GiveUp(never) if never is not None else self._after.follows(error, ticket, probed_after, now)
        if isinstance(answer, RetryAt):
            ticket.state = "waiting"
            ticket.held_by = RETRY
            ticket.eligible_since = now
            self._retries.add(answer.at, ticket)
        else:
            self._finish(ticket)
        return answer

    def _finish(self, ticket: Ticket) -> None:
        ticket.state = "done"
        if ticket.deadline < math.inf:
            self._deadlines.forget()

    # Changes while it runs

    def reconfigure(self, config: DispatchConfig, now: float) -> None:
        """Puts another configuration of tenants, admission and retries in force; the rest of it is not looked at.

        A queued call may be too large for the new limits: see `too_large`.
        """
        old, self._config = self._config, config
        set_tenant_limits(self.tenant_limits, config.tenants, now)
        self._sizing.configure(config)
        self.admission.configure(config.admission)
        self._after.config = config.retry
        weights = _with_weights(config).weights
        for tenant in {*_with_weights(old).weights, *weights}:
            self.fair.set_weight(tenant, weights.get(tenant, 1.0))
        for headroom in self._headrooms:
            headroom.reweigh(weights)
        self._parking.release_all(now)
        self.look_again()

    def look_again(self) -> None:
        """Something changed that may let a call go that could not go before."""
        self._quiet_until = -math.inf

    @property
    def held_by(self) -> str:
        """What holds the call that would go next: an obstacle, or `tenant_limit` where all who wait are at limits of
        their own; empty where nobody waits."""
        return (self.reasons.backend.what or TENANT_LIMIT) if len(self.fair) else ""

    def held_until(self, now: float) -> float | None:
        """In how many seconds that call is looked at again at the latest; None if only an answer can free it."""
        until = self._quiet_until if self.reasons.backend.what else self._parking.next()
        return max(0.0, until - now) if until < math.inf and len(self.fair) else None

    @property
    def retrying(self) -> int:
        """Calls that wait for their next attempt, outside the queue."""
        return len(self._retries)

    def __repr__(self) -> str:
        return f"<Dispatcher queued={len(self.fair)} retrying={len(self._retries)} {self._parking!r}>"


def _with_weights(config: DispatchConfig) -> FairConfig:
    """The fair order's configuration with the tenants' weights in it."""
    weights = {name: tenant.weight for name, tenant in config.tenants.items()}
    return replace(config.fair, weights={**weights, **config.fair.weights})
