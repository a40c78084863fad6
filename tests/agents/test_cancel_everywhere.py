"""A run cancelled at every point where it can be: the journal is whole and nothing stays reserved."""

from collections.abc import Callable

import pytest
import trio
import trio.abc
import trio.testing

from agents.amounts import Amounts, Limits
from agents.budget import Reservation, Scope
from agents.events import RunEnded, ToolFinished
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.loop import AgentRun
from agents.scripted import ScriptedModel, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole, assert_whole


class AtStep(trio.abc.Instrument):
    """Counts the steps that trio's tasks take, and does something before the n-th."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self._step = step
        self._act = act
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1
        if self.steps == self._step:
            self._act()


class Ledger:
    """What the tools really did."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    def tools(self) -> tuple[Tool, ...]:
        async def write(text: str) -> str:
            self.begun.append(text)
            await trio.sleep(1)
            await trio.lowlevel.checkpoint()
            self.ended.append(text)
            return text

        async def read() -> str:
            await trio.sleep(0.5)
            return "read"

        def block(text: str) -> str:
            self.begun.append(text)
            self.ended.append(text)
            return text

        return (Tool(write), Tool(read, read_only=True, concurrency=1), Tool(block, grace=5))


CALLS = (
    ask_all(("write", {"text": "a"}), ("read", {}), ("nonsense", {}), ("read", {})),
    ask_all(("block", {"text": "b"}), ("write", {"text": 1}), ("write", {"text": "c"}), ("write", {"text": "d"})),
    say("done"),
)


async def one(how: str, step: int) -> tuple[AgentRun, MemoryJournal, Ledger, Scope, int]:
    """Runs the whole thing, and cancels it before trio's n-th task step; returns how many steps it took."""
    ledger, journal = Ledger(), MemoryJournal()
    budget = Scope("job", Limits(tool_calls=4, tokens=60_000))
    held = budget.reserve(Amounts(tokens=55_000))  # the first model call has to wait for this
    assert isinstance(held, Reservation)
    agent = AgentSpec(name="agent", model="scripted", tools=ledger.tools(), tool_concurrency=2)
    run = AgentRun(agent, "x", model=ScriptedModel(in_turn(*CALLS), latency=1), journal=journal, budget=budget)
    outer = trio.CancelScope()
    await run.create()
    trigger = AtStep(step, outer.cancel if how == "parent" else run.cancel)
    trio.lowlevel.add_instrument(trigger)
    try:
        with outer:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run.drive)
                await trio.sleep(0.1)
                held.release()
    finally:
        trio.lowlevel.remove_instrument(trigger)
        held.release()
    return run, journal, ledger, budget, trigger.steps


@pytest.mark.parametrize("how", ["parent", "user"])
async def test_a_run_cancelled_anywhere_leaves_a_whole_journal(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Every call that was started has exactly one result or is unknown, every reservation has come back."""
    reasons: set[StopReason] = set()
    step = 0
    while True:
        step += 1
        run, journal, ledger, budget, steps = await one(how, step)
        assert_whole(journal.events)
        assert_nothing_reserved(budget)
        assert run.result is not None
        assert_transcript_whole(run.result)
        ended = journal.events[-1]
        assert isinstance(ended, RunEnded)
        assert (ended.reason, ended.state) == (run.result.reason, run.state)
        reasons.add(ended.reason)
        _check_effects(run, journal, ledger)
        assert budget.used.tool_calls == run.result.tool_calls <= 4
        if steps < step:
            break
    assert reasons == {StopReason.CANCELLED, StopReason.MAX_TOOL_CALLS}
    assert step > 40


def _check_effects(run: AgentRun, journal: MemoryJournal, ledger: Ledger) -> None:
    """What is told as done was done, and what was begun and is not told as done is told as unknown.

    (Virtual time does not wait for a thread: one that is cut off may be abandoned and still end.)
    """
    assert run.result is not None
    finished = {(e.step, e.index): e for e in journal.events if isinstance(e, ToolFinished)}
    told = [e.content for e in finished.values() if e.outcome == "ok" and e.name in {"write", "block"}]
    assert set(told) <= set(ledger.ended)
    assert len(told) == len(set(told))
    unknown = [e for e in finished.values() if e.outcome == "unknown_effect"]
    assert len(unknown) == len(run.result.unknown_effects) >= len(ledger.begun) - len(told)
    assert all(e.name != "read" for e in unknown)
