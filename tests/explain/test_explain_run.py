"""Where a run's time went."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.amounts import UNLIMITED
from agents.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunWaiting,
    ToolFinished,
    ToolStarted,
)
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply
from orchestrator.explain.run import spans_of

CALL = {"step": 1, "index": 0, "call": "c", "name": "look"}
REPLY = ModelReply(Message("assistant", ""), "stop")

LIFE: list[tuple[float, Event]] = [
    (0.0, RunCreated(run="r", agent="a", model="m", messages=(), limits=UNLIMITED)),
    (2.0, ModelRequested(run="r", step=1, attempt=1, reserved_tokens=1, reserved_micro_dollars=0)),
    (12.0, ModelReplied(run="r", step=1, attempt=1, reply=REPLY)),
    (12.0, ApprovalRequested(run="r", **CALL, key="k", arguments="{}", digest="d")),
    (12.0, RunWaiting(run="r", reasons=("approval",))),
    (112.0, ApprovalDecided(run="r", key="k", decision="approved", by="ops")),
    (113.0, ToolStarted(run="r", **CALL, key="k")),
    (120.0, ToolFinished(run="r", **CALL, outcome="ok", content="")),
    (121.0, RunEnded(run="r", reason=StopReason.FINAL_ANSWER, state=State.COMPLETED)),
]


def at(event: Event, when: float) -> Event:
    return replace(event, at=when)


def test_each_part_of_a_life_is_named() -> None:
    """The model, people, tools, and what is none of them have the seconds between their events."""
    spans = spans_of([at(event, when) for when, event in LIFE], 500.0)
    assert (spans.model, spans.people, spans.tools, spans.other) == (10.0, 100.0, 7.0, 4.0)
    assert (spans.by_tool, spans.running) == ({"look": 7.0}, ())


def test_what_is_open_goes_on_until_now() -> None:
    """A run that still waits for people has waited until now."""
    spans = spans_of([at(event, when) for when, event in LIFE[:5]], 1_012.0)
    assert spans.people == 1_000.0


def test_a_tool_that_hangs_is_named() -> None:
    """While a tool is at work it is named, with the time that it has had so far."""
    spans = spans_of([at(event, when) for when, event in LIFE[:7]], 713.0)
    assert (spans.by_tool, spans.running) == ({"look": 600.0}, ("look",))


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(LIFE)), max_size=30), st.floats(0, 1e4))
def test_the_parts_are_the_whole(steps: list[tuple[float, tuple[float, Event]]], more: float) -> None:
    """Whatever comes in whatever order, no part is negative, and together they are the time that passed."""
    now, events = 0.0, list[Event]()
    for later, (_, event) in steps:
        now += later
        events.append(at(event, now))
    spans = spans_of(events, now + more)
    assert min(spans.model, spans.tools, spans.people, spans.other) >= 0.0
    ended = next((event.at for event in events if isinstance(event, RunEnded)), now + more)
    assert abs(spans.whole - (ended - (events[0].at if events else now + more))) < 1e-6
