"""Successive runs of one session, and what is said to a run while it works."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.errors import HeadraceError, InvalidLimits
from agents.events import BudgetGranted, MessageAdded, RunCreated
from agents.messages import Message, ModelReply
from agents.origin import CannotContinue
from agents.runtime import UnknownRun
from agents.scripted import ask, say
from orchestrator.runs.errors import RunOver
from orchestrator.store.errors import SessionBusy, UnknownSession
from orchestrator.views.runs import AgentChoice
from tests.runs.lasting import Kept, daemon

Clock = trio.testing.MockClock


def searching(history: Sequence[Message]) -> ModelReply:
    """Searches for ever, until somebody says enough."""
    if any(message.content == "enough" for message in history):
        return say("stopped searching")
    return ask("search", {"query": "x"}, text="looking")


def counting(history: Sequence[Message]) -> ModelReply:
    return say(f"heard {len(history)}")


async def test_a_session_goes_on_with_its_transcript(autojump_clock: Clock) -> None:
    """The second run's log holds only what it adds; its model hears everything; numbers go on; also after a restart."""
    store = Kept()
    async with daemon(store, script=counting) as first:
        one = await first.start(session="talk", task="hello")
        assert (await first.service.wait(one)).answer == "heard 1"
    async with daemon(store, script=counting) as second:
        two = await second.start(session="talk", task="again")
        detail = await second.service.wait(two)
        assert (detail.answer, detail.session) == ("heard 3", "talk")
        assert [message.content for message in detail.messages] == ["hello", "heard 1", "again", "heard 3"]
        numbers = [number async for number, _ in second.service.events(two)]
        assert len(numbers) == detail.events
        earlier = [number async for number, _ in second.service.events(one)]
        assert earlier + numbers == list(range(1, len(earlier) + len(numbers) + 1))
        assert (await second.service.detail(one)).answer == "heard 1"
        page = await second.service.page(session="talk")
        assert [view.run for view in page.runs] == [two, one]
    created = [event for event in await store.log("talk") if isinstance(event, RunCreated)]
    assert [event.messages for event in created] == [(Message("user", "hello"),), (Message("user", "again"),)]


async def test_one_run_of_a_session_is_open_at_a_time(autojump_clock: Clock) -> None:
    """While it is, another is refused by name, here and after a restart; of many that come at once one gets in."""
    store = Kept()
    async with daemon(store) as first:
        run = await first.start(session="talk")
        with pytest.raises(SessionBusy, match=run):
            await first.start(session="talk")
        await trio.sleep(10)
    async with daemon(store, resume=False) as second:
        with pytest.raises(SessionBusy, match=run):
            await second.start(session="talk")
        await second.service.resume_rest()
        await second.service.wait(run)
        outcomes: list[str] = []

        async def start() -> None:
            try:
                await second.start(session="talk")
            except SessionBusy:
                outcomes.append("busy")
            else:
                outcomes.append("in")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(start)
        assert sorted(outcomes) == ["busy"] * 4 + ["in"]


async def test_a_run_that_a_limit_stopped_goes_on_with_a_grant(autojump_clock: Clock) -> None:
    """Without a task and with whoever worked last: it goes on where it stopped, with the limits that were raised."""
    async with daemon(Kept(), script=searching) as there:
        one = await there.start(session="talk")
        stopped = await there.service.wait(one)
        assert (stopped.reason, stopped.rounds) == ("max_rounds", 5)
        two = await there.start(session="talk", task="", who=AgentChoice(), grant=Limits(rounds=8, tokens=1))
        detail = await there.service.wait(two)
        assert (detail.agent, detail.reason, detail.rounds, detail.allowed) == ("seeker", "max_rounds", 8, 8)
        assert [m.role for m in detail.messages].count("user") == 1


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"task": ""}, CannotContinue, "say what comes next"),
        ({"who": AgentChoice(model="scripted")}, CannotContinue, "seeker"),
        ({"tenant": "other"}, UnknownSession, "other"),
        ({"session": "new", "grant": Limits(rounds=9)}, InvalidLimits, "grant"),
        ({"session": "a/b"}, InvalidLimits, "session"),
    ],
)
async def test_what_a_session_cannot_go_on_with_is_refused(
    asked: Any, error: type[HeadraceError], words: str, autojump_clock: Clock
) -> None:
    """The message says what would be right, nothing was created, and the session can go on after that."""
    async with daemon(Kept()) as there:
        await there.service.wait(await there.start(session="talk"))
        with pytest.raises(error, match=words):
            await there.start(**({"session": "talk"} | asked))
        assert (await there.service.page()).total == 1
        assert there.service.statistics().live == 0
        assert (await there.service.wait(await there.start(session="talk", task="more"))).reason == "final_answer"


async def test_a_message_is_read_with_the_next_request(autojump_clock: Clock) -> None:
    """Said while a tool works, it is in the log before it is acknowledged; the same key again says nothing twice."""
    store = Kept()
    async with daemon(store, script=searching) as there:
        run = await there.start()
        await trio.sleep(30)
        for _ in range(3):
            await there.service.message(run, "enough", key="mine")
        detail = await there.service.wait(run)
        assert (detail.answer, detail.rounds) == ("stopped searching", 2)
        assert [message.role for message in detail.messages] == ["user", "assistant", "tool", "user", "assistant"]
        with pytest.raises(RunOver, match="has ended"):
            await there.service.message(run, "more")
        with pytest.raises(UnknownRun):
            await there.service.message("nobody", "more")
    assert sum(isinstance(event, MessageAdded) for event in await store.log(run)) == 1


async def test_a_message_to_a_run_that_nobody_drives_is_not_lost(autojump_clock: Clock) -> None:
    """Whoever takes the run up reads it with the next request."""
    store = Kept()
    async with daemon(store, script=searching) as first:
        run = await first.start()
        await trio.sleep(30)
    async with daemon(store, script=searching, resume=False) as second:
        await second.service.message(run, "enough")
        await second.service.resume_rest()
        assert (await second.service.wait(run)).answer == "stopped searching"


async def test_a_grant_raises_the_limits_of_a_live_run(autojump_clock: Clock) -> None:
    """It counts from where it is in the log on, and is kept over a restart."""
    store = Kept()
    async with daemon(store, script=searching) as first:
        run = await first.start()
        await trio.sleep(30)
        await first.service.grant(run, Limits(rounds=7))
        with pytest.raises(InvalidLimits):
            await first.service.grant(run, Limits())
    async with daemon(store, script=searching) as second:
        detail = await second.service.wait(run)
        assert (detail.reason, detail.rounds, detail.allowed) == ("max_rounds", 7, 7)
    assert sum(isinstance(event, BudgetGranted) for event in await store.log(run)) == 1


async def test_money_is_granted_only_where_there_is_a_price(autojump_clock: Clock) -> None:
    """A live run whose model has no price is granted none, driven or left, and its log says nothing of it; one whose
    model has a price is granted money.
    """
    store = Kept()
    async with daemon(store, script=counting) as first:
        run = await first.start()
        priced = await first.start(who=AgentChoice(model="priced"), budget=Limits(micro_dollars=10_000_000))
        with pytest.raises(InvalidLimits, match="'scripted' has no price"):
            await first.service.grant(run, Limits(micro_dollars=5))
        await first.service.grant(priced, Limits(micro_dollars=20_000_000))
        await trio.sleep(0.5)
    async with daemon(store, script=counting, resume=False) as second:
        with pytest.raises(InvalidLimits, match="'scripted' has no price"):
            await second.service.grant(run, Limits(micro_dollars=5, rounds=9))
        await second.service.grant(priced, Limits(micro_dollars=30_000_000))
    assert not [event for event in await store.log(run) if isinstance(event, BudgetGranted)]
    assert len([event for event in await store.log(priced) if isinstance(event, BudgetGranted)]) == 2
