"""What an ended attempt is booked as, by its end."""

import pytest

from agents.errors import (
    CallerGone,
    CallTimeout,
    ConnectTimeout,
    ModelError,
    Overloaded,
    OwnerClosed,
    Refused,
    SilenceTimeout,
    Throttled,
    Truncated,
    Unavailable,
)
from agents.messages import Message, ModelReply, Usage
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.settlement import settle
from orchestrator.policy.ticket import Ticket

WEIGHTS = ServiceWeights(w_in=1.0, w_cached=0.1, w_out=2.0)


def ticket(*, streamed: float = 0.0) -> Ticket:
    """A call of an estimated 100 tokens of input, 40 of them from a cache, and 50 of output."""
    made = Ticket(seq=1, tenant="a", input=100.0, cached=40.0, output=50.0, max_output=80)
    made.streamed = streamed
    return made


def reply(usage: Usage) -> ModelReply:
    return ModelReply(Message("assistant", "x"), "stop", usage)


def test_a_reply_is_booked_as_reported() -> None:
    """Input in all its parts, the cached part apart; cache writes cost like other input."""
    booked = settle(ticket(), reply(Usage(input=60, cached=30, cache_write=10, output=20)), WEIGHTS)
    assert (booked.input, booked.cached, booked.output, booked.worked) == (100, 30, 20, True)
    assert booked.service == 70 + 3 + 40


def test_a_reply_without_output_counts_what_was_streamed() -> None:
    """The limits keep what was reserved, as nobody reported it; fairness knows what came."""
    booked = settle(ticket(streamed=7), reply(Usage(input=60)), WEIGHTS)
    assert (booked.input, booked.output) == (60, None)
    assert booked.service == 60 + 14


def test_a_reply_without_usage_is_booked_as_estimated() -> None:
    """Unknown is not nothing: the limits keep all, fairness takes the estimate of the input and what was streamed."""
    booked = settle(ticket(streamed=5), reply(Usage()), WEIGHTS)
    assert (booked.input, booked.output, booked.worked) == (None, None, True)
    assert booked.service == 60 + 4 + 10


@pytest.mark.parametrize(
    "error",
    [
        Throttled("429"),
        Overloaded("529"),
        ConnectTimeout("no connection"),
        Unavailable("connection refused", worked=False),
    ],
)
def test_what_was_refused_before_any_work_is_given_back(error: ModelError) -> None:
    """Tokens return to the limits and fairness charges nothing."""
    booked = settle(ticket(), error, WEIGHTS)
    assert (booked.input, booked.output, booked.worked, booked.service) == (None, None, False, 0.0)


@pytest.mark.parametrize(
    "error",
    [
        SilenceTimeout("nothing came"),
        Truncated("broken off"),
        Unavailable("500"),
        CallTimeout("too long"),
        Refused("400"),
        CallerGone("left"),
        OwnerClosed("closed"),
    ],
)
def test_what_may_have_worked_is_charged(error: ModelError) -> None:
    """Input and what was streamed are charged, or a tenant of failing calls would hold the slots for nothing."""
    booked = settle(ticket(streamed=5), error, WEIGHTS)
    assert (booked.input, booked.output, booked.worked) == (None, None, True)
    assert booked.service == 60 + 4 + 10


def test_an_overload_in_the_middle_of_an_answer_is_charged() -> None:
    """What has streamed was work, whatever the error says."""
    booked = settle(ticket(streamed=5), Overloaded("overloaded"), WEIGHTS)
    assert booked.worked
    assert booked.service == 60 + 4 + 10


def test_an_error_that_reports_usage_is_booked_by_it() -> None:
    """A timeout may know what it has cost."""
    booked = settle(ticket(streamed=5), CallTimeout("too long", usage=Usage(input=90, cached=10)), WEIGHTS)
    assert (booked.input, booked.cached, booked.output, booked.worked) == (100, 10, None, True)
    assert booked.service == 90 + 1 + 10
