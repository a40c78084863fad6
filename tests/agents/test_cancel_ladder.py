"""The cancel ladder: calls are told to end, have their grace, and are abandoned; what comes late is kept."""

import contextlib
import threading
from typing import Any

import trio
import trio.testing

from agents.amounts import Limits
from agents.context import ToolContext
from agents.events import RunEnded, ToolFinished, ToolLate
from agents.fold import fold
from agents.journal import MemoryJournal
from agents.late import Abandoned, quiescent_since
from agents.log import Log
from agents.loop import AgentRun
from agents.scripted import ScriptedModel, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool, ToolError

HANGS = 100.0


def run_of(journal: Any, tool: Tool, **spec: Any) -> AgentRun:
    """A run that calls this tool once."""
    agent = AgentSpec(**{"name": "agent", "model": "scripted", "tools": (tool,), **spec})
    model = ScriptedModel(in_turn(ask(tool.name), say("done")))
    return AgentRun(agent, "x", model=model, journal=journal, wall=trio.current_time)


async def drive(run: AgentRun) -> None:
    await run.create()
    await run.drive()


def stubborn(what: str) -> Tool:
    """A coroutine tool that ignores its cancellation for 100 s."""

    async def work() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(HANGS)
        if what == "fails":
            raise ToolError("it failed")
        if what == "crashes":
            raise ValueError("it crashed")
        if what == "ends as cancelled":
            await trio.lowlevel.checkpoint()
        return "late"

    return Tool(work, grace=3, concurrency=1)


async def test_a_coroutine_that_ignores_its_cancellation_is_abandoned(autojump_clock: trio.testing.MockClock) -> None:
    """The run ends after the grace with an unknown effect, not quiescent; the late end is evidence behind its end."""
    for what, late in {
        "returns": ("ok", "late"),
        "fails": ("error", "it failed"),
        "crashes": ("error", "work failed: ValueError: it crashed"),
        "ends as cancelled": ("error", "It ended when it was cancelled."),
    }.items():
        journal, tool = MemoryJournal(), stubborn(what)
        run = run_of(journal, tool, limits=Limits(timeout=1))
        began = trio.current_time()
        await drive(run)
        assert 4 <= trio.current_time() - began < 5
        ended = journal.events[-1]
        assert isinstance(ended, RunEnded)
        assert not ended.quiescent
        assert ended.unknown_effects == (f"{run.run}/1/0",)
        assert tool.limiter is not None
        assert tool.limiter.borrowed_tokens == 1
        await trio.sleep(HANGS)
        assert tool.limiter.borrowed_tokens == 0
        told = journal.events[-1]
        assert isinstance(told, ToolLate)
        assert (told.outcome, told.content, told.key) == (*late, f"{run.run}/1/0")
        assert 99 < told.at - began < 102


async def test_a_run_goes_on_without_a_call_that_timed_out(autojump_clock: trio.testing.MockClock) -> None:
    """A tool's own timeout abandons its call as well; the run goes on, and ends quiescent once the call has ended."""
    for patience in (0.0, 2 * HANGS):
        journal, tool = MemoryJournal(), stubborn("returns")
        tool.timeout = 1

        async def wait() -> str:
            await trio.sleep(patience)  # noqa: B023
            return "waited"

        agent = AgentSpec(name="agent", model="scripted", tools=(tool, Tool(wait)))
        model = ScriptedModel(in_turn(ask("work"), ask("wait"), say("done")))
        run = AgentRun(agent, "x", model=model, journal=journal)
        await drive(run)
        finished = [e for e in journal.events if isinstance(e, ToolFinished)]
        assert [e.outcome for e in finished] == ["unknown_effect", "ok"]
        (ended,) = [e for e in journal.events if isinstance(e, RunEnded)]
        assert ended.quiescent == (patience > HANGS)
        assert ended.reason == "final_answer"
        await trio.sleep(HANGS)
        assert sum(isinstance(e, ToolLate) for e in journal.events) == 1


async def test_what_ends_within_its_grace_is_no_evidence(autojump_clock: trio.testing.MockClock) -> None:
    """A coroutine that tidies up for a while is waited for, and what it answers counts."""

    async def tidy() -> str:
        with contextlib.suppress(trio.Cancelled):
            await trio.sleep_forever()
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return "tidied up"

    journal = MemoryJournal()
    await drive(run_of(journal, Tool(tidy, grace=3), limits=Limits(timeout=1)))
    (finished,) = [e for e in journal.events if isinstance(e, ToolFinished)]
    assert (finished.outcome, finished.content) == ("ok", "tidied up")
    ended = journal.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.quiescent


async def test_no_grace_is_still_enough_for_what_ends_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """A tool with a grace of 0 that heeds its cancellation is not taken for one that does not."""

    async def wait() -> str:
        await trio.sleep_forever()
        raise AssertionError

    journal = MemoryJournal()
    await drive(run_of(journal, Tool(wait, grace=0), limits=Limits(timeout=1)))
    ended = journal.events[-1]
    assert isinstance(ended, RunEnded)
    assert ended.quiescent


async def test_an_abandoned_threads_end_is_evidence() -> None:
    """A thread that ignores its cancellation is heard of when it ends, after its run."""
    release, told = threading.Event(), trio.Event()

    class Journal(MemoryJournal):
        async def late(self, event: Any) -> None:
            await super().late(event)
            told.set()

    def block(context: ToolContext) -> str:
        release.wait(30)
        return f"late, and cancelled: {context.cancelled}"

    journal = Journal()
    try:
        await drive(run_of(journal, Tool(block, grace=0), limits=Limits(timeout=0.05)))
    finally:
        release.set()
    with trio.fail_after(30):
        await told.wait()
    late = journal.events[-1]
    assert isinstance(late, ToolLate)
    assert (late.outcome, late.content) == ("ok", "late, and cancelled: True")


async def test_a_call_that_was_abandoned_cannot_take_its_run_away(autojump_clock: trio.testing.MockClock) -> None:
    """What an abandoned tool says of its run comes too late to matter."""

    async def work(context: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
            context.cancel_run()
        return "late"

    async def wait() -> str:
        await trio.sleep(10)
        return "waited"

    journal = MemoryJournal()
    agent = AgentSpec(name="agent", model="scripted", tools=(Tool(work, timeout=1, grace=0), Tool(wait)))
    model = ScriptedModel(in_turn(ask("work"), ask("wait"), say("done")))
    run = AgentRun(agent, "x", model=model, journal=journal)
    await drive(run)
    assert run.result is not None
    assert run.result.reason == "final_answer"


async def test_evidence_that_cannot_be_kept_harms_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """A journal that keeps no evidence, fails, or never answers costs nothing but the evidence."""

    class Plain:
        async def append(self, events: Any) -> None:
            await trio.lowlevel.checkpoint()

    class Failing(MemoryJournal):
        async def late(self, event: Any) -> None:
            raise OSError("full")

    class Hanging(MemoryJournal):
        async def late(self, event: Any) -> None:
            await trio.sleep_forever()

    for journal in (Plain(), Failing(), Hanging()):
        tool = stubborn("returns")
        await drive(run_of(journal, tool, limits=Limits(timeout=1)))
        await trio.sleep(2 * HANGS)
        assert tool.limiter is not None
        assert tool.limiter.borrowed_tokens == 0
    event = ToolLate(run="r", step=1, index=0, call="c", name="n", key="k", outcome="ok", content="")
    assert not await Log(Failing()).late(event)
    assert not await Log(Hanging()).late(event)
    assert await Log(MemoryJournal()).late(event)
    assert Abandoned(Log(Plain()), lambda: 0.0).quiescent


async def test_a_run_is_quiescent_when_its_last_call_is(autojump_clock: trio.testing.MockClock) -> None:
    """Acknowledged, ended and quiescent are three times; only the last of several abandoned calls makes the third."""

    async def work(seconds: float) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)
        return "late"

    journal = MemoryJournal()
    agent = AgentSpec(name="agent", model="scripted", tools=(Tool(work, grace=2),))
    calls = ask_all(*(("work", {"seconds": seconds}) for seconds in (30, 5, 20)))
    run = AgentRun(
        agent,
        "x",
        model=ScriptedModel(in_turn(calls)),
        journal=journal,
        run="r",
        wall=lambda: 1000 + trio.current_time(),
    )
    began = trio.current_time()
    await run.create()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run.drive)
        await trio.sleep(1)
        run.cancel()

    def since() -> tuple[float | None, float | None, float | None]:
        last = fold(journal.events).last
        assert last is not None
        assert last.ended is not None
        assert last.cancel is not None
        quiescent = quiescent_since(last)
        times = (last.cancel.at, last.ended.at, quiescent)
        return tuple(None if at is None else round(at - 1000 - began, 3) for at in times)  # type: ignore[return-value]

    for seconds in (0, 5, 20):
        await trio.sleep_until(began + 1 + seconds)
        assert since()[1:] == (3, None)
    await trio.sleep(50)
    assert since() == (since()[0], 3, 30)
    assert [event.quiescent for event in journal.events if isinstance(event, ToolLate)] == [False, False, True]
