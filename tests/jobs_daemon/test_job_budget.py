"""A job's budget over daemons that are killed: what was spent before stays spent, and nothing is spent twice."""

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from agents.amounts import Amounts, Limits
from agents.events import decode
from agents.fold import fold
from agents.messages import Message, ModelReply, ModelRequest, ToolCall, Usage
from agents.money import Price, PriceList
from agents.port import Flow, ModelPort, Priority
from agents.spec import AgentSpec
from agents.tools import tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.jobs.service import JobService
from orchestrator.runs.service import RunService
from orchestrator.runs.spending import held
from orchestrator.store.base import RunQuery
from orchestrator.views.jobs import JobRequest
from orchestrator.views.runs import AgentChoice
from tests.jobs_daemon.fake_runs import feed, lines, until_ended
from tests.runs.lasting import Kept, Link, wall

Clock = trio.testing.MockClock


@tool(read_only=True)
async def look() -> str:
    """Looks."""
    await trio.sleep(random.uniform(0, 3))
    return "seen"


WHO = AgentSpec(name="looker", model="m", tools=(look,), limits=Limits(rounds=4), max_tokens=100)
CATALOGUE = Catalogue(
    models={"m": [Target("b", "m")]},
    default_model="m",
    agents={"looker": WHO},
    prices=PriceList({"m": Price(input=1_000_000, output=1_000_000)}),
)


class Model:
    """Takes its time, looks a few times and answers; now and then it does not say what that took."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return self

    def ended(self, flow: Flow) -> None:
        pass

    async def call(self, request: ModelRequest, **_: Any) -> ModelReply:
        await trio.sleep(self._chance.uniform(0, 3))
        usage = Usage(20, output=80) if self._chance.random() < 0.8 else Usage()
        if self._chance.random() < 0.6:
            call = ToolCall(f"c{self._chance.random()}", "look", "{}")
            return ModelReply(Message("assistant", "", (call,)), "tool_calls", usage)
        return ModelReply(Message("assistant", "so it is"), "stop", usage)


class SlowLink(Link):
    """Takes a while over some of what it is asked, so that runs are taken up one later than the other."""

    def __init__(self, store: Kept, chance: random.Random) -> None:
        super().__init__(store)
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name not in ("take", "read", "run"):
            return found

        async def ask(*args: Any, **kwargs: Any) -> Any:
            await trio.sleep(self._chance.choice([0, 0, 2]))
            return await found(*args, **kwargs)

        return ask


@asynccontextmanager
async def killed_after(
    seconds: float, store: Kept, folder: Path, chance: random.Random
) -> AsyncGenerator[JobService, None]:
    """A daemon that is gone so long after the block."""
    async with trio.open_nursery() as nursery:
        link: Any = SlowLink(store, chance)
        catalogue = lambda: CATALOGUE  # noqa: E731
        runs = RunService(nursery, models=Model(chance), catalogue=catalogue, store=link, wall=wall)
        jobs = JobService(nursery, folder, runs=runs, catalogue=catalogue, store=link, wall=wall)
        await runs.recover()
        await jobs.open()
        await runs.resume_rest(jobs.going_on)
        yield jobs
        await trio.sleep(seconds)
        link.broken = True
        nursery.cancel_scope.cancel()


async def spent(store: Kept) -> Amounts:
    """What all runs have used or may have used, by their logs."""
    total = Amounts()
    for row in (await store.runs(RunQuery(size=1000))).rows:
        run = fold([decode(record.data) for record in await store.read(row.session)]).last
        assert run is not None
        total += run.used + held(run)
    return total


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_a_job_never_overshoots_whatever_happens_to_its_daemons(
    seed: int, ordered: bool, tmp_path: Path, autojump_clock: Clock
) -> None:
    """After each of several kills all its runs together have used no more than the job may; in the end the budget is
    what stopped it, nearly all of it being spent, and no run goes on without the job.
    """
    chance = random.Random(seed)
    random.seed(seed)
    budget = Limits(rounds=60, tokens=9_000, micro_dollars=9_000)
    request = JobRequest(
        prompt="say {text}", job="j", workers=8, ordered=ordered, budget=budget, who=AgentChoice(agent="looker")
    )
    store = Kept()
    with trio.fail_after(10_000):
        async with killed_after(chance.uniform(1, 8), store, tmp_path, chance) as jobs:
            await jobs.create(request)
            await feed(jobs, "j", lines(range(1, 200)))
        for _ in range(3):
            assert within(await spent(store), budget)
            async with killed_after(chance.uniform(1, 8), store, tmp_path, chance):
                pass
        async with killed_after(100, store, tmp_path, chance) as jobs:
            view = await until_ended(jobs, "j")
    total = await spent(store)
    assert within(total, budget)
    assert view.phase in ("stopped", "failed")
    assert total.rounds > 50 or total.tokens > 8_000
    assert (await store.runs(RunQuery(open=True))).total == 0


def within(amounts: Amounts, limits: Limits) -> bool:
    """Whether no limit is passed."""
    allowed = msgspec.structs.asdict(limits)
    return all(allowed[name] is None or told <= allowed[name] for name, told in msgspec.structs.asdict(amounts).items())
