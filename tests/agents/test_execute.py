"""Tools in threads and tasks: timeouts, concurrency, and calls that are cut off."""

import threading
from typing import Any

import trio
import trio.testing

from agents.amounts import Limits
from agents.context import ToolContext
from agents.events import ToolFinished, ToolStarted
from agents.journal import MemoryJournal
from agents.loop import run_agent
from agents.result import RunResult
from agents.scripted import ScriptedModel, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool, ToolError
from tests.agents.whole import assert_transcript_whole, assert_whole


async def run(*tools: Tool, calls: Any, **spec: Any) -> tuple[RunResult, list[ToolFinished]]:
    journal = MemoryJournal()
    agent = AgentSpec(**{"name": "agent", "model": "scripted", "tools": tools, **spec})
    model = ScriptedModel(in_turn(calls, say("done")))
    result = await run_agent(agent, "x", model=model, journal=journal)
    assert_whole(journal.events)
    assert_transcript_whole(result)
    return result, [event for event in journal.events if isinstance(event, ToolFinished)]


async def test_blocking_functions_run_in_threads() -> None:
    """A plain function does not block the loop, and its value or error is the result."""
    main = threading.get_ident()

    def where(fail: bool) -> str:
        if fail:
            raise ToolError("I was asked to fail")
        return "elsewhere" if threading.get_ident() != main else "in the loop's thread"

    calls = ask_all(("where", {"fail": False}), ("where", {"fail": True}))
    result, finished = await run(Tool(where), calls=calls)
    assert result.ok
    assert {event.index: (event.outcome, event.content) for event in finished} == {
        0: ("ok", "elsewhere"),
        1: ("error", "I was asked to fail"),
    }


async def test_a_tools_timeout_is_an_observation(autojump_clock: trio.testing.MockClock) -> None:
    """A call over its tool's timeout is cut off; only a repeatable tool's effect is not in doubt."""

    async def hang() -> str:
        await trio.sleep_forever()
        raise AssertionError

    for settings, outcome, unknown in (({}, "unknown_effect", 1), ({"read_only": True}, "timeout", 0)):
        result, finished = await run(Tool(hang, timeout=3, **settings), calls=ask("hang"))
        assert result.ok
        assert [event.outcome for event in finished] == [outcome]
        assert "longer than 3 s" in finished[0].content
        assert len(result.unknown_effects) == unknown


async def test_a_blocking_tool_that_heeds_the_cancellation_ends_in_its_grace() -> None:
    """It is told, ends in time, and its value counts although the run is over."""

    def patient(context: ToolContext) -> str:
        return "tidied up" if context.wait_cancelled(30) else "never told"

    result, finished = await run(Tool(patient, grace=20), calls=ask("patient"), limits=Limits(timeout=0.05))
    assert result.reason == "timeout"
    assert [(event.outcome, event.content) for event in finished] == [("ok", "tidied up")]
    assert result.unknown_effects == ()


async def test_a_blocking_tool_that_ignores_cancellation_is_abandoned() -> None:
    """After its grace the run goes on without it, its effect unknown; its slot is free only when it really ends."""
    release = threading.Event()
    ended = threading.Event()

    def stubborn() -> str:
        release.wait(30)
        ended.set()
        return "late"

    tool = Tool(stubborn, timeout=0.02, grace=0.02, concurrency=1)
    try:
        result, finished = await run(tool, calls=ask("stubborn"))
        assert result.ok
        assert [event.outcome for event in finished] == ["unknown_effect"]
        assert result.unknown_effects == (f"{result.run}/1/0",)
        assert tool.limiter is not None
        assert tool.limiter.borrowed_tokens == 1
        assert not ended.is_set()
    finally:
        release.set()
    with trio.fail_after(30):
        await tool.limiter.acquire()
    assert ended.is_set()
    tool.limiter.release()


async def test_a_tools_concurrency_holds_over_all_runs(autojump_clock: trio.testing.MockClock) -> None:
    """However many runs call it, no more than so many of its calls run at once; the others have not started."""
    running = ended = 0
    seen: list[tuple[int, int]] = []
    journals: list[MemoryJournal] = []

    async def narrow() -> str:
        nonlocal running, ended
        running += 1
        started = sum(isinstance(event, ToolStarted) for journal in journals for event in journal.events)
        seen.append((running, started - ended))
        await trio.sleep(1)
        running -= 1
        ended += 1
        return "ok"

    tool = Tool(narrow, concurrency=2)

    async def one() -> None:
        journal = MemoryJournal()
        journals.append(journal)
        agent = AgentSpec(name="agent", model="scripted", tools=(tool,))
        result = await run_agent(agent, "x", model=ScriptedModel(in_turn(ask("narrow"), say("y"))), journal=journal)
        assert result.ok

    async with trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(one)
    assert max(seen) == (2, 2)
    assert trio.current_time() >= 4


async def test_calls_start_in_order_and_answer_in_order(autojump_clock: trio.testing.MockClock) -> None:
    """Two at once: calls start in the model's order, finish as they do, and the transcript has the model's order."""
    started: list[int] = []

    async def wait(number: int, seconds: float) -> str:
        started.append(number)
        await trio.sleep(seconds)
        return f"number {number}"

    calls = ask_all(*(("wait", {"number": n, "seconds": s}) for n, s in enumerate((5, 1, 1, 1))))
    result, finished = await run(Tool(wait, concurrency=1), calls=calls, tool_concurrency=1)
    assert started == [0, 1, 2, 3]
    started.clear()
    result, finished = await run(Tool(wait), calls=calls, tool_concurrency=2)
    assert sorted(started[:2]) == [0, 1]
    assert started[2:] == [2, 3]
    assert [event.index for event in finished] == [1, 2, 3, 0]
    told = [message.content for message in result.messages if message.role == "tool"]
    assert told == [f"number {number}" for number in range(4)]


async def test_a_thread_may_cancel_its_run() -> None:
    """A blocking tool ends its own run; what it returned is recorded."""

    def enough(context: ToolContext) -> str:
        context.cancel_run()
        return "that was all"

    result, finished = await run(Tool(enough), calls=ask("enough"))
    assert result.reason == "cancelled"
    assert [(event.outcome, event.content) for event in finished] == [("ok", "that was all")]


async def test_a_tool_with_a_nursery_of_its_own_is_cut_off_cleanly(autojump_clock: trio.testing.MockClock) -> None:
    """A group of cancellations is a cancellation, and a group of errors an observation."""

    async def nested(fail: bool) -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            if fail:
                raise OSError("inside")
            await trio.sleep_forever()
        raise AssertionError

    result, finished = await run(Tool(nested, timeout=1), calls=ask("nested", {"fail": False}))
    assert [event.outcome for event in finished] == ["unknown_effect"]
    result, finished = await run(Tool(nested), calls=ask("nested", {"fail": False}), limits=Limits(timeout=1))
    assert (result.reason, [event.outcome for event in finished]) == ("timeout", ["unknown_effect"])
    result, finished = await run(Tool(nested), calls=ask("nested", {"fail": True}))
    assert (result.reason, [event.outcome for event in finished]) == ("final_answer", ["error"])
