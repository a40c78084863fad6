"""Whatever people say and whenever, whatever happens to executors: the run ends once, and as its log says."""

import contextlib
from collections.abc import Sequence
from typing import Any

import trio
import trio.testing
from hypothesis import given as generate
from hypothesis import settings
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.budget import Scope
from agents.events import ApprovalDecided, BudgetGranted, CancelRequested, Event, InputGiven, MessageAdded, RunWaiting
from agents.fold import fold, transcript
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.messages import Message
from agents.origin import RunLeft, RunParked
from agents.scripted import Answer, ask_all, say
from agents.snapshot import RunSnapshot
from tests.agents.lives import (
    Executor,
    SessionLog,
    assert_effects,
    assert_told_as_driven,
    assert_whole_over_lives,
    take_up,
    wall,
)
from tests.agents.people import AskedWorld, agent_of, assert_people_had_their_say
from tests.agents.whole import assert_nothing_reserved, assert_transcript_whole

calls = st.sampled_from(
    [
        ("pay", {"text": "a"}),
        ("pay", {"text": "b"}),
        ("put", {"text": "much"}),
        ("put", {"text": "little"}),
        ("write", {"text": "c"}),
        ("look", {}),
        ("stop", {}),
        ("ask", {"question": "why?"}),
        ("ask", {"question": "which?", "options": ["one", "two"]}),
        ("pay", {"text": 1}),
        ("nonsense", {}),
    ]
)
scripts = st.lists(st.lists(calls, min_size=1, max_size=4).map(lambda made: ask_all(*made)), min_size=1, max_size=3)
limits = st.builds(
    Limits, rounds=st.integers(2, 5), tool_calls=st.none() | st.integers(0, 6), timeout=st.none() | st.integers(3, 60)
)
decisions = st.sampled_from(["approved", "approved", "approved", "denied", "expired", "given", "given"])
seconds = st.sampled_from([0, 1, 30, 5_000])
words = st.tuples(st.integers(1, 3), st.integers(0, 3), decisions)
others: st.SearchStrategy[Event] = st.sampled_from(
    [
        MessageAdded(run="r", content="hurry"),
        BudgetGranted(run="r", limits=Limits(rounds=6, tool_calls=9, timeout=80)),
        CancelRequested(run="r", source="user", reason="interrupted"),
    ]
)
said_at = st.tuples(st.integers(1, 12), words | words | words | others, st.booleans())
faults = st.one_of(
    st.tuples(st.just("killed"), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("left"), st.integers(0, 12), st.booleans()),
    st.tuples(st.just("stays"), st.just(0), st.booleans()),
)


def word(said: Any) -> Event:
    """What somebody says, at the time at which it is said; now and then about what nobody asked."""
    if not isinstance(said, tuple):
        return said  # type: ignore[no-any-return]
    step, index, decision = said
    return answer(f"r/{step}/{index}", decision)


def answer(key: str, decision: Any) -> Event:
    if decision == "given":
        return InputGiven(run="r", key=key, content="so", by="ann", at=wall())
    return ApprovalDecided(run="r", key=key, decision=decision, by="ann", at=wall())


class Busy(Executor):
    """Others append now and then, and now and then they tell the run at once."""

    def __init__(self, log: SessionLog, said: list[Any], **death: Any) -> None:
        super().__init__(log, **death)
        self._said = said
        self._tries = 0
        self.run: AgentRun | None = None

    def before(self, events: Sequence[Event]) -> None:
        self._tries += 1
        if self.known and self._said and self._said[0][0] <= self._tries and not self.dead:
            _, said, told = self._said.pop(0)
            event = word(said)
            self.log.outside(event)
            if told and self.run is not None:
                self.run.receive([event])


@settings(max_examples=150, deadline=None)
@generate(
    script=scripts,
    of=limits,
    stop=st.booleans(),
    concurrency=st.integers(1, 3),
    expires_in=st.none() | st.just(100.0),
    lives=st.lists(faults, max_size=4),
    said=st.lists(said_at, max_size=5),
    answers=st.lists(st.tuples(st.integers(0, 3), decisions, seconds), min_size=1, max_size=6),
)
def test_any_run_that_asks_people_ends_once_and_as_its_log_says(
    script: list[Message],
    of: Limits,
    stop: bool,
    concurrency: int,
    expires_in: float | None,
    lives: list[Any],
    said: list[Any],
    answers: list[Any],
) -> None:
    """Killed, left, answered and spoken to at random, live state and fold agree, and nothing runs against any word."""

    async def main() -> None:
        def model(told: tuple[Message, ...]) -> Answer:
            turn = sum(message.role == "assistant" for message in told)
            return script[turn] if turn < len(script) else say("done")

        world, log, to_say = AskedWorld(model, expires_in=expires_in), SessionLog(), list(said)
        spec: dict[str, Any] = {
            "limits": of,
            "on_tool_error": "stop" if stop else "observe",
            "tool_concurrency": concurrency,
        }
        agent, run, turn = agent_of(world, **spec), None, 0
        fates = list(lives)
        while run is None or log.snapshot().ended is None:
            kind, when, late = fates.pop(0) if fates else ("stays", 0, False)
            journal = Busy(log, to_say, late=late, dies_at=when + (run is None) if kind == "killed" else None)
            budget = Scope("job")
            if run is None:
                run = AgentRun(agent, "x", model=world, journal=journal, run="r", wall=wall, budget=budget)
                await run.create()
            else:
                run = await take_up(log, agent, world, journal, budget=budget)
            journal.run = run
            parked = False
            async with trio.open_nursery() as nursery:
                if kind == "left":
                    nursery.start_soon(_leave, run, when, late)
                try:
                    with contextlib.suppress(JournalLost):
                        await run.drive()
                except RunParked:
                    parked = True
                except RunLeft:
                    pass
                nursery.cancel_scope.cancel()
            assert_nothing_reserved(budget)
            held = log.snapshot()
            if not journal.dead:
                assert (run.scope.used, run.scope.unknown) == (held.used, held.unknown)
                assert (run.progress.rounds, run.progress.tool_calls) == (held.rounds, held.tool_calls)
            if parked:
                assert isinstance(log.events[-1], RunWaiting)
                assert held.asked
                assert held.waiting
                index, decision, late_by = answers[turn % len(answers)]
                turn += 1
                await trio.sleep(late_by)
                key = held.asked[index % len(held.asked)].key
                if turn > 40:  # whoever never says what was asked gives up
                    log.outside(CancelRequested(run="r", source="user", reason="cancelled"))
                else:
                    log.outside(answer(key, decision))
            else:
                await trio.sleep(2)
        assert run is not None
        assert_whole_over_lives(log.events)
        assert_people_had_their_say(log.events)
        assert_effects(world, [event for event in log.events if getattr(event, "name", "") != "ask"])
        assert_every_prefix_is_whole(log.events)
        if not journal.dead:
            assert run.result is not None
            assert_told_as_driven(log, run.result)
            assert_transcript_whole(run.result)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def _leave(run: AgentRun, seconds: float, soon: bool) -> None:
    await trio.sleep(seconds)
    if soon:
        run.leave_soon()
        await trio.sleep(8)
    run.leave()


def assert_every_prefix_is_whole(events: Sequence[Event]) -> None:
    """Folded in pieces or at once it is the same; times only grow; what people are asked has no answer yet."""
    session = fold(())
    waited = 0.0
    for place, event in enumerate(events, 1):
        session = fold((event,), session)
        run = session.last
        assert run is not None
        assert waited <= run.waited
        waited = run.waited
        assert len(transcript(run)) >= len(run.messages)
        _assert_asked(run)
        if place % 7 == 0:
            assert fold(events[:place]) == session
    assert fold(events) == session


def _assert_asked(run: RunSnapshot) -> None:
    calls = () if run.open_step is None else run.open_step.calls
    for asked in run.asked:
        call = calls[asked.index]
        assert (call.outcome, call.started) == (None, False)
    assert not run.waiting or run.open_step is not None
