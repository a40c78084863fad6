"""One live call's progress and end, seen in everybody's books."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from agents.errors import SilenceTimeout, Throttled
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.port import Call, Flow
from orchestrator.policy.breaker import Breaker, BreakerConfig
from orchestrator.policy.concurrency import Concurrency, ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig, TenantConfig
from orchestrator.policy.dispatch import Dispatcher, Start
from orchestrator.policy.endpoints import EndpointState
from orchestrator.policy.estimate import Estimator
from orchestrator.policy.feedback import Reading
from orchestrator.policy.limits import InFlightSpec, LimitSet, LimitSetStatistics, LimitSpec
from orchestrator.policy.ticket import Ticket


@dataclass
class Seen:
    """What an attempt has written down."""

    written_at: float | None = None
    headers_at: float | None = None
    first_token_at: float | None = None
    streamed: int = 0
    usage_so_far: Usage | None = None
    readings: Sequence[Reading] = ()


class Desk:
    """A dispatcher of one endpoint with a minute's limit of 10,000 tokens, where tenant acme has 5,000 of its own."""

    def __init__(self) -> None:
        limits = LimitSet([LimitSpec("total_tokens", 10_000)], InFlightSpec(calls=8), now=0.0)
        self.endpoint = EndpointState(0, "e", limits, Concurrency(ConcurrencyConfig(fixed=8)), Breaker(BreakerConfig()))
        own = TenantConfig(limits=(LimitSpec("total_tokens", 5_000),))
        self.policy = Dispatcher(
            DispatchConfig(tenants={"acme": own}),
            [self.endpoint],
            estimator=Estimator(),
            rng=random.Random(1),
            now=0.0,
        )

    def dispatch(self, now: float = 0.0) -> Ticket:
        """A call of 400 bytes and at most 100 tokens of output, sent."""
        request = ModelRequest("m", (Message("user", "x" * 400),), max_tokens=100)
        call = Call(request, Flow("acme", "job", "run"))
        self.policy.admit(call, now)
        decision = self.policy.next(now)
        assert isinstance(decision, Start)
        return decision.ticket

    def books(self, now: float) -> tuple[LimitSetStatistics, LimitSetStatistics]:
        """The endpoint's and the tenant's."""
        return self.endpoint.limits.statistics(now), self.policy.tenant_limits["acme"].statistics(now)

    def service(self) -> float:
        return self.policy.fair.tenants()["acme"].service


def reply(usage: Usage) -> ModelReply:
    return ModelReply(Message("assistant", "x"), "stop", usage)


def test_progress_is_booked_at_the_endpoint_and_the_tenant() -> None:
    """Headers move the amount from held to used, the first token ends the wait for it, usage corrects the input."""
    desk = Desk()
    ticket = desk.dispatch()
    bound = ticket.whole_input + 100
    assert [book.limits[0].held for book in desk.books(0.0)] == [bound, bound]

    seen = Seen(written_at=0.1, headers_at=0.5)
    desk.policy.progressed(ticket, seen, 0.5)
    assert [(b.limits[0].held, b.limits[0].used) for b in desk.books(0.5)] == [(0, bound)] * 2
    assert [book.awaiting_first_token for book in desk.books(0.5)] == [1, 1]

    seen.first_token_at, seen.streamed = 1.0, 1
    desk.policy.progressed(ticket, seen, 1.0)
    assert [book.awaiting_first_token for book in desk.books(1.0)] == [0, 0]

    seen.usage_so_far = Usage(input=70)
    desk.policy.progressed(ticket, seen, 1.1)
    assert [book.limits[0].used for book in desk.books(1.1)] == [170, 170]


def test_progress_told_again_changes_nothing() -> None:
    """Notes may come more than once for the same thing."""
    desk = Desk()
    ticket = desk.dispatch()
    seen = Seen(0.1, 0.5, 1.0, 5, Usage(input=70))
    desk.policy.progressed(ticket, seen, 1.0)
    before = desk.books(1.0), desk.service()
    desk.policy.progressed(ticket, seen, 1.0)
    assert (desk.books(1.0), desk.service()) == before


def test_a_call_that_ends_at_once_is_booked_like_one_that_was_watched() -> None:
    """Whether progress was told in between or all came with the end, the books are the same afterwards."""
    results = []
    for watched in (True, False):
        desk = Desk()
        ticket = desk.dispatch()
        usage = Usage(input=60, cached=20, output=30)
        seen = Seen(0.1, 0.5, 0.6, 3, usage)
        if watched:
            desk.policy.progressed(ticket, Seen(0.1, 0.5), 0.5)
            desk.policy.progressed(ticket, Seen(0.1, 0.5, 0.6, 3, usage), 0.6)
        assert desk.policy.ended(ticket, seen, reply(usage), 2.0) is None
        held = [(book.in_flight_calls, book.tokens_in_flight, book.limits[0].held) for book in desk.books(2.0)]
        assert held == [(0, 0, 0)] * 2
        assert [book.limits[0].used for book in desk.books(60.0)] == [110, 110]
        # stamped by the headers, which came after half a second
        assert [book.limits[0].used for book in desk.books(60.6)] == [0, 0]
        results.append((desk.service(), desk.policy.estimator.ratio))
    assert results[0] == results[1]
    assert results[0][0] == 60 + 2 + 60


def test_output_beyond_the_prediction_is_charged_as_it_streams() -> None:
    """A tenant whose answers are longer than thought loses its turn while they come, not only when they have ended."""
    desk = Desk()
    ticket = desk.dispatch()
    seen = Seen(0.1, 0.5, 1.0, int(ticket.output))
    desk.policy.progressed(ticket, seen, 1.0)
    before = desk.service()
    for _ in range(2):
        seen.streamed += 10
        desk.policy.progressed(ticket, seen, 1.0)
    assert desk.service() == before + 2 * 20


def test_a_refused_attempt_is_given_back_and_teaches_nothing() -> None:
    """After a 429 neither fairness nor limits hold anything of it, and the run remembers no endpoint."""
    desk = Desk()
    ticket = desk.dispatch()
    ratio = desk.policy.estimator.ratio
    desk.policy.ended(ticket, Seen(0.1, 0.5), Throttled("429"), 1.0)
    assert [(b.in_flight_calls, b.limits[0].held, b.limits[0].used) for b in desk.books(1.0)] == [(0, 0, 0)] * 2
    assert desk.service() == 0.0
    assert desk.policy.estimator.ratio == ratio
    assert ticket.run_state is not None
    assert ticket.run_state.endpoint is None


def test_an_attempt_that_fell_silent_keeps_what_it_reserved() -> None:
    """Nobody knows what was used of it, so the limits count all; fairness charges the input and what came."""
    desk = Desk()
    ticket = desk.dispatch()
    bound = ticket.whole_input + 100
    desk.policy.ended(ticket, Seen(0.1, 0.5, 1.0, 4), SilenceTimeout("nothing came"), 30.0)
    assert [(b.in_flight_calls, b.limits[0].held, b.limits[0].used) for b in desk.books(30.0)] == [(0, 0, bound)] * 2
    assert desk.service() == ticket.input + 2 * 4
    assert ticket.run_state is not None
    assert (ticket.run_state.endpoint, ticket.run_state.previous_input) == (0, ticket.input)


def test_readings_reach_the_endpoint_not_the_tenant() -> None:
    """What a provider says of its limits says nothing of our own; each reading is taken once."""
    desk = Desk()
    ticket = desk.dispatch()
    seen = Seen(0.1, 0.5, readings=(Reading("total_tokens", limit=10_000, remaining=1_000),))
    desk.policy.progressed(ticket, seen, 0.5)
    assert seen.readings == ()
    endpoint, tenant = desk.books(0.5)
    assert endpoint.limits[0].foreign > 8_000
    assert tenant.limits[0].foreign == 0.0


def test_a_call_ages_from_a_second_after_its_write() -> None:
    """A provider that answers after half a minute has counted the call long before."""
    desk = Desk()
    usage = Usage(input=60, output=30)
    desk.policy.ended(desk.dispatch(), Seen(0.1, 30.0, 30.0, 3, usage), reply(usage), 31.0)
    assert [book.limits[0].used for book in desk.books(61.0)] == [90, 90]
    assert [book.limits[0].used for book in desk.books(61.2)] == [0, 0]
