"""A run seen from outside, and observations that cannot follow one another."""

import pytest

from agents.lifecycle import State, StopReason
from agents.messages import Usage
from agents.observation import IllegalObservation, Observation, observed, validate_observation

RUNNING = Observation("r", State.WAITING_MODEL, usage=Usage(input=10, output=2))
DONE = Observation("r", State.COMPLETED, StopReason.FINAL_ANSWER, Usage(input=20, output=4))


def test_states_have_outside_names() -> None:
    """Created and queued are pending, completed is done, other terminal states failed, everything else running."""
    assert [observed(state) for state in (State.CREATED, State.QUEUED)] == ["pending", "pending"]
    assert [observed(state) for state in (State.RUNNING, State.WAITING_TOOL, State.CANCELLING)] == ["running"] * 3
    assert observed(State.COMPLETED) == "done"
    assert {observed(s) for s in (State.STOPPED, State.FAILED, State.CANCELLED, State.EXPIRED)} == {"failed"}


def test_a_run_that_goes_forward_is_accepted() -> None:
    """Pending, running, done; and seeing the same thing twice."""
    pending = Observation("r", State.CREATED)
    for before, after in ((None, pending), (pending, RUNNING), (RUNNING, DONE), (DONE, DONE), (RUNNING, RUNNING)):
        validate_observation(before, after)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (DONE, Observation("r", State.FAILED, StopReason.TOOL_ERROR, DONE.usage), "had ended"),
        (DONE, Observation("r", State.COMPLETED, StopReason.CONVERGED, DONE.usage), "had ended"),
        (RUNNING, Observation("r", State.QUEUED, usage=RUNNING.usage), "went back"),
        (RUNNING, Observation("r", State.RUNNING, usage=Usage(input=9, output=2)), "input tokens shrank"),
        (RUNNING, Observation("r", State.RUNNING, usage=Usage(input=10)), "output tokens shrank"),
        (RUNNING, Observation("other", State.RUNNING), "observed before"),
        (None, Observation("r", State.STOPPED), "a reason belongs"),
        (None, Observation("r", State.RUNNING, StopReason.TIMEOUT), "a reason belongs"),
    ],
)
def test_what_cannot_follow_is_refused(before: Observation | None, after: Observation, problem: str) -> None:
    """A terminal state that changed, a state that went back, settled usage that shrank."""
    with pytest.raises(IllegalObservation, match=problem):
        validate_observation(before, after)
