"""Children that wait for people while their parents wait for them."""

import trio
import trio.testing

from agents.context import ToolContext
from agents.lifecycle import State
from agents.messages import Message
from agents.scripted import Answer, ask, say
from agents.spec import AgentSpec
from agents.tools import Tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.views.runs import AgentChoice
from tests.delegation.families import ends, finished, give
from tests.runs.lasting import Kept, daemon

Clock = trio.testing.MockClock
CHIEF = AgentChoice(agent="chief")
REQUEST = "top.1.0/1/0"


class Office:
    """A chief whose clerk may only send what a person approves; `sent` are the keys of what was."""

    def __init__(self) -> None:
        self.sent: list[str] = []

        async def send(text: str, context: ToolContext) -> str:
            self.sent.append(context.key)
            await trio.lowlevel.checkpoint()
            return f"sent {text}"

        specs = (
            AgentSpec(name="chief", model="scripted", system="chief", tools=(give("ask_clerk", "clerk"),)),
            AgentSpec(name="clerk", model="scripted", system="clerk", tools=(Tool(send, approval="always"),)),
        )
        models = {"scripted": (Target("sim", "scripted"),)}
        self.catalogue = Catalogue(models=models, default_model="scripted", agents={spec.name: spec for spec in specs})

    @staticmethod
    def script(messages: tuple[Message, ...]) -> Answer:
        results = [message.content for message in messages if message.role == "tool"]
        if results:
            return say(results[-1])
        return ask("ask_clerk", {"task": "x"}) if messages[0].content == "chief" else ask("send", {"text": "hello"})


async def test_a_child_that_is_approved_goes_on(autojump_clock: Clock) -> None:
    """The child holds nothing while people think; the parent waits for it, and both end when they have decided."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as there:
        await there.start(who=CHIEF, run="top")
        await trio.sleep(1000)
        assert (await there.service.view("top")).state is State.WAITING_CHILDREN
        assert (await there.service.view("top.1.0")).state is State.WAITING_APPROVAL
        assert (await store.session("top.1.0")).holder == ""
        await there.service.approvals.decide(REQUEST, "approved", by="ann")
        assert (await there.service.wait("top")).answer == "sent hello"
    assert office.sent == [REQUEST]


async def test_a_decision_reaches_a_child_over_restarts(autojump_clock: Clock) -> None:
    """Killed while the child waits, approved before its parent asks for it again: it is done, and once."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as first:
        await first.start(who=CHIEF, run="top")
        await trio.sleep(1000)
    async with daemon(store, script=office.script, catalogue=office.catalogue, resume=False) as second:
        await second.service.approvals.decide(REQUEST, "approved", by="ann")
        assert not office.sent
        await second.service.resume_rest()
        assert (await second.service.wait("top")).answer == "sent hello"
    assert office.sent == [REQUEST]


async def test_a_child_that_waits_goes_on_with_the_next_daemon(autojump_clock: Clock) -> None:
    """Killed while the child waits and approved long after the restart, the tree ends as if nothing had been."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as first:
        await first.start(who=CHIEF, run="top")
        await trio.sleep(1000)
    async with daemon(store, script=office.script, catalogue=office.catalogue) as second:
        await trio.sleep(1000)
        assert (await second.service.view("top")).state is State.WAITING_CHILDREN
        await second.service.approvals.decide(REQUEST, "approved", by="ann")
        assert (await second.service.wait("top")).answer == "sent hello"
    assert office.sent == [REQUEST]


async def test_cancelling_a_parent_voids_what_its_child_asks(autojump_clock: Clock) -> None:
    """Both end as cancelled, nothing is asked any more, and what was asked about never happens."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as there:
        await there.start(who=CHIEF, run="top")
        await trio.sleep(1000)
        await there.service.cancel("top")
        assert (await there.service.wait("top")).reason == "cancelled"
        assert (await there.service.wait("top.1.0")).reason == "cancelled"
        assert not (await there.service.approvals.list_open()).total
        assert there.service.statistics().live == 0
    assert not office.sent
    assert len(ends(await store.log("top.1.0"))) == 1


async def test_a_parent_that_is_left_lets_go_of_a_child_that_waits(autojump_clock: Clock) -> None:
    """Taken up again in the same daemon, it waits for the same child, which people then approve."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as there:
        await there.start(who=CHIEF, run="top")
        await trio.sleep(1000)
        record = there.service._records["top"]
        assert record.live is not None
        record.live.leave()
        await trio.sleep(1000)
        assert (await there.service.view("top")).state is State.WAITING_CHILDREN
        await there.service.approvals.decide(REQUEST, "approved", by="ann")
        assert (await there.service.wait("top")).answer == "sent hello"
    assert len(finished(await store.log("top"))) == 1
    assert office.sent == [REQUEST]


async def test_a_child_that_is_denied_is_an_answer(autojump_clock: Clock) -> None:
    """The clerk is told who denied it and why, and says so to the chief."""
    store, office = Kept(), Office()
    async with daemon(store, script=office.script, catalogue=office.catalogue) as there:
        await there.start(who=CHIEF, run="top")
        await trio.sleep(1000)
        await there.service.approvals.decide(REQUEST, "denied", by="ann", note="not today")
        detail = await there.service.wait("top")
        assert detail.reason == "final_answer"
        assert "not today" in detail.answer
    assert not office.sent
