"""What is kept of a run's open requests as its log grows, against what a fold of that log says."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.answered import digest_of
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Event,
    InputGiven,
    InputRequested,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunWaiting,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
)
from agents.fold import fold
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, ToolCall
from agents.snapshot import RunSnapshot
from orchestrator.runs.open_requests import OpenRequests

CALLS = tuple(ToolCall(f"c{index}", "send", f'{{"n":{index}}}') for index in range(3))
REPLY = ModelReply(Message("assistant", "", tool_calls=CALLS), "tool_calls")
BEGINNING: tuple[Event, ...] = (
    RunCreated(run="r", agent="a", model="m", messages=(Message("user", "x"),), limits=Limits()),
    ModelRequested(run="r", step=1, attempt=1, reserved_tokens=0, reserved_micro_dollars=0),
    ModelReplied(
        run="r", step=1, attempt=1, reply=ModelReply(Message("assistant", "", tool_calls=CALLS), "tool_calls")
    ),
)


def place(index: int) -> dict[str, Any]:
    return {"run": "r", "step": 1, "index": index, "call": CALLS[index].id, "name": "send"}


@st.composite
def an_event(draw: st.DrawFn) -> Event:
    """Something that may happen to one of three calls, the last of which is a question; or to the whole run."""
    index, kind = draw(st.integers(0, 2)), draw(st.integers(0, 9))
    key, digest = f"r/1/{index}", digest_of(CALLS[index])
    match kind:
        case 0 | 1 | 2 if index < 2:
            return ApprovalRequested(**place(index), key=key, arguments=CALLS[index].arguments, digest=digest)
        case 0 | 1 | 2:
            return InputRequested(**place(index), key=key, question="?")
        case 3 | 4:
            decision = draw(st.sampled_from(("approved", "denied", "expired")))
            return ApprovalDecided(
                run="r", key=key, decision=decision, by="me", digest=draw(st.sampled_from(("", digest, "other")))
            )
        case 5:
            return InputGiven(run="r", key=key, content="yes", by="me")
        case 6:
            return draw(st.sampled_from((RunWaiting(run="r", reasons=("approval",)), late(index))))
        case 7:
            return ToolStarted(**place(index), key=key)
        case 8:
            return draw(
                st.sampled_from(
                    (
                        ToolRefused(**place(index), outcome="denied", content="no"),
                        ToolFinished(**place(index), outcome="ok", content="x"),
                    )
                )
            )
        case _:
            return draw(st.sampled_from(ENDS))


def late(index: int) -> ToolLate:
    return ToolLate(**place(index), key=f"r/1/{index}", outcome="ok", content="x")


ENDS: tuple[Event, ...] = (
    CancelRequested(run="r", source="user", reason="cancelled"),
    ModelRequested(run="r", step=2, attempt=1, reserved_tokens=0, reserved_micro_dollars=0),
    RunEnded(run="r", reason=StopReason.CANCELLED, state=State.CANCELLED),
)


def folded(log: tuple[Event, ...]) -> RunSnapshot:
    run = fold(log).last
    assert run is not None
    return run


@given(st.lists(an_event(), max_size=25), st.integers(0, 25))
def test_it_says_what_a_fold_says(events: list[Event], cut: int) -> None:
    """After every event exactly those requests are open that a fold of the log has, also where it began from one."""
    heard, restored = OpenRequests(), None
    heard.add(BEGINNING)
    for count, event in enumerate(events):
        if count == cut:
            restored = OpenRequests()
            restored.restore(folded((*BEGINNING, *events[:count])))
        log = (*BEGINNING, *events[: count + 1])
        run = folded(log)
        before = heard.open
        assert heard.add([event]) == (set(before) != set(run.asked))
        assert set(heard.open) == set(run.asked)
        heard.add([event])
        assert set(heard.open) == set(run.asked)
        if restored is not None:
            restored.add([event])
            assert set(restored.open) >= set(run.asked)
    assert set(heard.late) == {event for event in events if isinstance(event, ToolLate)}
