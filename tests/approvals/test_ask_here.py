"""Somebody who watches a run at a terminal is asked what it asks, one thing after the other."""

import os
from collections import deque
from typing import Any, cast

import pytest
import trio

from agents.events import ApprovalDecided, ApprovalRequested, InputRequested
from orchestrator.cli.ask_here import AskHere, read_terminal
from orchestrator.client.client import Client
from orchestrator.client.errors import Refusal

PLACE: dict[str, Any] = {"run": "r", "step": 1, "call": "c"}


def approval(index: int) -> ApprovalRequested:
    key = f"r/1/{index}"
    return ApprovalRequested(
        **PLACE, index=index, name="send", key=key, arguments='{"to":"anna"}', digest=f"d{index}", why="always"
    )


QUESTION = InputRequested(
    **PLACE, index=5, name="ask_person", key="r/1/5", question="Which?", options=("Glomma", "Otra")
)


class Told:
    """Stands for a client, and notes what it is told; `refusing` is raised instead."""

    def __init__(self, refusing: Exception | None = None) -> None:
        self.said: list[tuple[Any, ...]] = []
        self._refusing = refusing

    async def decide(self, id: str, decision: str, *, by: str, note: str = "", digest: str = "") -> None:
        self._say(id, decision, by, note, digest)

    async def answer(self, id: str, content: str, *, by: str) -> None:
        self._say(id, content, by)

    def _say(self, *said: Any) -> None:
        self.said.append(said)
        if self._refusing is not None:
            raise self._refusing


class Person:
    """Somebody at a terminal, whose lines are these; without any more they think."""

    def __init__(self, *lines: str | None, client: Told | None = None) -> None:
        self.client = client or Told()
        self.lines = deque(lines)
        self.seen: list[str] = []
        self.asked = 0
        self.here = AskHere(cast(Client, self.client), "http://x", "me", self.seen.append, self._read)

    async def _read(self, prompt: str) -> str | None:
        self.asked += 1
        self.seen.append(prompt)
        if not self.lines:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return self.lines.popleft()


async def test_yes_no_and_an_answer() -> None:
    """Yes approves exactly what was shown, no denies it with the words behind it, and a number stands for an option."""
    person = Person("y", "n not today", "2", None)
    for event in (approval(0), approval(1), QUESTION, approval(2)):
        person.here.hear(event)
    await person.here.run()
    assert person.client.said == [
        ("r/1/0", "approved", "me", "", "d0"),
        ("r/1/1", "denied", "me", "not today", "d1"),
        ("r/1/5", "Otra", "me"),
    ]
    assert '  send {"to":"anna"} needs approval' in person.seen


async def test_enter_leaves_it_open() -> None:
    """Nothing is decided by an empty line, and the person is told how it can be later."""
    person = Person("", None)
    person.here.hear(approval(0))
    person.here.hear(approval(1))
    await person.here.run()
    assert not person.client.said
    assert person.seen[2] == (
        "  left open: headrace approve r/1/0 --url http://x, or headrace deny r/1/0 --url http://x"
    )


async def test_neither_yes_nor_no_asks_again() -> None:
    """What cannot be understood decides nothing, and the same is asked once more."""
    person = Person("perhaps", "yes", None)
    person.here.hear(approval(0))
    person.here.hear(approval(1))
    await person.here.run()
    assert [said[:2] for said in person.client.said] == [("r/1/0", "approved")]


async def test_what_somebody_else_decides_is_asked_no_more(autojump_clock: trio.testing.MockClock) -> None:
    """A prompt ends when the run's log says that it was decided elsewhere, and the next thing is asked."""
    person = Person()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(person.here.run)
        person.here.hear(approval(0))
        person.here.hear(approval(1))
        await trio.testing.wait_all_tasks_blocked()
        assert person.asked == 1
        person.here.hear(ApprovalDecided(run="r", key="r/1/1", decision="denied", by="anna"))
        person.here.hear(ApprovalDecided(run="r", key="r/1/0", decision="denied", by="anna"))
        person.lines.append("y")
        person.here.hear(approval(2))
        await trio.testing.wait_all_tasks_blocked()
        assert [said[0] for said in person.client.said] == ["r/1/2"]
        nursery.cancel_scope.cancel()


async def test_a_line_is_read_from_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A prompt that is given up takes nothing from the terminal, and the next one has the line that was typed."""
    master, slave = os.openpty()
    with os.fdopen(master, "wb", buffering=0) as keyboard, os.fdopen(slave, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with trio.move_on_after(0):
            await read_terminal("one> ")
        keyboard.write(b"yes\n")
        with trio.fail_after(10):
            assert await read_terminal("two> ") == "yes"
    assert capsys.readouterr().err == "one> two> "


async def test_a_refusal_is_told() -> None:
    """Where somebody else was faster the person reads what holds, and is asked the next thing."""
    refusal = Refusal("r/1/0 was denied by anna", status=409, kind="already_decided")
    person = Person("y", None, client=Told(refusal))
    person.here.hear(approval(0))
    person.here.hear(approval(1))
    await person.here.run()
    assert "  r/1/0 was denied by anna" in person.seen
