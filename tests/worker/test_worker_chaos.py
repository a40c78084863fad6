"""Workers and daemons that die at random, and answers that get lost, while runs with tools go on: in virtual time."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from agents.amounts import Amounts, Limits
from agents.budget import Scope
from agents.context import ToolContext
from agents.events import Event, ModelFailed, ModelReplied, ModelRequested, RunEnded, ToolFinished, ToolStarted, decode
from agents.fold import fold, result_of
from agents.lifecycle import StopReason
from agents.messages import Message
from agents.runtime_material import Material
from agents.scripted import Answer, ask_all, say, turns_taken
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.pools.pool import Pool
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.worker import Worker
from tests.runs.lasting import Kept, wall
from tests.worker.pool_wire import URL, PoolTransport
from tests.worker.remote_runtimes import Process, tools_of

RUNS = 12
POSTED: Counter[str] = Counter()
LEASE = 9.0


@tool()
async def post(text: str, context: ToolContext) -> str:
    """Sends a letter, which nobody can take back."""
    POSTED[context.key] += 1
    await trio.sleep(1.5)
    return f"sent {text}"


@tool(idempotent=True)
async def put(text: str) -> str:
    """Puts a thing in its place, where it may be already."""
    await trio.sleep(0.7)
    return f"put {text}"


def script(messages: tuple[Message, ...]) -> Answer:
    turns = turns_taken(messages)
    if turns == 4:
        return say("done")
    return ask_all(("post", {"text": str(turns)}, f"p{turns}"), ("put", {"text": str(turns)}, f"q{turns}"))


CLERK = AgentSpec(name="clerk", model="scripted", tools=(post, put), limits=Limits(tokens=200_000))


class Town:
    """A store that stays, a daemon after the other over it, and workers, each with a way to it of its own."""

    def __init__(self, nursery: trio.Nursery, chance: random.Random) -> None:
        self.nursery = nursery
        self.chance = chance
        self.store = Kept()
        self.made = Material({"clerk": CLERK}, script, 0.3, [])
        self.budget = Scope("tenant")
        self.pool: Pool | None = None
        self.workers: list[tuple[trio.CancelScope, PoolTransport]] = []
        self.tokens = RUNS * 200_000
        self.losing = True

    def serve(self, pool: Pool | None) -> None:
        self.pool = pool
        for _, transport in self.workers:
            transport.serve(pool)

    async def begin(self) -> None:
        """The next daemon, whose tenant's budget begins with nothing, but is wide enough."""
        self.budget = Scope("tenant", Limits(tokens=self.tokens))
        budget = self.budget
        self.process = Process(self.store, self.made, self, LEASE, parent=lambda tenant: budget)
        self.runtime = await self.nursery.start(self.process.run)

    def hire(self) -> None:
        transport = PoolTransport(self.pool)
        transport.lose = lambda what: self.losing and self.chance.random() < 0.05
        config = WorkerConfig(daemons=(URL,), runs=6)
        worker = Worker(config, wires=[transport.wire()], own=tools_of(self.made), wall=wall)
        scope = trio.CancelScope()
        self.workers.append((scope, transport))
        self.nursery.start_soon(self._work, worker, scope)

    async def _work(self, worker: Worker, scope: trio.CancelScope) -> None:
        with scope:
            await worker.run()

    def kill_one(self) -> None:
        """Nothing of it reaches anybody from here on."""
        scope, transport = self.workers.pop(self.chance.randrange(len(self.workers)))
        transport.serve(None)
        scope.cancel()

    async def events(self, run: str) -> list[Event]:
        return [decode(record.data) for record in await self.store.read(run)]


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_dies_nothing_is_done_twice(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """All runs end with their answers, each call has one end, no letter goes out twice, and nothing stays reserved."""
    POSTED.clear()
    chance = random.Random(seed)
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            town = Town(nursery, chance)
            await town.begin()
            for _ in range(3):
                town.hire()
            runs = [await town.runtime.start(CLERK, f"task {n}") for n in range(RUNS)]
            for _ in range(4):
                await trio.sleep(chance.uniform(0.5, 6.0))
                if chance.random() < 0.5:
                    town.kill_one()
                    town.hire()
                else:
                    await town.process.kill()
                    await trio.sleep(chance.uniform(0.1, 8.0))
                    await town.begin()
            town.losing = False
            for run in runs:
                await town.runtime.wait(run)
            for run in runs:
                hold_to_the_rules(run, await town.events(run))
            assert town.budget.reserved == Amounts()
            await town.process.kill()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(4))
async def test_many_runs_wait_for_one_narrow_budget(seed: int, autojump_clock: trio.testing.MockClock) -> None:
    """It has room for a few calls at a time: workers wait for each other's settlements, all runs end, and the daemon's
    own budget is what they used, to the last token."""
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            town = Town(nursery, random.Random(seed))
            town.tokens = 40_000
            await town.begin()
            for _ in range(3):
                town.hire()
            runs = [await town.runtime.start(CLERK, f"task {n}") for n in range(RUNS)]
            results = [await town.runtime.wait(run) for run in runs]
            for run in runs:
                hold_to_the_rules(run, await town.events(run))
            assert town.budget.reserved == town.budget.unknown == Amounts()
            assert town.budget.used.tokens == sum(result.usage.total or 0 for result in results)
            assert town.budget.used.tool_calls == RUNS * 8
            assert any("room" in transport.asked for _, transport in town.workers)
            await town.process.kill()
            nursery.cancel_scope.cancel()


def hold_to_the_rules(run: str, events: Sequence[Event]) -> None:
    last = fold(events).last
    assert last is not None
    result = result_of(last)
    assert (result.reason, result.answer) == (StopReason.FINAL_ANSWER, "done"), result.message
    assert sum(isinstance(event, RunEnded) for event in events) == 1
    asked = [event.key for event in events if isinstance(event, ModelRequested)]
    answered = [event for event in events if isinstance(event, ModelReplied | ModelFailed)]
    assert len(set(asked)) == len(asked) == len(answered)
    started = Counter(event.key for event in events if isinstance(event, ToolStarted))
    ends = Counter(f"{run}/{event.step}/{event.index}" for event in events if isinstance(event, ToolFinished))
    assert set(started) == set(ends)
    assert set(ends.values()) == {1}
    once = {event.key for event in events if isinstance(event, ToolStarted) and not event.repeatable}
    assert all(started[key] == 1 and POSTED[key] <= 1 for key in once)
    assert {key for key in POSTED if key.startswith(f"{run}/")} <= once
