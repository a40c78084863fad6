"""The one table of transitions, and the names of states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.lifecycle import (
    TERMINAL,
    TERMINAL_STATE,
    TRANSITIONS,
    IllegalTransition,
    Lifecycle,
    Opened,
    State,
    StopReason,
    mermaid,
)

THINGS: tuple[Opened, ...] = ("tool", "approval", "input", "children", "model")

moves = st.one_of(
    st.tuples(st.sampled_from(["queue", "begin", "cancel"])),
    st.tuples(st.sampled_from(["open", "close"]), st.sampled_from(THINGS)),
    st.tuples(st.just("end"), st.sampled_from(list(StopReason))),
)


@given(st.lists(moves, max_size=40))
def test_random_moves_never_leave_the_table(script: list[tuple[str, ...]]) -> None:
    """Whatever is asked of it, a run moves along the table, and an illegal move changes nothing."""
    run = Lifecycle()
    for name, *arguments in script:
        before, said = run.state, repr(run)
        try:
            getattr(run, name)(*arguments)
        except IllegalTransition:
            assert repr(run) == said
        else:
            assert run.state is before or run.state in TRANSITIONS[before]
        assert (run.reason is not None) == (run.state in TERMINAL)


@given(st.lists(st.sampled_from(THINGS), max_size=8))
def test_the_first_open_thing_in_order_names_the_state(things: list[Opened]) -> None:
    """Tool before approval before input before children before model; nothing open is running."""
    run = Lifecycle()
    run.begin()
    for thing in things:
        run.open(thing)
    first = next((thing for thing in THINGS if thing in things), None)
    assert run.state == ("running" if first is None else f"waiting_{first}")
    run.cancel()
    assert run.state is State.CANCELLING
    for thing in things:
        run.close(thing)
    assert run.state is State.CANCELLING


@pytest.mark.parametrize("reason", list(StopReason))
def test_every_reason_ends_a_running_run_in_its_terminal_state(reason: StopReason) -> None:
    """Each stop reason leads to one terminal state, and only two of them are success."""
    run = Lifecycle()
    run.begin()
    run.end(reason)
    assert run.state is TERMINAL_STATE[reason]
    assert (run.state is State.COMPLETED) == (reason in {StopReason.FINAL_ANSWER, StopReason.CONVERGED})
    with pytest.raises(IllegalTransition):
        run.end(reason)


def test_a_run_with_something_open_does_not_end() -> None:
    """A terminal state means that nothing is under way any more."""
    run = Lifecycle()
    run.begin()
    run.open("tool")
    with pytest.raises(IllegalTransition, match="tool"):
        run.end(StopReason.FINAL_ANSWER)
    assert run.state is State.WAITING_TOOL


def test_a_run_that_is_ending_opens_nothing_and_is_never_completed() -> None:
    """Cancelling leads to an end only, and never to success."""
    run = Lifecycle()
    run.begin()
    run.cancel()
    for thing in THINGS:
        with pytest.raises(IllegalTransition):
            run.open(thing)
    with pytest.raises(IllegalTransition):
        run.end(StopReason.FINAL_ANSWER)
    run.end(StopReason.TIMEOUT)
    assert run.state is State.STOPPED


def test_a_run_that_never_began_cannot_be_completed_or_stopped() -> None:
    """Only what has begun can reach an answer or a limit."""
    run = Lifecycle()
    run.queue()
    for reason in (StopReason.FINAL_ANSWER, StopReason.MAX_ROUNDS):
        with pytest.raises(IllegalTransition):
            run.end(reason)
    run.end(StopReason.EXPIRED)
    assert run.state is State.EXPIRED


def test_every_state_is_in_the_table_and_can_be_reached() -> None:
    """The table has a row for each state, and each row is reachable from `created`."""
    assert set(TRANSITIONS) == set(State)
    reached, todo = {State.CREATED}, [State.CREATED]
    while todo:
        for state in TRANSITIONS[todo.pop()] - reached:
            reached.add(state)
            todo.append(state)
    assert reached == set(State)
    assert {state for state, after in TRANSITIONS.items() if not after} == TERMINAL


def test_the_diagram_draws_the_table() -> None:
    """Every edge of the table that is not inside the active group is in the picture, and no other edge is."""
    drawn = {tuple(line.split(" --> ")) for line in map(str.strip, mermaid().splitlines()) if " --> " in line}
    assert ("queued", "running") in drawn
    assert ("active", "cancelling") in drawn
    assert ("running", "completed") in drawn
    assert ("cancelling", "completed") not in drawn
    for source, target in drawn:
        if "[*]" not in (source, target) and source != "active":
            assert State(target) in TRANSITIONS[State(source)]
