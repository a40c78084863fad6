"""Structured logs of runs, made from the events in their logs."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from agents.amounts import Limits
from agents.events import (
    ApprovalRequested,
    Compacted,
    Event,
    InputGiven,
    InputRequested,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunStarted,
    ToolFinished,
    ToolLate,
    ToolRefused,
    ToolStarted,
)
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, Usage
from orchestrator.instruments.log import BURST, configure_logging
from orchestrator.instruments.run_log import FIELDS, WORDS, RunLog

SAID = "the patient's name is Ada"


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What is written while the test runs, as JSON lines of every level."""
    stream = io.StringIO()
    configure_logging(json=True, level="debug", stream=stream)
    yield stream
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def created(run: str = "r1", job: str = "") -> RunCreated:
    return RunCreated(
        run=run, agent="writer", model="m", messages=(Message("user", SAID),), limits=Limits(), tenant="blue", job=job
    )


def ended(run: str = "r1", state: State = State.COMPLETED, reason: StopReason = StopReason.FINAL_ANSWER) -> RunEnded:
    return RunEnded(run=run, state=state, reason=reason, answer=SAID, message=SAID, partial=SAID, rounds=1)


def everything_said() -> list[Event]:
    """Events with something that somebody said in each field that can hold it."""
    reply = ModelReply(
        message=Message("assistant", SAID), usage=Usage(input=3, output=4), finish_reason="stop", model="m"
    )
    call = {"step": 1, "index": 0, "call": "c", "name": "look"}
    return [
        created(),
        RunStarted(run="r1"),
        ModelRequested(run="r1", step=1, attempt=1, reserved_tokens=10, reserved_micro_dollars=0),
        ModelReplied(run="r1", step=1, attempt=1, reply=reply),
        ModelFailed(run="r1", step=1, attempt=2, kind="throttled", message=SAID, partial=SAID),
        ToolRefused(run="r1", **call, outcome="denied", content=SAID),
        ApprovalRequested(run="r1", **call, key="k", arguments=SAID, digest="d"),
        InputRequested(run="r1", **call, key="k", question=SAID, options=(SAID,)),
        InputGiven(run="r1", key="k", content=SAID, by="ops"),
        ToolStarted(run="r1", **call, key="k"),
        ToolFinished(run="r1", **call, outcome="ok", content=SAID),
        ToolLate(run="r1", **call, key="k", outcome="ok", content=SAID),
        MessageAdded(run="r1", content=SAID),
        Compacted(run="r1", summary=SAID, messages=2),
        ended(),
    ]


def test_nothing_that_was_said_is_logged(logged: io.StringIO) -> None:
    """Even at debug no line has a prompt, an answer, arguments, a result or what people wrote."""
    log = RunLog(structlog.get_logger(), "debug")
    events = everything_said()
    for event in events:
        log.see(event)
    assert len(lines(logged)) == len(events)
    assert SAID not in logged.getvalue()


def test_every_line_says_whose_run_it_is(logged: io.StringIO) -> None:
    """Run, tenant and agent stand on each line of a run, though only its first event names them."""
    log = RunLog(structlog.get_logger(), "debug")
    for event in everything_said():
        log.see(event)
    assert {(line["run"], line["tenant"], line["agent"]) for line in lines(logged)} == {("r1", "blue", "writer")}


def test_runs_of_jobs_are_quiet_and_others_are_not(logged: io.StringIO) -> None:
    """At info a run of its own has two lines, and a run of a job has one if its job's budget stopped it."""
    log = RunLog(structlog.get_logger(), "info")
    for event in (created("a"), RunStarted(run="a"), ended("a"), created("b", job="j"), ended("b")):
        log.see(event)
    log.see(created("c", job="j"))
    log.see(
        RunEnded(run="c", state=State.STOPPED, reason=StopReason.TOKEN_BUDGET_EXCEEDED, scope="job", limit="tokens")
    )
    said = [(line["run"], line["event"]) for line in lines(logged)]
    assert said == [("a", "run created"), ("a", "run ended"), ("c", "run ended")]


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (ended(state=State.FAILED, reason=StopReason.OVERLOADED), "warning"),
        (ended(state=State.CANCELLED, reason=StopReason.CANCELLED), "info"),
        (ToolFinished(run="r1", step=1, index=0, call="c", name="look", outcome="timeout", content=""), "warning"),
        (ToolFinished(run="r1", step=1, index=0, call="c", name="look", outcome="error", content=""), "debug"),
    ],
)
def test_what_went_wrong_stands_out(logged: io.StringIO, event: Event, level: str) -> None:
    """Failures and hanging tools are warnings, what somebody asked for is news, and the rest is detail."""
    RunLog(structlog.get_logger(), "debug").see(event)
    assert lines(logged)[0]["level"] == level


def test_many_equal_failures_are_held_back(logged: io.StringIO) -> None:
    """Of a thousand runs that fail alike a few are told, so that the log can still be read."""
    log = RunLog(structlog.get_logger())
    for number in range(1000):
        log.see(ended(f"r{number}", state=State.FAILED, reason=StopReason.OVERLOADED))
    assert len(lines(logged)) == BURST


def test_each_kind_of_event_has_words(logged: io.StringIO) -> None:
    """No event of a run is without a line, and no line is kept for an event that there is not."""
    assert set(WORDS) == set(Event.__args__)
    assert set(FIELDS) <= set(WORDS)


def test_a_name_cannot_break_a_line() -> None:
    """A name with a line end or a terminal's escape is one line of plain characters in the text for people."""
    stream = io.StringIO()
    configure_logging(json=False, level="info", stream=stream)
    try:
        RunLog(structlog.get_logger()).see(created("x\n2026 forged line\x1b[2J"))
    finally:
        structlog.reset_defaults()
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()
