"""The fold of what runs really wrote: it agrees with the run at every moment, and every prefix of it is whole."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from agents.amounts import UNLIMITED, Limits
from agents.budget import Scope
from agents.compaction import ASK
from agents.events import BudgetGranted, CancelRequested, Compacted, Event, MessageAdded, RunEnded
from agents.fold import fold, result_of, transcript
from agents.journal import MemoryJournal
from agents.loop import AgentRun
from agents.messages import Message, ModelReply, ModelRequest
from agents.money import Price, PriceList
from agents.port import Newcomers, Priority, Receipt
from agents.result import RunResult
from agents.scripted import Answer, ScriptedModel, in_turn, say
from agents.snapshot import SessionSnapshot
from agents.spec import AgentSpec
from tests.agents.test_any_script import TOOLS, answers, asking, limits, message

PRICES = PriceList({"scripted": Price(input=1_000_000, output=2_000_000)})

plain = st.builds(
    message,
    st.sampled_from(["words", "more words" * 9]),
    st.lists(st.sampled_from([("read", "{}"), ("write", '{"text": "x"}'), ("write", '{"text": "hang"}')]), min_size=1),
    st.just(False),
)
long_talks = st.lists(st.one_of(plain, plain, plain, plain, asking), min_size=3, max_size=8)

outside: st.SearchStrategy[Event] = st.one_of(
    st.builds(MessageAdded, run=st.just("r"), content=st.sampled_from(["hurry", "look again"])),
    st.builds(MessageAdded, run=st.just("r"), content=st.sampled_from(["hurry", "look again"])),
    st.builds(BudgetGranted, run=st.just("r"), limits=st.builds(Limits, rounds=st.integers(3, 12))),
    st.builds(CancelRequested, run=st.just("r"), source=st.just("user"), reason=st.just("cancelled")),
)


class CrowdedJournal(MemoryJournal):
    """Before the n-th append of the run others have their say, where `others` has something for it."""

    __slots__ = ("_others", "_turn")

    def __init__(self, others: dict[int, list[Event]]) -> None:
        super().__init__()
        self._others = others
        self._turn = 0

    async def append(self, events: Sequence[Event]) -> None:
        self._turn += 1
        others = self._others.get(self._turn)
        if others:
            await super().append(others)
            raise Newcomers(others)
        await super().append(events)


class Compared:
    """A model that compares, whenever it is asked, the run with the fold of what the run has written.

    What it finds is asserted afterwards: a run takes an error of its model for the end of a call.
    """

    def __init__(self, model: ScriptedModel, journal: MemoryJournal) -> None:
        self._model = model
        self.journal = journal
        self.run: AgentRun | None = None
        self.differences: list[Any] = []

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = math.inf,
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        self._compare(request)
        return await self._model.call(request, deadline=deadline, priority=priority, receipt=receipt)

    def _compare(self, request: ModelRequest) -> None:
        assert self.run is not None
        last, state = fold(self.journal.events).last, self.run.progress
        if last is None or last.open_request is None or last.open_step is not None:
            self.differences.append((last, "has no request open, or a step"))
            return
        messages = request.messages
        if last.open_request.purpose == "compact":
            messages = messages[:-1] + last.messages[len(messages) - 1 :]
        lived: dict[str, Any] = {
            "messages": messages,
            "used": state.scope.used,
            "unknown": state.scope.unknown,
            "limits": state.scope.limits,
            "unknown_effects": tuple(state.unknown_effects),
        }
        for field in ("rounds", "tool_calls", "usage", "micro_dollars", "partial", "context", "opening", "attempts"):
            lived[field] = getattr(state, field)
        folded = {field: getattr(last, field) for field in lived}
        if folded != lived:
            self.differences.append((folded, lived))


class Told(Struct):
    """What is told to a run, by its model and by others, and what it may use; `cut` is where its executor is lost."""

    script: list[Answer]
    own: Limits
    above: Limits
    on_tool_error: Any
    latency: float
    compact_at: int | None
    sums_up: bool
    others: dict[int, list[Event]]
    cut: int | None

    def agent(self) -> AgentSpec:
        return AgentSpec(
            name="agent",
            model="scripted",
            system="Be brief.",
            tools=TOOLS,
            limits=self.own,
            on_tool_error=self.on_tool_error,
            compact_at=self.compact_at,
            compact_keep=1,
        )

    def answer(self, messages: tuple[Message, ...]) -> Answer:
        if self.sums_up and messages[-1].content == ASK:
            return say("sum")
        return in_turn(*self.script)(messages)


Written = tuple[RunResult, tuple[Event, ...]]


def written(told: Told) -> Written:
    """How a run ended and what it wrote, under two executors maybe; the model compares both whenever it is asked."""
    journal = CrowdedJournal(told.others)
    agent, model = told.agent(), Compared(ScriptedModel(told.answer, latency=told.latency), journal)

    async def first() -> RunResult:
        model.run = AgentRun(
            agent, "x", model=model, journal=journal, budget=Scope("job", told.above), prices=PRICES, run="r"
        )
        await model.run.create()
        return await model.run.drive()

    async def second(left: tuple[Event, ...]) -> RunResult:
        snapshot = fold(left).last
        assert snapshot is not None
        again = CrowdedJournal(told.others)
        await MemoryJournal.append(again, left)
        model.journal = again
        model.run = AgentRun.take_up(
            agent, snapshot, model=model, journal=again, budget=Scope("job", told.above), prices=PRICES
        )
        return await model.run.drive()

    result = in_virtual_time(first)
    if told.cut is not None and told.cut < len(journal):
        result = in_virtual_time(second, journal.events[: told.cut])
    assert not model.differences
    return result, model.journal.events


def continued(told: Told) -> Written:
    """A second run of the same session, behind a first one."""
    _, before = written(told)
    history = fold(before).last
    journal = MemoryJournal()
    model = Compared(ScriptedModel(told.answer), journal)

    async def main() -> RunResult:
        await journal.append(before)
        agent, above = told.agent(), Scope("job", told.above)
        model.run = AgentRun(
            agent, "y", model=model, journal=journal, budget=above, prices=PRICES, run="s", history=history
        )
        await model.run.create()
        return await model.run.drive()

    result = in_virtual_time(main)
    assert not model.differences
    return result, journal.events


def in_virtual_time(main: Callable[..., Awaitable[RunResult]], *args: Any) -> RunResult:
    return trio.run(main, *args, clock=trio.testing.MockClock(autojump_threshold=0))


tellings = st.builds(
    Told,
    script=answers | long_talks | long_talks,
    own=limits | st.just(Limits(rounds=9)),
    above=limits | st.just(UNLIMITED),
    on_tool_error=st.sampled_from(["observe", "observe", "stop"]),
    latency=st.sampled_from([0.0, 1.0]),
    compact_at=st.none() | st.integers(10, 300) | st.just(10),
    sums_up=st.booleans(),
    others=st.dictionaries(st.integers(2, 14), st.lists(outside, min_size=1, max_size=2), max_size=3),
    cut=st.none() | st.integers(1, 30) | st.integers(3, 12),
)
runs: st.SearchStrategy[Written] = tellings.map(written)


def assert_valid(messages: Sequence[Message]) -> None:
    """Every tool call is followed by its one result, in the model's order."""
    waiting: list[str] = []
    for said in messages:
        if said.role == "tool":
            assert said.tool_call_id == waiting.pop(0)
            continue
        assert not waiting
        waiting = [call.id for call in said.tool_calls]
    assert not waiting


def as_bytes(snapshot: SessionSnapshot) -> bytes:
    return msgspec.json.encode(snapshot)


@settings(max_examples=100, deadline=None)
@given(runs)
def test_a_log_folds_to_what_the_run_was_told_and_became(run: Written) -> None:
    """The model is asked just what the fold says, with the same books, and the end of the log is the run's result."""
    result, events = run
    last = fold(events).last
    assert last is not None
    assert result_of(last) == result
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (last.rounds, last.tool_calls, last.usage) == (ended.rounds, ended.tool_calls, ended.usage)
    assert (last.unknown_effects, last.micro_dollars) == (ended.unknown_effects, ended.micro_dollars)


@settings(max_examples=40, deadline=None)
@given(tellings.map(continued))
def test_a_second_run_goes_on_with_what_the_first_one_left(run: Written) -> None:
    """Its model is asked with the session's whole transcript, its books are its own, and its result is the log's."""
    result, events = run
    session = fold(events)
    assert session.runs == ("r", "s")
    assert session.last is not None
    assert result_of(session.last) == result
    assert_valid(result.messages)


@settings(max_examples=60, deadline=None)
@given(runs)
def test_every_prefix_of_a_log_is_a_whole_transcript(run: Written) -> None:
    """Wherever its executor was lost, each call has exactly one answer, and what was said stays, or has a summary."""
    _, events = run
    said: tuple[Message, ...] = ()
    for length in range(1, len(events) + 1):
        last = fold(events[:length]).last
        assert last is not None
        assert_valid(transcript(last))
        if not isinstance(events[length - 1], Compacted):
            assert last.messages[: len(said)] == said
        said = last.messages


@settings(max_examples=60, deadline=None)
@given(runs)
def test_a_fold_goes_on_where_another_stopped(run: Written) -> None:
    """A prefix and then the rest come to the same bytes as the whole, one event at a time included."""
    _, events = run
    whole = as_bytes(fold(events))
    assert as_bytes(fold(events)) == whole
    stepwise: SessionSnapshot | None = None
    for length, event in enumerate(events):
        assert as_bytes(fold(events[length:], stepwise)) == whole
        stepwise = fold([event], stepwise)
    assert stepwise is not None
    assert as_bytes(stepwise) == whole


@settings(max_examples=60, deadline=None)
@given(runs, st.data())
def test_ends_that_come_twice_change_nothing(run: Written, data: st.DataObject) -> None:
    """Whatever ends something may stand in the log again, later: the first counts, and the others are evidence."""
    _, events = run
    ends = ("model_replied", "model_failed", "tool_refused", "tool_finished", "run_ended")
    places = [place for place, event in enumerate(events) if event.__struct_config__.tag in ends]
    first = data.draw(st.sampled_from(places))
    later = data.draw(st.integers(first, len(events) - 1))
    doubled = (*events[: later + 1], events[first], *events[later + 1 :])
    assert fold(doubled).last == fold(events).last
