"""What counts as an answer to one request of people, whichever way the run learns of it."""

import pytest

from agents.pending import Pending
from agents.people_events import ApprovalDecided, ApprovalRequested

ASKED = ApprovalRequested(
    run="r", step=1, index=0, call="c", name="pay", key="r/1/0", arguments="{}", digest="d", expires=None, why="always"
)
YES = ApprovalDecided(run="r", key="r/1/0", decision="approved", by="ada")
NO = ApprovalDecided(run="r", key="r/1/0", decision="denied", by="bob")


@pytest.mark.parametrize("hinted", [False, True])
def test_a_word_that_was_given_before_anybody_asked_answers_nothing(hinted: bool) -> None:
    """What stands before the request in the log does not count, though it was heard of first, or is heard of again."""
    pending = Pending(ASKED)
    pending.being_asked = True
    if hinted:
        pending.hear(YES, in_order=False)
    pending.hear(YES, in_order=True)
    pending.being_asked = False
    pending.hear(YES, in_order=False)
    assert pending.verdict is None
    pending.hear(NO, in_order=True)
    assert pending.verdict is not None
    assert not pending.verdict.goes_on


def test_a_word_that_was_only_heard_of_counts_until_the_log_says_otherwise() -> None:
    """A hint is enough to go on with, and the log's first answer stands against it."""
    pending = Pending(ASKED)
    pending.hear(YES, in_order=False)
    assert pending.verdict is not None
    assert pending.verdict.goes_on
    pending.hear(NO, in_order=True)
    pending.hear(YES, in_order=True)
    assert not pending.verdict.goes_on
