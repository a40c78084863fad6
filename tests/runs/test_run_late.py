"""What abandoned calls come to, told to the log of their session after their run has ended."""

from io import StringIO

import trio
import trio.testing
from rich.console import Console

from agents.amounts import Limits
from agents.events import RunCreated, RunEnded, ToolLate, decode
from agents.fold import fold
from agents.loop import AgentRun
from agents.origin import Origin
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.cli.run_end import detail_table
from orchestrator.runs.executor import Executor
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.service import RunService
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import AgentChoice, RunDetail, RunRequest
from tests.runs.running import ScriptedModels


async def test_a_late_end_is_in_the_log_behind_the_runs_own(autojump_clock: trio.testing.MockClock) -> None:
    """It needs no lease, changes nothing of how the run ended, and a later run of the session goes on."""

    async def work() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return "late"

    store = MemoryStore()
    executor = Executor(store)

    def journal(number: int, generation: int) -> SessionJournal:
        return SessionJournal(
            store, executor, "session", "tenant", grew=lambda events: None, number=number, generation=generation
        )

    agent = AgentSpec(name="agent", model="scripted", tools=(Tool(work, grace=1),), limits=Limits(timeout=300))
    model = ScriptedModel(in_turn(ask("work"), say("never")), latency=1)
    kept, origin = journal(0, 0), Origin(session="session")
    first = AgentRun(agent, "x", model=model, journal=kept, run="first", origin=origin)
    await first.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.drive)
        await trio.sleep(5)
        first.cancel()
    assert first.result is not None
    assert first.result.reason == "cancelled"

    last = fold([decode(record.data) for record in await store.read("session")]).last
    slow = ScriptedModel(in_turn(say("done")), latency=200)
    kept = journal(kept.number, kept.generation)
    second = AgentRun(
        agent,
        "y",
        model=slow,
        journal=kept,
        run="second",
        origin=origin,
        history=last,
        number=kept.number,
        generation=kept.generation,
    )
    await second.create()
    await second.drive()
    assert second.result is not None
    assert second.result.answer == "done"

    events = [decode(record.data) for record in await store.read("session")]
    (late,) = [event for event in events if isinstance(event, ToolLate)]
    assert (late.run, late.key, late.content) == ("first", "first/1/0", "late")
    created = next(event for event in events if isinstance(event, RunCreated) and event.run == "second")
    assert events.index(late) > events.index(created)
    ends = [event for event in events if isinstance(event, RunEnded)]
    assert [(end.run, end.quiescent) for end in ends] == [("first", False), ("second", True)]
    await kept.late(late)
    assert len(await store.read("session")) == len(events)


async def test_a_run_whose_abandoned_work_goes_on_is_shown_as_not_at_rest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """It has ended, and somebody should look; when the work ends after all, it says since when the run is at rest."""

    async def work() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(100)
        return "late"

    agent = AgentSpec(name="agent", model="m", tools=(Tool(work, grace=1),))
    known = Catalogue(models={"m": [Target("b", "m")]}, agents={"agent": agent})
    async with trio.open_nursery() as nursery:
        runs = RunService(
            nursery,
            models=ScriptedModels(in_turn(ask("work"), say("never")), 1),
            catalogue=lambda: known,
            wall=trio.current_time,
        )
        run = (await runs.start(RunRequest(task="x", who=AgentChoice(agent="agent")))).run
        await trio.sleep(5)
        await runs.cancel(run)
        ended = await runs.wait(run)
        assert (ended.reason, ended.at_rest, ended.quiescent) == ("cancelled", False, None)
        assert await runs.detail(run) == ended
        assert "may still be going on" in shown(ended)
        await trio.sleep(200)
        rested = await runs.detail(run)
        assert (rested.at_rest, len(rested.late)) == (True, 1)
        assert rested.quiescent is not None
        assert rested.ended is not None
        assert rested.quiescent > rested.ended
        assert "at rest" in shown(rested)


def shown(detail: RunDetail) -> str:
    """What `headrace show` says of it."""
    console = Console(width=200, file=StringIO())
    console.print(detail_table(detail, 1_000.0))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()
