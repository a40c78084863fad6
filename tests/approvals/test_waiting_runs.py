"""Runs that wait for people: what they hold meanwhile, and how they go on."""

import pytest
import trio

from agents.amounts import Limits
from agents.events import ApprovalDecided, RunResumed, RunWaiting, ToolRefused, ToolStarted
from agents.messages import Message
from agents.scripted import Answer, ask, say
from orchestrator.runs.errors import AlreadyDecided, NotAsked, UnknownApproval
from orchestrator.store.errors import SessionBusy
from orchestrator.store.memory import MemoryStore
from tests.approvals.asking_people import CLERK, MIXED, ONE, QUESTION, TWO, Desk, open_requests, until_asked, waits
from tests.runs.lasting import Kept, daemon, wall


async def test_a_run_that_waits_for_people_holds_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """While people are all a run waits for it has no place, no slot, no model port and no lease, and is open."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue, per_tenant=1, max_live=1) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        said = one.service.statistics()
        assert (said.live, said.driven, said.states) == (0, 0, {"waiting_approval": 1})
        assert not +one.models.live
        assert (await store.session(run)).holder == ""
        assert (asked.run, asked.tool, asked.arguments, asked.why) == (run, "send", '{"to":"anna"}', "always")
        view = await one.service.view(run)
        assert (view.state, view.observed, view.rounds, view.reason) == ("waiting_approval", "running", 1, None)
        assert (await one.service.detail(run)).approvals == (asked,)
        other = await one.start(who=CLERK)  # the tenant's only place is free
        with pytest.raises(SessionBusy):
            await one.start(who=CLERK, session=run)
        await until_asked(one.service, 2)
        for waiting in await open_requests(one.service):
            await one.service.approvals.decide(waiting.id, "approved", by="me")
        assert {(await one.service.wait(id)).state for id in (run, other)} == {"completed"}
        assert desk.sent["anna"] == 2
        assert not +one.models.live


async def test_a_denied_call_is_an_observation(autojump_clock: trio.testing.MockClock) -> None:
    """A denial wakes the run, its call never runs, and the model is told who denied it and why."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        view = await one.service.approvals.decide(asked.id, "denied", by="anna", note="too late for that")
        assert (view.outcome, view.by, view.note) == ("denied", "anna", "too late for that")
        assert (await one.service.wait(run)).state == "completed"
        refused = [event for event in await store.log(run) if isinstance(event, ToolRefused)]
        assert [event.outcome for event in refused] == ["denied"]
        assert refused[0].content == "Not run: anna denied it, saying: too late for that."
        assert not desk.sent


async def test_a_question_is_answered(autojump_clock: trio.testing.MockClock) -> None:
    """The words of whoever answers a question are the tool's result."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=QUESTION, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        assert (await one.service.view(run)).state == "waiting_input"
        assert (asked.kind, asked.question, asked.options) == ("input", "Which river?", ("Glomma", "Otra"))
        with pytest.raises(NotAsked, match="question"):
            await one.service.approvals.decide(asked.id, "approved", by="me")
        await one.service.approvals.answer(asked.id, "Otra", by="me")
        detail = await one.service.wait(run)
        assert "Otra" in [message.content for message in detail.messages if message.role == "tool"]


async def test_answers_come_in_any_order(autojump_clock: trio.testing.MockClock) -> None:
    """Of two requests of one reply the second may be decided first, and each decides its own call alone."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=TWO, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        first, second = await until_asked(one.service, 2)
        await one.service.approvals.decide(second.id, "approved", by="me")
        await until_asked(one.service, 1)
        assert desk.sent == {"bert": 1}
        await one.service.approvals.decide(first.id, "denied", by="me")
        assert (await one.service.wait(run)).state == "completed"
        assert desk.sent == {"bert": 1}
        assert waits(await store.log(run)) == 2


async def test_the_first_decision_holds(autojump_clock: trio.testing.MockClock) -> None:
    """Of decisions given at once the first in the log holds, the same again is no error, and another one is told."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        told: list[str] = []

        async def decide(decision: str) -> None:
            try:
                view = await one.service.approvals.decide(asked.id, decision, by=decision)  # type: ignore[arg-type]
                told.append(str(view.outcome))
            except AlreadyDecided as error:
                told.append(error.message)

        async with trio.open_nursery() as nursery:
            for decision in ("approved", "denied", "approved"):
                nursery.start_soon(decide, decision)
        await one.service.wait(run)
        log = await store.log(run)
        first = next(event for event in log if isinstance(event, ApprovalDecided))
        assert desk.sent["anna"] == (first.decision == "approved")
        assert sum(first.decision == said for said in told) == (2 if first.decision == "approved" else 1)
        assert all(f"was {first.decision} by" in said or said == first.decision for said in told)
        assert (await one.service.approvals.show(asked.id)).outcome == first.decision


async def test_other_arguments_are_not_decided_on(autojump_clock: trio.testing.MockClock) -> None:
    """A decision that names another digest than that of the request is refused, and decides nothing."""
    desk = Desk()
    async with daemon(Kept(), script=ONE, catalogue=desk.catalogue) as one:
        await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        with pytest.raises(NotAsked, match="other arguments"):
            await one.service.approvals.decide(asked.id, "approved", by="me", digest="0" * 64)
        assert await open_requests(one.service) == (asked,)
        await one.service.approvals.decide(asked.id, "approved", by="me", digest=asked.digest)


@pytest.mark.parametrize("id", ["", "x", "nobody/1/0", "{run}/1/1", "{run}/2/0"])
async def test_what_nobody_asked_cannot_be_decided(id: str, autojump_clock: trio.testing.MockClock) -> None:
    """An id under which nobody was asked is unknown, whatever it looks like."""
    async with daemon(Kept(), script=ONE, catalogue=Desk().catalogue) as one:
        run = await one.start(who=CLERK)
        await until_asked(one.service)
        with pytest.raises(UnknownApproval):
            await one.service.approvals.decide(id.format(run=run), "approved", by="me")


async def test_a_cancelled_run_voids_what_it_asked(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelling a run that waits ends it at once, and nothing that it asked can be decided any more."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        await one.service.cancel(run)
        assert await open_requests(one.service) == ()
        with pytest.raises(AlreadyDecided, match="void"):
            await one.service.approvals.decide(asked.id, "approved", by="me")
        assert (await one.service.wait(run)).state == "cancelled"
        assert (await one.service.approvals.show(asked.id)).outcome == "void"
        assert not desk.sent


async def test_nobody_answers_in_time(autojump_clock: trio.testing.MockClock) -> None:
    """A request that expires wakes its run, whose call is refused, and it cannot be approved any more."""
    store, desk = Kept(), Desk(expires_in=3600)
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        assert asked.expires == pytest.approx(asked.asked + 3600)
        assert (await one.service.wait(run)).state == "completed"
        assert trio.current_time() == pytest.approx(3602, abs=1)
        decided = [event for event in await store.log(run) if isinstance(event, ApprovalDecided)]
        assert [(event.decision, event.by) for event in decided] == [("expired", "clock")]
        with pytest.raises(AlreadyDecided, match="expired"):
            await one.service.approvals.decide(asked.id, "approved", by="me")
        assert not desk.sent


async def test_waiting_for_people_takes_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """A run with a timeout of ten seconds waits a day for its approval and is completed."""
    desk = Desk(limits=Limits(rounds=9, timeout=10))
    async with daemon(Kept(), script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        await trio.sleep(86_400)
        await one.service.approvals.decide(asked.id, "approved", by="me")
        assert (await one.service.wait(run)).state == "completed"


async def test_other_calls_run_meanwhile(autojump_clock: trio.testing.MockClock) -> None:
    """A run is driven as long as a call that needs nobody runs, and answered then it is never parked."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=MIXED, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        await trio.sleep(30)
        (asked,) = await open_requests(one.service)
        assert one.service.statistics().live == 1
        await one.service.approvals.decide(asked.id, "approved", by="me")
        assert (await one.service.wait(run)).state == "completed"
        log = await store.log(run)
        assert not waits(log)
        assert not any(isinstance(event, RunResumed) for event in log)


async def test_a_message_wakes_the_run_and_it_waits_again(autojump_clock: trio.testing.MockClock) -> None:
    """What is said to a run that waits for an approval is in its log, and the run waits on for the approval."""
    store, desk = Kept(), Desk()

    def script(messages: tuple[Message, ...]) -> Answer:
        return say("done") if messages[-1].content == "hurry" else ask("send", {"to": "anna"})

    async with daemon(store, script=script, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        await one.service.message(run, "hurry")
        assert one.service.statistics().live == 1
        assert await until_asked(one.service) == (asked,)
        assert waits(await store.log(run)) == 2
        await one.service.approvals.decide(asked.id, "approved", by="me")
        assert (await one.service.wait(run)).state == "completed"


@pytest.mark.parametrize("decided", ["meanwhile", "after"])
async def test_another_daemon_goes_on(decided: str, autojump_clock: trio.testing.MockClock) -> None:
    """A decision counts whether it was given while no daemon ran or to the next one, and the call runs exactly once."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        (asked,) = await until_asked(one.service)
        if decided == "meanwhile":
            one.service.close()
            await one.service.approvals.decide(asked.id, "approved", by="me")
            assert one.service.statistics().live == 0
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as two:
        if decided == "after":
            assert two.service.statistics().live == 0
            assert await until_asked(two.service) == (asked,)
            assert (await store.session(run)).holder == ""
            await two.service.approvals.decide(asked.id, "approved", by="me")
        assert (await two.service.wait(run)).state == "completed"
    assert desk.sent == {"anna": 1}
    log = await store.log(run)
    assert [event.approval for event in log if isinstance(event, ToolStarted)] == [asked.id]


async def test_what_expired_while_nobody_ran(autojump_clock: trio.testing.MockClock) -> None:
    """A request that expired while no daemon ran is decided by the clock of the next one as it starts."""
    store, desk = Kept(), Desk(expires_in=60)
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        await until_asked(one.service)
    await trio.sleep(1000)
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as two:
        assert (await two.service.wait(run)).state == "completed"
        assert trio.current_time() < 1010
    assert not desk.sent


async def test_a_store_in_memory_closes_what_waits(autojump_clock: trio.testing.MockClock) -> None:
    """Where runs are gone with their process, one that waits for people is closed as cancelled at its end."""
    desk = Desk()
    async with daemon(MemoryStore(wall), script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        await until_asked(one.service)
        await one.service.end_all("over")
        detail = await one.service.detail(run)
        assert (detail.state, detail.message) == ("cancelled", "over")


async def test_draining_leaves_what_waits(autojump_clock: trio.testing.MockClock) -> None:
    """Draining waits for no run that waits for people, and leaves it open as it is, without an event."""
    store, desk = Kept(), Desk()
    async with daemon(store, script=ONE, catalogue=desk.catalogue) as one:
        run = await one.start(who=CLERK)
        await until_asked(one.service)
        before = await store.log(run)
        assert await one.service.drain() == 0
        await one.service.end_all()
        assert await store.log(run) == before
        assert isinstance(before[-1], RunWaiting)
