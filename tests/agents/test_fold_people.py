"""What people were asked and what they said, folded: which answer counts, and whose time it was."""

from typing import Any

import pytest

from agents.answered import Verdict, digest_of, verdict
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    ChildStarted,
    Event,
    InputGiven,
    InputRequested,
    MessageAdded,
    RunResumed,
    RunStarted,
    RunWaiting,
    ToolLate,
    ToolRefused,
)
from agents.fold import said_so_far
from agents.messages import ToolCall
from tests.agents.test_fold import asked, ended, finished, first, last, looks, replied, started, told


def wants(index: int = 0, **fields: Any) -> ApprovalRequested:
    place: dict[str, Any] = {"run": "r", "step": 1, "index": index, "call": f"c{index}", "name": "look"}
    return ApprovalRequested(
        **place, key=f"r/1/{index}", **({"arguments": "{}", "digest": "d", "why": "always"} | fields)
    )


def asks(index: int = 0, **fields: Any) -> InputRequested:
    place: dict[str, Any] = {"run": "r", "step": 1, "index": index, "call": f"c{index}", "name": "look"}
    return InputRequested(**place, key=f"r/1/{index}", question="why?", **fields)


def decides(decision: Any = "approved", index: int = 0, **fields: Any) -> ApprovalDecided:
    return ApprovalDecided(run="r", key=f"r/1/{index}", decision=decision, by="ann", **fields)


def gives(content: str = "so", index: int = 0, **fields: Any) -> InputGiven:
    return InputGiven(run="r", key=f"r/1/{index}", content=content, by="ann", **fields)


def waits(at: float = 0.0) -> RunWaiting:
    return RunWaiting(run="r", reasons=("approval",), at=at)


STEP = (first(), RunStarted(run="r", at=1.0), asked(), replied(looks()))


def test_what_was_asked_is_open_until_it_is_answered() -> None:
    """Each is of its own call; answered, it is asked no more, and the answer is kept with it."""
    run = last(*STEP, wants(0), asks(1))
    assert run.asked == (wants(0), asks(1))
    run = last(*STEP, wants(0), asks(1), gives(index=1))
    assert run.asked == (wants(0),)
    run = last(*STEP, wants(0), asks(1), gives(index=1), decides())
    assert run.asked == ()
    assert run.open_step is not None
    approval, question = run.open_step.calls[0].approval, run.open_step.calls[1].question
    assert approval is not None
    assert question is not None
    assert (approval.decided, question.answered) == (decides(), gives(index=1))


@pytest.mark.parametrize(
    "evidence",
    [
        decides("denied", digest="another"),
        decides(index=1),
        gives(),
        InputGiven(run="r", key="r/7/7", content="so", by="ann"),
        asks(5),
        wants(0, digest="changed later"),
    ],
)
def test_what_answers_nothing_is_evidence(evidence: Event) -> None:
    """A decision about other arguments, about another call, an answer to no question: the request stays as it was."""
    assert last(*STEP, wants(), evidence) == last(*STEP, wants())


def test_a_question_is_answered_or_declined_and_never_approved() -> None:
    """An approval of a question is evidence; a denial or its expiry ends it."""
    assert last(*STEP, asks(), decides()) == last(*STEP, asks())
    assert last(*STEP, asks(), decides("denied")).asked == ()
    assert last(*STEP, asks(), decides("expired")).asked == ()


def test_the_first_that_counts_is_the_one() -> None:
    """What comes behind it changes nothing."""
    decision = last(*STEP, wants(), decides(digest="d"))
    assert last(*STEP, wants(), decides(digest="d"), decides("denied")) == decision
    assert last(*STEP, asks(), gives("a"), gives("b"), decides("denied")) == last(*STEP, asks(), gives("a"))


def test_what_is_over_asks_nobody() -> None:
    """Cancelled, answered, started or ended: nothing is asked any more, and a decision is evidence."""
    cancel = CancelRequested(run="r", source="user", reason="cancelled")
    refused = ToolRefused(run="r", step=1, index=0, call="c0", name="look", outcome="not_started", content="no")
    for over in (cancel, refused, started(), ended()):
        assert last(*STEP, wants(), over).asked == ()
        assert last(*STEP, wants(), over, decides()) == last(*STEP, wants(), over)
    assert last(*STEP, started(), wants()) == last(*STEP, started())


def test_time_that_was_people_s_is_added_up_apart() -> None:
    """It runs from each wait to whatever goes on with the run, and never backwards."""
    run = last(*STEP, wants(), waits(10.0))
    assert (run.waiting, run.waiting_since, run.waited) == (("approval",), 10.0, 0.0)
    run = last(*STEP, wants(), waits(10.0), MessageAdded(run="r", content="hurry", at=25.0))
    assert (run.waiting, run.waiting_since, run.waited) == ((), 0.0, 15.0)
    again = (waits(30.0), decides(at=32.5), RunResumed(run="r", at=99.0))
    run = last(*STEP, wants(), waits(10.0), MessageAdded(run="r", content="hurry", at=25.0), *again)
    assert run.waited == 17.5
    assert last(*STEP, wants(), waits(10.0), decides(at=3.0)).waited == 0.0


@pytest.mark.parametrize("evidence", [decides(index=1, at=50.0), gives(at=50.0)])
def test_evidence_ends_no_wait(evidence: Event) -> None:
    """Who answers what was not asked leaves the run waiting."""
    assert last(*STEP, wants(), waits(10.0), evidence) == last(*STEP, wants(), waits(10.0))


def test_a_wait_forgets_how_often_the_run_was_taken_up() -> None:
    """Being taken up counts since the last step or wait, since a run that waits is not one that kills its executors."""
    resumed = RunResumed(run="r", at=2.0)
    assert last(*STEP, wants(), resumed, resumed).resumes == 2
    assert last(*STEP, wants(), resumed, resumed, waits(3.0)).resumes == 0
    assert last(*STEP, wants(), resumed, resumed, waits(3.0), resumed).resumes == 1


def test_what_comes_late_is_kept_and_told_to_no_model() -> None:
    """An abandoned call's end is evidence, also behind the run's own, and ends no wait."""
    late = ToolLate(run="r", step=1, index=0, call="c0", name="look", key="r/1/0", outcome="ok", content="after all")
    events = (*STEP, started(0), finished(0, content="cut off", outcome="timeout"))
    run = last(*events, late)
    assert (run.late, told(run)) == ((late,), told(last(*events)))
    assert last(*events, ended(), late).late == (late,)
    assert last(*STEP, wants(), waits(1.0), late).waiting == ("approval",)


def test_children_are_kept_with_their_call() -> None:
    """Each once, however often it is told."""
    child = ChildStarted(run="r", step=1, index=0, key="r/1/0", child="r.1.0")
    run = last(*STEP, started(0), child, child)
    assert run.open_step is not None
    assert run.open_step.calls[0].children == ("r.1.0",)


@pytest.mark.parametrize(
    ("request_", "answer", "means"),
    [
        (wants(), decides(), Verdict(True)),
        (wants(expires=10.0), decides(at=10.0), Verdict(True)),
        (wants(expires=10.0), decides(at=10.5), Verdict(False, "Not run: nobody approved it in time.")),
        (wants(expires=10.0), decides("denied", at=11.0), Verdict(False, "Not run: ann denied it.")),
        (asks(), gives("blue"), Verdict(True, "blue")),
        (asks(expires=10.0), gives("blue", at=11.0), Verdict(False, "Not answered: nobody answered in time.")),
        (asks(), decides("denied"), Verdict(False, "Not answered: ann declined to answer.")),
    ],
)
def test_what_an_answer_means(request_: Any, answer: Any, means: Verdict) -> None:
    """Approved in time the call goes on; what came too late is worth nothing, and who said no is named."""
    assert verdict(request_, answer) == means


def test_a_digest_stands_for_the_tool_and_its_arguments_as_they_were_written() -> None:
    """Another tool, another byte, or the border between them moved: another digest. The id is not part of it."""
    calls = [("pay", '{"a":1}'), ("pay", '{"a": 1}'), ("pay{", '"a":1}'), ("buy", '{"a":1}'), ("pay", "\ud800")]
    digests = {digest_of(ToolCall("c", name, arguments)) for name, arguments in calls}
    assert len(digests) == len(calls)
    assert digest_of(ToolCall("x", *calls[0])) == digest_of(ToolCall("y", *calls[0]))


def test_a_call_that_waits_is_shown_without_an_answer() -> None:
    """Whoever looks at an open run sees what was said, and no answer that its model will never read."""
    run = last(*STEP, wants(1))
    assert [message.role for message in said_so_far(run)][-1] == "assistant"
    run = last(*STEP, wants(1), started(0), finished(0))
    assert [message.tool_call_id for message in said_so_far(run) if message.role == "tool"] == ["c0"]
