"""People, daemons and a slow store against each other: whoever comes first, each call does what was decided, once."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import trio

from agents.events import ApprovalDecided, RunEnded, ToolStarted
from agents.messages import Message
from agents.scripted import Answer, ask_all, say
from orchestrator.runs.errors import AlreadyDecided, RunOver, UnknownApproval
from orchestrator.store.base import Record
from tests.approvals.asking_people import CLERK, TERMINAL, Desk, open_requests
from tests.runs.lasting import Daemon, Kept, daemon

RUNS = 6


class Slow(Kept):
    """A store whose answers take their time, on the way there and on the way back."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    async def _while(self) -> None:
        await trio.sleep(self._random.choice((0.0, 0.01, 0.5)))

    async def read(self, session: str, after: int = 0, size: int = 1000) -> list[Record]:
        await self._while()
        found = await super().read(session, after, size)
        await self._while()
        return found

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        await self._while()
        number = await super().append_external(session, key, records)
        await self._while()
        return number

    async def append(self, *args: Any) -> int:
        await self._while()
        number = await super().append(*args)
        await self._while()
        return number

    async def release(self, session: str, generation: int) -> None:
        await self._while()
        await super().release(session, generation)


def script(messages: tuple[Message, ...]) -> Answer:
    """Two letters, each to be approved, then the end; whatever is said meanwhile."""
    if any(message.role == "tool" for message in messages):
        return say("done")
    name = messages[0].content
    return ask_all(("send", {"to": f"{name}.a"}), ("send", {"to": f"{name}.b"}))


class People:
    """Some of them decide, some interrupt with a message, and none knows of the others."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.told: dict[str, str] = {}

    async def work(self, one: Daemon) -> None:
        while True:
            await trio.sleep(self._random.uniform(0, 1))
            for asked in await open_requests(one.service):
                await self._act(one, asked.id, asked.run)

    async def _act(self, one: Daemon, id: str, run: str) -> None:
        dice = self._random.random()
        try:
            if dice < 0.2:
                await one.service.message(run, "hurry")
            elif dice < 0.7:
                decision = "approved" if dice < 0.45 else "denied"
                view = await one.service.approvals.decide(id, decision, by="me")  # type: ignore[arg-type]
                assert self.told.setdefault(id, str(view.outcome)) == view.outcome
        except (AlreadyDecided, RunOver, UnknownApproval):
            pass


@pytest.mark.parametrize("seed", range(12))
async def test_each_call_does_what_was_decided_once(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """Three people decide and talk at once, over a slow store and two daemons: every run ends as people were told.

    Only a call that was started when the first daemon was killed may have no effect, and then the run says so.
    """
    store, desk = Slow(seed), Desk(expires_in=40 if seed % 3 == 0 else None)
    people = [People(seed * 10 + number) for number in range(3)]
    async with daemon(store, script=script, catalogue=desk.catalogue) as one, trio.open_nursery() as nursery:
        for number in range(RUNS):
            await one.start(who=CLERK, run=f"r{number}", task=f"r{number}")
        for person in people:
            nursery.start_soon(person.work, one)
        await trio.sleep(random.Random(seed).uniform(0, 6))
        nursery.cancel_scope.cancel()
    async with daemon(store, script=script, catalogue=desk.catalogue) as two, trio.open_nursery() as nursery:
        for person in people:
            nursery.start_soon(person.work, two)
        for number in range(RUNS):
            await two.service.wait(f"r{number}")
        nursery.cancel_scope.cancel()
    assert set(await store.states()) <= TERMINAL
    for number in range(RUNS):
        log = await store.log(f"r{number}")
        started = {event.key for event in log if isinstance(event, ToolStarted)}
        unknown = {key for event in log if isinstance(event, RunEnded) for key in event.unknown_effects}
        for index, letter in enumerate("ab"):
            key = f"r{number}/1/{index}"
            holds = next(event.decision for event in log if isinstance(event, ApprovalDecided) and event.key == key)
            assert (key in started) == (holds == "approved")
            sent = desk.sent[f"r{number}.{letter}"]
            assert sent == (holds == "approved") or (sent, key in unknown) == (0, True)
            for person in people:
                assert person.told.get(key, holds) == holds
