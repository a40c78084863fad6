"""What abandoned calls come to, told to the log of their session after their run has ended."""

import trio
import trio.testing

from agents.budget import Limits
from agents.events import RunCreated, RunEnded, ToolLate, decode
from agents.fold import fold
from agents.loop import AgentRun
from agents.origin import Origin
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from orchestrator.runs.executor import Executor
from orchestrator.runs.journal import SessionJournal
from orchestrator.store.memory import MemoryStore


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
