"""What a log comes to, event by event, and which logs no run can have written."""

import time
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.amounts import Amounts, Limits
from agents.budget import Exhausted
from agents.errors import HeadraceError
from agents.events import (
    BudgetGranted,
    CancelRequested,
    Compacted,
    Event,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    UnknownEvent,
)
from agents.fold import BrokenLog, StillOpen, fold, raised, result_of, transcript
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, ToolCall, Usage
from agents.scripted import ask_all, say
from agents.snapshot import RunSnapshot, SessionSnapshot

SYSTEM, TASK = Message("system", "Be brief."), Message("user", "task")


def created(run: str = "r", *messages: Message, **fields: Any) -> RunCreated:
    fields = {"limits": Limits(rounds=5, timeout=60)} | fields
    return RunCreated(run=run, agent="agent", model="m", messages=messages, **fields)


def first(run: str = "r") -> RunCreated:
    return created(run, SYSTEM, TASK, opening=1)


def asked(step: int = 1, attempt: int = 1, run: str = "r", **fields: Any) -> ModelRequested:
    return ModelRequested(run=run, step=step, attempt=attempt, reserved_tokens=90, reserved_micro_dollars=9, **fields)


def replied(message: Message, step: int = 1, attempt: int = 1, run: str = "r", **fields: Any) -> ModelReplied:
    reply = ModelReply(message, "stop", Usage(input=10, output=5))
    return ModelReplied(run=run, step=step, attempt=attempt, reply=reply, **({"micro_dollars": 3} | fields))


def started(index: int = 0, step: int = 1, *, repeatable: bool = False) -> ToolStarted:
    key = f"r/{step}/{index}"
    return ToolStarted(run="r", step=step, index=index, call=f"c{index}", name="look", key=key, repeatable=repeatable)


def finished(index: int = 0, step: int = 1, content: str = "seen", outcome: Any = "ok") -> ToolFinished:
    return ToolFinished(
        run="r", step=step, index=index, call=f"c{index}", name="look", outcome=outcome, content=content
    )


def ended(run: str = "r", **fields: Any) -> RunEnded:
    return RunEnded(run=run, reason=StopReason.FINAL_ANSWER, state=State.COMPLETED, **fields)


def looks(count: int = 2) -> Message:
    return ask_all(*(("look", {}, f"c{index}") for index in range(count)))


def last(*events: Event) -> RunSnapshot:
    run = fold(events).last
    assert run is not None
    return run


def told(run: RunSnapshot) -> list[str]:
    return [message.content for message in transcript(run)]


def test_a_run_is_what_its_creation_says() -> None:
    """Before anything happens there are its messages and its limits, and its clock has not begun."""
    run = last(first())
    assert (run.messages, run.opening, run.limits.rounds) == ((SYSTEM, TASK), 1, 5)
    assert (run.started, run.ended, run.open_step, run.open_request) == (None, None, None, None)
    assert last(first(), RunStarted(run="r", at=7.0), RunStarted(run="r", at=9.0)).started == 7.0


def test_a_model_call_is_open_until_its_end_is_in_the_log() -> None:
    """Nobody knows what became of it, so it is named with what it holds; its end settles tokens and money."""
    run = last(first(), asked())
    assert run.open_request == asked()
    assert (run.attempts, run.rounds, run.used) == (1, 0, Amounts())
    run = last(first(), asked(), replied(say("hi"), unknown_tokens=4, unknown_micro_dollars=1))
    assert (run.open_request, run.attempts, run.rounds, run.context) == (None, 0, 1, 15)
    assert (run.used, run.unknown) == (Amounts(1, 0, 15, 3), Amounts(0, 0, 4, 1))
    assert (run.usage, run.micro_dollars, run.partial) == (Usage(input=10, output=5), 3, "hi")


def test_a_lost_call_costs_what_it_held_and_is_no_round() -> None:
    """What it had reserved stays as unknown, money is unknown from then on, and the next attempt has another key."""
    lost = ModelFailed(
        run="r", step=1, attempt=1, kind="lost", message="gone", unknown_tokens=90, unknown_micro_dollars=9
    )
    run = last(first(), asked(), lost)
    assert (run.rounds, run.unknown, run.micro_dollars, run.attempts) == (0, Amounts(0, 0, 90, 9), None, 1)
    again = last(first(), asked(), lost, asked(attempt=2))
    assert again.open_request is not None
    assert again.open_request.key == "r/1/2"


def test_a_call_that_certainly_did_no_work_costs_nothing() -> None:
    """Nothing used and nothing held: what the run has cost is still known."""
    refused = ModelFailed(run="r", step=1, attempt=1, kind="throttled", message="429", partial="so f")
    run = last(first(), asked(), refused)
    assert (run.micro_dollars, run.unknown, run.partial) == (0, Amounts(), "so f")


def test_a_step_stays_open_until_the_run_goes_on_from_it() -> None:
    """Its reply and results join the transcript with the next request, in the model's order, and not before."""
    step = (first(), asked(), replied(looks()), started(0), started(1), finished(1, content="b"))
    run = last(*step)
    assert run.open_step is not None
    assert [(call.started, call.outcome, call.content) for call in run.open_step.calls] == [
        (True, None, ""),
        (True, "ok", "b"),
    ]
    assert run.messages == (SYSTEM, TASK)
    run = last(*step, finished(0, content="a"), asked(step=2))
    assert run.open_step is None
    assert [message.content for message in run.messages[3:]] == ["a", "b"]
    assert (run.tool_calls, run.used.tool_calls) == (2, 2)


def test_open_calls_are_answered_by_what_is_known_of_them() -> None:
    """Not started, started and repeatable, started with an unknown effect: the transcript says which."""
    run = last(first(), asked(), replied(looks(3)), started(1, repeatable=True), started(2))
    assert told(run)[3:] == [
        "The run ended before this call was started.",
        "This call was cut off (whoever ran it went away).",
        "This call was cut off (whoever ran it went away). Whether it took effect is unknown: look at the state of "
        "things before repeating it.",
    ]


def test_a_call_that_is_made_again_counts_once() -> None:
    """A repeatable call starts anew under the next executor, with the same key, and is paid for once."""
    run = last(first(), asked(), replied(looks()), started(0), RunResumed(run="r"), started(0))
    assert (run.tool_calls, run.used.tool_calls, run.resumes) == (1, 1, 1)


def test_refusals_and_unknown_effects_are_told() -> None:
    """A refusal brings the limit that refused it, an unknown effect its key."""
    limit = Exhausted("run", "tool_calls", 1, 1, 1)
    refused = ToolRefused(
        run="r", step=1, index=1, call="c1", name="look", outcome="refused_budget", content="no", limit=limit
    )
    run = last(first(), asked(), replied(looks()), refused, started(0), finished(0, outcome="unknown_effect"))
    assert run.open_step is not None
    assert run.open_step.calls[1].limit == limit
    assert run.unknown_effects == ("r/1/0",)


def test_resumes_count_since_the_last_sealed_step() -> None:
    """A newly sealed step is progress; a summary is none."""
    resumed = RunResumed(run="r", generation=2)
    assert last(first(), resumed, resumed).resumes == 2
    assert last(first(), resumed, asked(), replied(say("x"))).resumes == 0
    compact = (asked(purpose="compact"), replied(say("sum"), purpose="compact"))
    assert last(first(), resumed, *compact).resumes == 1


def test_what_is_said_to_a_run_is_read_with_its_next_step() -> None:
    """It waits in the inbox, behind the results, and a summary's request does not read it."""
    hurry = MessageAdded(run="r", content="hurry")
    step = (first(), asked(), replied(looks(1)), hurry, started(0), finished(0))
    assert last(*step).inbox == ("hurry",)
    assert told(last(*step))[-2:] == ["seen", "hurry"]
    assert last(*step, asked(step=2, purpose="compact")).inbox == ("hurry",)
    run = last(*step, asked(step=2))
    assert (run.inbox, run.messages[-1]) == ((), Message("user", "hurry"))


def test_a_grant_changes_the_limits_that_it_names() -> None:
    """The others stay as they were."""
    granted = BudgetGranted(run="r", limits=Limits(rounds=9, tokens=100))
    assert last(first(), granted).limits == Limits(rounds=9, tokens=100, timeout=60)
    assert raised(Limits(rounds=1), Limits()) == Limits(rounds=1)


def test_the_first_to_cancel_is_the_one_who_did() -> None:
    """Who asks later changes nothing, nor does anybody once the run has ended."""
    one = CancelRequested(run="r", source="user", reason="interrupted")
    two = CancelRequested(run="r", source="parent", reason="cancelled")
    assert last(first(), one, two).cancel == one
    assert last(first(), ended(), two).cancel is None


def test_a_result_is_made_of_an_ended_run_only() -> None:
    """An open run has none, and says so."""
    with pytest.raises(StillOpen, match="run r has not ended"):
        result_of(last(first()))
    result = result_of(last(first(), asked(), replied(say("done")), ended(answer="done", rounds=1)))
    assert (result.answer, result.agent, result.messages[-1]) == ("done", "agent", say("done"))


def test_an_ended_run_has_nothing_open() -> None:
    """The closing event seals what was open."""
    run = last(first(), asked(), replied(looks(1)), started(0), finished(0), asked(step=2), ended())
    assert (run.open_step, run.open_request) == (None, None)
    run = last(first(), asked(), replied(looks(1)), ended())
    assert (run.open_step, len(run.messages)) == (None, 4)


def test_a_late_result_is_evidence() -> None:
    """The first result of a call stands, and so does the first end of a model call, whatever is open by then."""
    step = (first(), asked(), replied(looks(1)), started(0), finished(0, outcome="unknown_effect"))
    assert last(*step, finished(0, content="late")) == last(*step)
    going = (*step, asked(step=2))
    assert last(*going, finished(0, content="late")) == last(*going)
    assert last(*going, replied(say("late"), step=1)) == last(*going)
    again = (*going, ModelFailed(run="r", step=2, attempt=1, kind="lost", message="gone"), asked(step=2, attempt=2))
    assert last(*again, replied(say("late"), step=2)) == last(*again)


def test_a_run_goes_on_where_the_session_stands() -> None:
    """A further run brings only what it adds; its books are its own, and what was said late belongs to it."""
    before = (first("a"), asked(run="a"), replied(say("one"), run="a"), ended("a"))
    late = MessageAdded(run="a", content="and then?")
    session = fold((*before, late, created("b", Message("user", "two"))))
    assert session.runs == ("a", "b")
    assert session.events == 6
    run = session.last
    assert run is not None
    assert told(run) == ["Be brief.", "task", "one", "and then?", "two"]
    assert (run.rounds, run.used, run.usage, run.opening, run.context) == (0, Amounts(), Usage(), 1, 15)


def test_words_for_a_run_that_is_over_change_nothing() -> None:
    """A cancel or message for an earlier run of the session is evidence."""
    events = (first("a"), ended("a"), created("b"))
    late = (CancelRequested(run="a", source="user", reason="cancelled"), MessageAdded(run="a", content="wait"))
    assert fold((*events, *late)).last == fold(events).last


def test_a_summary_stands_for_what_it_replaces() -> None:
    """What leads the transcript stays, the rest follows the summary, and the size is unknown again."""
    talk = (first(), asked(), replied(looks(1)), started(0), finished(0), asked(step=2, purpose="compact"))
    summary = Compacted(run="r", summary="Looked.", messages=3)
    run = last(*talk, replied(say("Looked."), step=2, purpose="compact"), summary)
    assert [message.role for message in run.messages] == ["system", "user"]
    assert run.messages[1].content.endswith("Looked.")
    assert (run.context, run.rounds, run.open_step) == (None, 1, None)


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([RunStarted(run="r")], "the first event must be run_created"),
        ([first("a"), ended("a"), created("a")], "run a was created twice"),
        ([first("a"), created("b")], "run b was created while run a of its session was open"),
        ([first("a"), RunStarted(run="b")], "event 2 of the log is of run b"),
        ([first(), Compacted(run="r", summary="s", messages=2)], "stands for 2 messages of run r, which has 1"),
        ([first(), Compacted(run="r", summary="s", messages=0)], "stands for 0 messages"),
        (
            [first(), asked(), replied(looks()), asked(step=2), Compacted(run="r", summary="s", messages=2)],
            "takes a tool call away from its result",
        ),
    ],
)
def test_a_log_that_no_run_wrote_is_refused(events: list[Event], problem: str) -> None:
    """Going on would mean guessing, so the fold stops and says what is wrong."""
    with pytest.raises(BrokenLog, match=problem):
        fold(events)


def test_another_version_of_the_events_is_refused() -> None:
    """A run pins the version of its events' meaning."""
    with pytest.raises(UnknownEvent, match="version 2"):
        fold([created("r", version=2)])


small = st.integers(0, 3)
st.register_type_strategy(Limits, st.builds(Limits, rounds=st.none() | st.integers(1, 9)))
calls = st.lists(st.builds(ToolCall, id=st.just("c"), name=st.just("look"), arguments=st.just("{}")), max_size=3)
said = st.builds(Message, role=st.just("assistant"), content=st.sampled_from(["", "w"]), tool_calls=calls.map(tuple))
known: dict[str, Any] = {
    "run": st.just("r"),
    "step": st.integers(1, 2),
    "attempt": st.just(1),
    "index": small,
    "messages": st.integers(0, 4),
    "reply": st.builds(ModelReply, message=said, finish_reason=st.just("stop")),
}


def any_of(kind: type) -> st.SearchStrategy[Event]:
    fields = {name: value for name, value in known.items() if name in kind.__struct_fields__}
    if kind is RunCreated:
        fields |= {"messages": st.just((SYSTEM, TASK)), "version": st.just(1), "opening": small}
    return st.builds(kind, **fields)


usual = [any_of(kind) for kind in get_args(Event) if kind not in (RunCreated, Compacted, RunEnded)]
seldom = st.integers(0, 30).flatmap(lambda number: usual[0] if number else any_of(RunCreated) | any_of(Compacted))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(*usual, seldom, any_of(RunEnded)), max_size=20))
def test_whatever_a_log_holds_its_fold_is_whole_or_refused(events: list[Event]) -> None:
    """Events in any order give a transcript in which each call has one answer, or one clear error; twice the same."""
    try:
        session = fold((first(), *events))
    except HeadraceError:
        return
    assert session.last is not None
    waiting: list[str | None] = []
    for message in transcript(session.last):
        if message.role == "tool":
            assert waiting.pop(0) == message.tool_call_id
        else:
            assert not waiting
            waiting = [call.id for call in message.tool_calls]
    assert not waiting
    data = msgspec.json.encode(session)
    assert msgspec.json.encode(fold((first(), *events))) == data
    assert msgspec.json.decode(data, type=SessionSnapshot) == session


def test_a_long_log_folds_in_time_that_grows_with_it() -> None:
    """Ten times the events take about ten times as long, and not a hundred times."""

    def log(steps: int) -> list[Event]:
        events: list[Event] = [first()]
        for step in range(1, steps + 1):
            events += [asked(step), replied(looks(1), step), started(0, step), finished(0, step)]
        return events

    def seconds(events: list[Event]) -> float:
        begin = time.process_time()
        fold(events)
        return time.process_time() - begin

    short, long = log(500), log(5000)
    assert min(seconds(long) for _ in range(3)) < 30 * min(seconds(short) for _ in range(3))
