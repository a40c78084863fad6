"""Nothing that an event announces happens unless the event was kept."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from agents.budget import Scope
from agents.events import Event, ModelReplied, ModelRequested, RunCreated, RunEnded, ToolFinished, ToolStarted
from agents.journal import MemoryJournal
from agents.lifecycle import State
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.messages import ModelReply, ModelRequest
from agents.port import Priority, Receipt
from agents.scripted import ScriptedModel, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from tests.agents.whole import assert_nothing_reserved, assert_whole


class World:
    """Everything that happens, in one order: what was kept in the journal, and what was done outside."""

    def __init__(self, fail_at: int | None = None, hang: bool = False) -> None:
        self.seen: list[Event | str] = []
        self.journal = MemoryJournal()
        self.model = ScriptedModel(
            in_turn(ask_all(("effect", {"name": "a"}), ("effect", {"name": "b"})), ask_all(("nope", {})), say("done"))
        )
        self.appends = 0
        self._fail_at = fail_at
        self._hang = hang

    async def append(self, events: Sequence[Event]) -> None:
        self.appends += 1
        if self.appends == self._fail_at:
            if self._hang:
                await trio.sleep_forever()
            raise OSError("no space left")
        assert self._fail_at is None or self.appends < self._fail_at, "an append after a lost one"
        await self.journal.append(events)
        self.seen += events

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = 0,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        self.seen.append("model")
        told = sum(message.role == "tool" for message in request.messages)
        ends = sum(isinstance(event, Event) and "index" in event.__struct_fields__ for event in self._kept_ends())
        assert told == ends, "a request with a result that was not kept"
        return await self.model.call(request)

    def _kept_ends(self) -> list[Event]:
        return [e for e in self.seen if not isinstance(e, str | ToolStarted) and "index" in e.__struct_fields__]

    async def effect(self, name: str) -> str:
        """Does something."""
        self.seen.append(f"effect {name}")
        await trio.lowlevel.checkpoint()
        return name

    def run(self, budget: Scope) -> AgentRun:
        agent = AgentSpec(name="agent", model="scripted", tools=(Tool(self.effect),))
        return AgentRun(agent, "x", model=self, journal=self, budget=budget, run="r", append_seconds=5)

    def count(self, kind: type[Event] | str) -> int:
        if isinstance(kind, str):
            return sum(isinstance(seen, str) and seen.startswith(kind) for seen in self.seen)
        return sum(isinstance(seen, kind) for seen in self.seen)


async def test_every_event_comes_before_what_it_announces() -> None:
    """Created first, requested before each call, started before each effect, results before the next request."""
    world = World()
    run = world.run(Scope("job"))
    await run.create()
    assert (await run.drive()).ok
    names = [seen if isinstance(seen, str) else str(type(seen).__struct_config__.tag) for seen in world.seen]
    assert names[:5] == ["run_created", "run_started", "model_requested", "model", "model_replied"]
    assert names[-4:] == ["model_requested", "model", "model_replied", "run_ended"]
    for name in "ab":
        started = next(
            place
            for place, seen in enumerate(world.seen)
            if isinstance(seen, ToolStarted) and seen.index == "ab".index(name)
        )
        assert started < names.index(f"effect {name}")
    assert_whole(world.journal.events)


@pytest.mark.parametrize("hang", [False, True])
async def test_nothing_follows_a_lost_event(hang: bool, autojump_clock: trio.testing.MockClock) -> None:
    """For every n: when the n-th append fails or never returns, nothing that it announced happens."""
    n = 0
    while True:
        n += 1
        world, budget = World(fail_at=n, hang=hang), Scope("job")
        run = world.run(budget)
        try:
            await run.create()
            result = await run.drive()
        except JournalLost:
            pass
        else:
            assert result.ok
            break
        assert world.appends == n, "something was appended after the loss"
        assert world.count("model") <= world.count(ModelRequested)
        assert world.count("effect") <= world.count(ToolStarted)
        assert world.count("effect") == 0 or world.count(ModelReplied) >= 1
        assert world.count(RunEnded) == 0
        assert_nothing_reserved(budget)
        if n > 1:
            assert run.state is State.FAILED
            assert run.result is not None
            assert run.result.reason == "internal_error"
        else:
            assert world.count(RunCreated) == 0
            assert run.state is State.CREATED
    assert n == 15
    assert world.count(ToolFinished) == 2


async def test_a_cancelled_run_with_a_lost_journal_ends_with_the_loss(autojump_clock: trio.testing.MockClock) -> None:
    """A journal that hangs can't hold a cancelled run for longer than its bound."""
    world = World(fail_at=3, hang=True)
    run = world.run(Scope("job"))
    await run.create()
    with pytest.raises(JournalLost), trio.move_on_after(1):
        await run.drive()
    assert trio.current_time() == pytest.approx(5)
