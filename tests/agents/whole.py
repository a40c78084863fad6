"""What must hold of every journal and budget, however its run ended."""

from collections import Counter
from collections.abc import Sequence

from agents.amounts import NOTHING
from agents.budget import Scope
from agents.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    ToolFinished,
    ToolRefused,
    ToolStarted,
)
from agents.result import RunResult


def assert_whole(events: Sequence[Event]) -> None:
    """One created, one ended; each model call and each tool call of a reply has exactly one end, in order."""
    assert isinstance(events[0], RunCreated)
    assert isinstance(events[-1], RunEnded)
    assert sum(isinstance(event, RunEnded) for event in events) == 1
    asked: set[tuple[int, int]] = set()
    started: set[tuple[int, int]] = set()
    ends: Counter[tuple[int, int]] = Counter()
    open_model = False
    for event in events:
        match event:
            case ModelRequested():
                assert not open_model
                assert set(ends) == asked, "a request went out before every earlier call had its result"
                open_model = True
            case ModelReplied(step=step, reply=reply):
                assert open_model
                open_model = False
                asked |= {(step, index) for index in range(len(reply.message.tool_calls))}
            case ModelFailed():
                assert open_model
                open_model = False
            case ToolStarted(step=step, index=index):
                assert (step, index) in asked
                assert (step, index) not in started
                assert not ends[step, index]
                started.add((step, index))
            case ToolFinished(step=step, index=index):
                assert (step, index) in started, "a result of a call that never started"
                ends[step, index] += 1
            case ToolRefused(step=step, index=index):
                assert (step, index) not in started, "a started call was refused"
                ends[step, index] += 1
            case _:
                pass
    assert not open_model, "a model call has no end"
    assert set(ends) == asked, "a tool call has no end"
    assert all(count == 1 for count in ends.values()), "a tool call has two ends"


def assert_nothing_reserved(scope: Scope | None) -> None:
    """Every reservation has come back, up to the root."""
    while scope is not None:
        assert scope.reserved == NOTHING
        assert scope.waiting == 0
        scope = scope.parent


def assert_transcript_whole(result: RunResult) -> None:
    """Every tool call of the transcript is followed by its result, in the model's order."""
    waiting: list[str] = []
    for message in result.messages:
        if message.role == "tool":
            assert message.tool_call_id == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call.id for call in message.tool_calls]
    assert not waiting
