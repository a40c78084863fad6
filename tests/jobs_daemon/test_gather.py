"""When a job has enough: the pure policies, held against words of their own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits
from orchestrator.jobs.gather import Close, Counts, judge, settle
from orchestrator.views.jobs import GatherRequest

policies = st.one_of(
    st.just(GatherRequest()),
    st.just(GatherRequest(policy="all")),
    st.builds(lambda n: GatherRequest(policy="quorum", count=n), st.integers(1, 12)),
    st.builds(lambda n: GatherRequest(policy="first", count=n), st.integers(1, 12)),
    st.builds(
        lambda n, s: GatherRequest(policy="deadline", count=n, seconds=s),
        st.none() | st.integers(1, 12),
        st.integers(1, 20),
    ),
)
ends = st.lists(st.booleans(), max_size=12)


@given(gather=policies, ends=ends, more=st.integers(0, 3))
def test_each_policy_closes_at_the_first_moment_that_it_says(
    gather: GatherRequest, ends: list[bool], more: int
) -> None:
    """Items end one a second, and the job closes exactly when the policy's own words are true for the first time."""
    total = len(ends) + more
    for over in range(len(ends) + 1):
        done = sum(ends[:over])
        counts = Counts(done=done, failed=over - done, total=total, seconds=over)
        close = judge(gather, counts)
        assert (None if close is None else close.phase) == _oracle(gather, ends[:over], total)
        if close is not None:
            assert close.message
            return


def _oracle(gather: GatherRequest, ended: list[bool], total: int) -> str | None:
    done, count = ended.count(True), gather.count
    cannot = count is not None and done + (total - len(ended)) < count
    match gather.policy:
        case "settle":
            return None
        case "all":
            return "failed" if False in ended else None
        case "first":
            assert count is not None
            return None if len(ended) < count else "done" if done else "failed"
        case "quorum":
            assert count is not None
            return "done" if done >= count else "failed" if cannot else None
    assert gather.seconds is not None
    if len(ended) >= gather.seconds:
        return "done" if done >= (count or 0) else "failed"
    return "failed" if cannot else None


@given(gather=policies, done=st.integers(0, 20), failed=st.integers(0, 20))
def test_while_inputs_may_still_come_nothing_is_out_of_reach(gather: GatherRequest, done: int, failed: int) -> None:
    """A job whose inputs are not complete never closes for want of items."""
    close = judge(gather, Counts(done=done, failed=failed))
    assert close is None or close.phase == "done" or gather.policy in ("all", "first")


@pytest.mark.parametrize(
    ("gather", "done", "failed", "phase"),
    [
        (GatherRequest(), 3, 0, "done"),
        (GatherRequest(), 2, 1, "failed"),
        (GatherRequest(policy="all"), 3, 0, "done"),
        (GatherRequest(policy="quorum", count=2), 2, 1, "done"),
        (GatherRequest(policy="quorum", count=3), 2, 1, "failed"),
        (GatherRequest(policy="first", count=5), 2, 1, "done"),
        (GatherRequest(policy="first", count=5), 0, 3, "failed"),
        (GatherRequest(policy="deadline", seconds=9.0), 0, 3, "done"),
        (GatherRequest(policy="deadline", seconds=9.0, count=1), 0, 3, "failed"),
    ],
)
def test_when_all_items_have_ended_the_policy_names_the_phase(
    gather: GatherRequest, done: int, failed: int, phase: str
) -> None:
    """A job that nothing closed before ends as its policy reads the table."""
    assert settle(gather, Counts(done=done, failed=failed, total=done + failed)).phase == phase


def test_the_messages_say_what_was_missing() -> None:
    """A job that cannot have its quorum says how many it needs and how many it can have."""
    close = judge(GatherRequest(policy="quorum", count=8), Counts(done=1, failed=3, total=10))
    assert close == Close("failed", "8 items have to be done, and no more than 7 of 10 can be")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"policy": "quorum"}, "count"),
        ({"policy": "first"}, "count"),
        ({"policy": "quorum", "count": 0}, "count"),
        ({"policy": "settle", "count": 2}, "count"),
        ({"policy": "all", "seconds": 2.0}, "seconds"),
        ({"policy": "deadline"}, "seconds"),
        ({"policy": "deadline", "seconds": 0.0}, "seconds"),
        ({"policy": "deadline", "seconds": float("inf")}, "seconds"),
    ],
)
def test_a_gather_that_makes_no_sense_names_its_field(fields: dict[str, Any], field: str) -> None:
    """What is missing or too much is refused by name."""
    with pytest.raises(InvalidLimits) as caught:
        GatherRequest(**fields)
    assert caught.value.field == field
