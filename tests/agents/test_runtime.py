"""Any runtime as a black box: start, poll, cancel and wait, held against the same rules."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import InvalidLimits
from agents.journal import MemoryJournal
from agents.lifecycle import State, StopReason
from agents.log import JournalLost
from agents.observation import Observation, validate_observation
from agents.runtime import DuplicateRun, LocalRuntime, Runtime, UnknownRun, Unsupported
from agents.scripted import ScriptedModel, ask, in_turn, say
from agents.spec import AgentSpec
from agents.tools import tool
from tests.agents.whole import assert_nothing_reserved, assert_whole


@tool(read_only=True)
async def search(query: str) -> str:
    """Searches for a minute."""
    await trio.sleep(60)
    return f"pages about {query}"


AGENT = AgentSpec(name="agent", model="scripted", tools=(search,))
SCRIPT = in_turn(ask("search", {"query": "x"}, text="looking"), say("found"))

Opened = AbstractAsyncContextManager[tuple[Runtime, MemoryJournal]]
Open = Callable[..., Opened]


@asynccontextmanager
async def local(max_live: int | None = None) -> AsyncIterator[tuple[Runtime, MemoryJournal]]:
    """The in-process runtime over a scripted model that takes a second for an answer."""
    journal = MemoryJournal()
    model = ScriptedModel(SCRIPT, latency=1)
    async with trio.open_nursery() as nursery:
        yield LocalRuntime(nursery, model=model, journal=journal, max_live=max_live), journal


@pytest.fixture(params=[local])
def opened(request: pytest.FixtureRequest) -> Open:
    """Each runtime in turn; a new one is added here and must pass everything below."""
    made: Open = request.param
    return made


async def watch(runtime: Runtime, run: str) -> list[Observation]:
    """Polls every few seconds till the end, holding each observation against the one before."""
    seen: list[Observation] = []
    while not seen or not seen[-1].terminal:
        current = await runtime.poll(run)
        validate_observation(seen[-1] if seen else None, current)
        seen.append(current)
        await trio.sleep(0.4)
    return seen


async def test_a_run_is_started_polled_and_waited_for(opened: Open, autojump_clock: trio.testing.MockClock) -> None:
    """Start returns before the run has done anything; polls only go forward; the result has the answer."""
    async with opened() as (runtime, journal):
        before = trio.current_time()
        run = await runtime.start(AGENT, "x")
        assert trio.current_time() == before
        assert len(journal.of(run)) >= 1
        seen = await watch(runtime, run)
        assert [observation.observed for observation in seen][-1] == "done"
        assert {State.WAITING_MODEL, State.WAITING_TOOL} <= {observation.state for observation in seen}
        result = await runtime.wait(run)
        assert (result.run, result.answer, result.reason) == (run, "found", StopReason.FINAL_ANSWER)
        assert seen[-1].usage == result.usage
    assert_whole(journal.of(run))


async def test_nobodys_id_is_unknown_and_never_pending(opened: Open, autojump_clock: trio.testing.MockClock) -> None:
    """Polling, cancelling and waiting for an id that was never given out all say so."""
    async with opened() as (runtime, _):
        for ask_for in (runtime.poll, runtime.cancel, runtime.wait):
            with pytest.raises(UnknownRun, match="nobody"):
                await ask_for("nobody")
        assert UnknownRun.kind == "unknown_run"


@pytest.mark.parametrize("after", [0, 0.5, 1.5, 30, 61.5])
@pytest.mark.parametrize("reason", ["cancelled", "interrupted"])
async def test_a_run_is_cancelled_in_every_phase(
    opened: Open, after: float, reason: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """Before it begins, while it waits for the model, for a tool, and again: acknowledged at once, then terminal."""
    async with opened() as (runtime, journal):
        run = await runtime.start(AGENT, "x")
        if after:
            await trio.sleep(after)
        before = await runtime.poll(run)
        acknowledged = await runtime.cancel(run, reason)
        validate_observation(before, acknowledged)
        with trio.fail_after(1):
            result = await runtime.wait(run)
        assert (result.reason, result.state) == (reason, State.CANCELLED)
        assert result.partial == ("looking" if after > 1 else "")
        validate_observation(acknowledged, await runtime.poll(run))
    assert_whole(journal.of(run))


async def test_cancelling_a_finished_run_succeeds_and_changes_nothing(
    opened: Open, autojump_clock: trio.testing.MockClock
) -> None:
    """Its evidence stays readable, and its reason is what it was."""
    async with opened() as (runtime, _):
        run = await runtime.start(AGENT, "x")
        result = await runtime.wait(run)
        ended = await runtime.poll(run)
        assert await runtime.cancel(run) == ended
        assert await runtime.wait(run) == result
        assert result.ok


async def test_what_it_cannot_do_is_refused_before_anything_exists(
    opened: Open, autojump_clock: trio.testing.MockClock
) -> None:
    """A need beyond its capabilities, and limits that make no sense: nothing is created, the id stays unknown."""
    async with opened() as (runtime, journal):
        lacking = [
            need
            for need in ("survives_restart", "cancels", "streams", "scores")
            if not getattr(runtime.capabilities(), need)
        ]
        for need in lacking:
            needs: Any = frozenset({need})
            with pytest.raises(Unsupported, match=need):
                await runtime.start(AGENT, "x", run="mine", needs=needs)
        poor = Scope("job", Limits(micro_dollars=5))
        with pytest.raises(InvalidLimits, match="micro_dollars"):
            await runtime.start(AGENT, "x", run="mine", budget=poor)
        with pytest.raises(UnknownRun):
            await runtime.poll("mine")
        assert len(journal) == 0


async def test_an_id_is_given_once(opened: Open, autojump_clock: trio.testing.MockClock) -> None:
    """A second run of the same id is refused, and the first is not disturbed."""
    async with opened() as (runtime, _):
        await runtime.start(AGENT, "x", run="mine")
        with pytest.raises(DuplicateRun, match="mine"):
            await runtime.start(AGENT, "x", run="mine")
        assert (await runtime.wait("mine")).ok
        with pytest.raises(DuplicateRun):
            await runtime.start(AGENT, "x", run="mine")


async def test_many_runs_share_a_budget_and_leave_nothing(opened: Open, autojump_clock: trio.testing.MockClock) -> None:
    """A hundred runs in one job, some cancelled: all end, none is lost, nothing stays reserved."""
    job = Scope("job", Limits(tool_calls=60))
    async with opened() as (runtime, journal):
        runs = [await runtime.start(AGENT, "x", budget=job) for _ in range(100)]
        await trio.sleep(1.5)
        for run in runs[::10]:
            await runtime.cancel(run)
        reasons = [(await runtime.wait(run)).reason for run in runs]
    assert set(reasons) == {StopReason.FINAL_ANSWER, StopReason.MAX_TOOL_CALLS, StopReason.CANCELLED}
    assert job.used.tool_calls == 60
    assert_nothing_reserved(job)
    for run in runs:
        assert_whole(journal.of(run))


async def test_no_more_runs_live_than_there_is_room_for(autojump_clock: trio.testing.MockClock) -> None:
    """Runs beyond `max_live` are queued: pending from outside, cancellable, expiring, and their timeout not begun."""
    agent = AgentSpec(name="agent", model="scripted", tools=(search,), limits=Limits(timeout=70))
    async with local(max_live=2) as (runtime, journal):
        runs = [await runtime.start(agent, "x") for _ in range(5)]
        expiring = await runtime.start(agent, "x", expiry=trio.current_time() + 3)
        await trio.sleep(1)
        states = [(await runtime.poll(run)).observed for run in runs]
        assert sorted(states) == ["pending"] * 3 + ["running"] * 2
        waiting = [run for run, state in zip(runs, states, strict=True) if state == "pending"]
        await runtime.cancel(waiting[0])
        assert (await runtime.wait(waiting[0])).reason == "cancelled"
        assert (await runtime.wait(expiring)).reason == "expired"
        assert trio.current_time() == pytest.approx(3)
        for run in set(runs) - {waiting[0]}:
            assert (await runtime.wait(run)).ok
    assert trio.current_time() == pytest.approx(2 * 62, abs=1)
    for run in (*runs, expiring):
        assert_whole(journal.of(run))


async def test_the_end_of_the_nursery_is_the_end_of_its_runs(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelling the nursery closes every run, live or queued, as cancelled; none is lost in silence."""
    journal = MemoryJournal()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            model = ScriptedModel(SCRIPT, latency=1)
            runtime = LocalRuntime(nursery, model=model, journal=journal, max_live=3)
            runs = [await runtime.start(AGENT, "x") for _ in range(6)]
            await trio.sleep(1.5)
            scope.cancel()
    assert runtime.live == 0
    for run in runs:
        assert (await runtime.wait(run)).reason == "cancelled"
        assert_whole(journal.of(run))
    with pytest.raises(RuntimeError):
        await runtime.start(AGENT, "x", run="late")
    with pytest.raises(UnknownRun):
        await runtime.poll("late")


async def test_a_lost_journal_fails_the_run_and_says_so(autojump_clock: trio.testing.MockClock) -> None:
    """A run whose events can't be kept fails as internal_error; one that could not even be created never exists."""

    class Full(MemoryJournal):
        room = 4

        async def append(self, events: Any) -> None:
            if len(self) >= self.room:
                raise OSError("no space left")
            await super().append(events)

    async with trio.open_nursery() as nursery:
        runtime = LocalRuntime(nursery, model=ScriptedModel(SCRIPT), journal=Full())
        run = await runtime.start(AGENT, "x")
        result = await runtime.wait(run)
        assert (result.reason, result.state, result.next) == ("internal_error", State.FAILED, "human")
        assert "no space left" in result.message
        with pytest.raises(JournalLost):
            await runtime.start(AGENT, "x", run="second")
        with pytest.raises(UnknownRun):
            await runtime.poll("second")


def test_the_local_runtime_says_what_it_cannot_do() -> None:
    """It does not survive a restart."""
    nursery: Any = None
    runtime = LocalRuntime(nursery, model=ScriptedModel(SCRIPT), journal=MemoryJournal())
    said = runtime.capabilities()
    assert (said.survives_restart, said.cancels) == (False, True)
