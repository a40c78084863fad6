"""What a run's model says, heard while it says it."""

import trio
import trio.testing

from agents.messages import Delta, Message, ModelRequest
from agents.owner_port import OwnerPort
from agents.port import Flow, Receipt
from orchestrator.runs.output import MOST_UNHEARD, Listener, Output
from orchestrator.views.runs import OutputPiece
from tests.api.surface_rig import HeldBackend, held_owner

REQUEST = ModelRequest("small", (Message("user", "hello"),))


async def test_a_listener_hears_an_answer_while_it_comes(autojump_clock: trio.testing.MockClock) -> None:
    """The first word is heard before the answer is there, all of it makes the answer, and each piece names its call."""
    backend = HeldBackend("middle")
    owner, output = held_owner(backend), Output("run-1")
    port = output.heard(OwnerPort(owner.inbox, Flow()))
    with output.listening() as listener:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            async with trio.open_nursery() as calls:
                calls.start_soon(lambda: port.call(REQUEST, receipt=Receipt("run-1/1/1")))
                await trio.testing.wait_all_tasks_blocked()
                first = listener.take()
                assert [(piece.run, piece.call, piece.text) for piece in first] == [("run-1", "run-1/1/1", "one ")]
                assert first[0].reset
                backend.release("middle")
            assert "".join(piece.text for piece in listener.take()) == "two"
            nursery.cancel_scope.cancel()


def test_where_nobody_listens_nothing_is_kept() -> None:
    """What was said before somebody listened, and what is said after, goes by."""
    output = Output("run-1")
    output.hear("a", (Delta("before"),))
    with output.listening() as listener:
        output.hear("a", (Delta("now"),))
    output.hear("a", (Delta("after"),))
    assert [piece.text for piece in listener.take()] == ["now"]


def test_pieces_are_joined_by_call_and_a_reset_begins_anew() -> None:
    """Neighbours become one piece; another call, or the same one begun again, is another."""
    output = Output("run-1")
    with output.listening() as listener:
        output.hear("a", (Delta("1"), Delta("2", reasoning="r"), Delta(tokens=1)))
        output.hear("a", (Delta(reset=True), Delta("3")))
        output.hear("b", (Delta("4"),))
        assert [(one.call, one.text, one.reasoning, one.reset) for one in listener.take()] == [
            ("a", "12", "r", False),
            ("a", "3", "", True),
            ("b", "4", "", False),
        ]
        assert listener.take() == []


def test_a_slow_listener_loses_the_oldest_and_is_told() -> None:
    """What waits for one listener is bounded; the piece behind a gap says so, once."""
    listener = Listener()
    for _ in range(4):
        listener.add(OutputPiece(run="r", call="a", text="x" * (MOST_UNHEARD // 2 + 1)))
    (piece,) = listener.take()
    assert piece.cut
    assert len(piece.text) <= 2 * MOST_UNHEARD
    listener.add(OutputPiece(run="r", call="a", text="y"))
    assert [(one.text, one.cut) for one in listener.take()] == [("y", False)]


async def test_a_listener_wakes_for_words_and_for_anything_else(autojump_clock: trio.testing.MockClock) -> None:
    """It waits while nothing happens."""
    output = Output("run-1")
    with output.listening() as listener:
        with trio.move_on_after(5) as nothing:
            await listener.wait()
        assert nothing.cancelled_caught
        for happens in (output.wake, lambda: output.hear("a", (Delta("x"),))):
            happens()
            with trio.fail_after(1):
                await listener.wait()
