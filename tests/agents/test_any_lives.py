"""Whatever happens to its executors, and whatever others say meanwhile: the run ends once, whole, and as it is told."""

import contextlib
from collections.abc import Sequence
from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import Refused, Unavailable
from agents.events import BudgetGranted, CancelRequested, Event, MessageAdded
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.messages import ModelReply, Usage
from agents.money import Price, PriceList
from agents.origin import RunLeft
from agents.scripted import Answer, ask_all, in_turn, say
from agents.spec import AgentSpec
from tests.agents.lives import (
    Executor,
    SessionLog,
    World,
    assert_effects,
    assert_told_as_driven,
    assert_whole_over_lives,
    take_up,
    wall,
)
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole

PRICES = PriceList({"scripted": Price(input=1_000_000, output=2_000_000)})

calls = st.sampled_from(
    [
        ("write", {"text": "a"}),
        ("write", {"text": "b"}),
        ("put", {"text": "c"}),
        ("look", {}),
        ("broken", {}),
        ("stop", {}),
        ("nonsense", {}),
        ("put", {"text": 1}),
    ]
)
asking = st.lists(calls, min_size=1, max_size=4).map(lambda made: ask_all(*made))
unsure = asking.map(lambda message: ModelReply(message, "tool_calls", Usage()))
others: st.SearchStrategy[Answer] = st.sampled_from(
    [
        say("done"),
        say(""),
        Unavailable("gone", partial="half"),
        Refused("no"),
        ModelReply(say("cut"), "length", Usage()),
    ]
)
scripts = st.lists(st.one_of(asking, asking, unsure, others), min_size=1, max_size=4)
limits = st.builds(
    Limits,
    rounds=st.integers(1, 5),
    tool_calls=st.none() | st.integers(0, 6),
    tokens=st.none() | st.integers(1_000, 20_000),
    micro_dollars=st.none() | st.integers(1_000, 20_000),
    timeout=st.none() | st.integers(1, 40),
)
from_outside: st.SearchStrategy[Event] = st.sampled_from(
    [
        MessageAdded(run="r", content="one"),
        MessageAdded(run="r", content="two"),
        MessageAdded(run="r", content="three"),
        BudgetGranted(run="r", limits=Limits(rounds=6, tool_calls=9)),
        BudgetGranted(run="r", limits=Limits(tokens=30_000, timeout=60)),
        CancelRequested(run="r", source="user", reason="interrupted"),
    ]
)
faults = st.one_of(
    st.tuples(st.just("killed"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("left"), st.integers(0, 12).map(lambda n: n / 4), st.booleans()),
)


class Busy(Executor):
    """Others append now and then, and now and then they tell the run at once."""

    def __init__(self, log: SessionLog, said: list[tuple[int, Event, bool]], **death: Any) -> None:
        super().__init__(log, **death)
        self._said = said
        self._tries = 0
        self.run: AgentRun | None = None

    def before(self, events: Sequence[Event]) -> None:
        self._tries += 1
        if self.known and self._said and self._said[0][0] <= self._tries and not self.dead:
            _, event, told = self._said.pop(0)
            self.log.outside(event)
            if told and self.run is not None:
                self.run.receive([event])


@settings(max_examples=150, deadline=None)
@given(
    script=scripts,
    of=limits,
    stop=st.booleans(),
    compact=st.booleans(),
    concurrency=st.integers(1, 3),
    lives=st.lists(faults, max_size=4),
    said=st.lists(st.tuples(st.integers(1, 9), from_outside, st.booleans()), max_size=4),
)
def test_any_run_ends_once_and_as_its_log_says(
    script: list[Answer],
    of: Limits,
    stop: bool,
    compact: bool,
    concurrency: int,
    lives: list[Any],
    said: list[Any],
) -> None:
    """Killed, left and spoken to at random, its log is whole at the end, and live state and fold agree all the way."""

    async def main() -> None:
        world, log, to_say = World(in_turn(*script)), SessionLog(), list(said)
        agent = AgentSpec(
            name="agent",
            model="scripted",
            tools=world.tools(),
            limits=of,
            on_tool_error="stop" if stop else "observe",
            tool_concurrency=concurrency,
            compact_at=20 if compact else None,
            compact_keep=2,
        )
        run: AgentRun | None = None
        for kind, when, late in [*lives, ("stays", 0, False)]:
            journal = Busy(log, to_say, late=late, dies_at=when + (run is None) if kind == "killed" else None)
            budget = Scope("job")
            if run is None:
                run = AgentRun(
                    agent, "x", model=world, journal=journal, run="r", wall=wall, prices=PRICES, budget=budget
                )
                await run.create()
            else:
                run = await take_up(log, agent, world, journal, prices=PRICES, budget=budget)
            journal.run = run
            async with trio.open_nursery() as nursery:
                if kind == "left":
                    nursery.start_soon(_leave, run, when)
                with contextlib.suppress(JournalLost, RunLeft):
                    await run.drive()
                nursery.cancel_scope.cancel()
            assert_nothing_reserved(budget)
            held = log.snapshot()
            if not journal.dead:
                assert (run.scope.used, run.scope.unknown) == (held.used, held.unknown)
                assert (run.progress.rounds, run.progress.tool_calls) == (held.rounds, held.tool_calls)
                assert run.usage == held.usage
            if held.ended is not None:
                break
            await trio.sleep(2)
        assert run is not None
        assert_whole_over_lives(log.events)
        assert_effects(world, log.events)
        assert len(set(world.keys)) == len(world.keys)
        if not journal.dead:
            assert run.result is not None
            assert_told_as_driven(log, run.result)
            assert_transcript_whole(run.result)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def _leave(run: AgentRun, seconds: float) -> None:
    await trio.sleep(seconds)
    run.leave()
