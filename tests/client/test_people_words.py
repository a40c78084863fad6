"""What people are asked and what they say, in a line each."""

from typing import get_args

import pytest

from agents import events
from agents.events import Event
from orchestrator.api.runs import EVENT_TYPES
from orchestrator.cli.run_events import EventWords
from orchestrator.views.runs import OutputPiece

PLACE = {"run": "r", "step": 2, "index": 0, "call": "c0", "name": "pay", "key": "r/2/0"}


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            events.ApprovalRequested(**PLACE, arguments='{"amount":5}', digest="d", why="amount > 1"),  # type: ignore[arg-type]
            'step 2: pay {"amount":5} needs approval (amount > 1)',
        ),
        (events.ApprovalDecided(run="r", key="r/2/0", decision="denied", by="ann", note="no"), "denied by ann: no"),
        (events.ApprovalDecided(run="r", key="r/2/0", decision="expired", by="clock"), "expired by clock"),
        (
            events.InputRequested(**PLACE, question="Which?", options=("a", "b")),  # type: ignore[arg-type]
            "step 2: pay asks: Which? (a / b)",
        ),
        (events.InputGiven(run="r", key="r/2/0", content="a", by="ann"), "ann answered: a"),
        (events.RunWaiting(run="r", reasons=("approval", "input")), "waits for people: approval, input"),
        (
            events.ToolLate(**PLACE, outcome="ok", content="paid"),  # type: ignore[arg-type]
            "step 2: pay came to an end after all (ok): paid",
        ),
        (
            events.ChildStarted(run="r", step=2, index=0, key="r/2/0", child="r.2.0"),
            "step 2: run r.2.0 works on a part of it",
        ),
    ],
)
def test_each_event_has_its_words(event: Event, line: str) -> None:
    """One line says who decides or decided what."""
    assert EventWords().words(event) == line


def test_no_event_is_forgotten_on_the_surface() -> None:
    """Every type that a log can hold is one that its followers are told of, and so is output that is in no log."""
    assert set(EVENT_TYPES.values()) == {*get_args(Event), OutputPiece}
