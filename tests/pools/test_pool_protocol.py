"""What one worker is answered, request by request."""

import msgspec
import pytest
import trio
import trio.testing
from msgspec import Raw

from agents.amounts import NOTHING, Amounts, Limits
from agents.budget import Scope
from agents.events import MessageAdded, ModelFailed, RunEnded, ToolLate, ToolStarted, UnknownEvent, encode
from agents.lifecycle import State, StopReason
from agents.messages import Message
from orchestrator.pools.errors import ClaimGone, NotYet
from orchestrator.views.workers import (
    CallLeave,
    ClaimRequest,
    Holding,
    LateRequest,
    LeftRequest,
    PollRequest,
    RoomRequest,
)
from tests.pools.pooled import LEASE, LOOKS, Hand, daemon
from tests.runs.lasting import Kept, wall


async def test_the_same_batch_again_is_appended_once_and_counts_once(autojump_clock):
    """An answer that was lost is given again, from the same daemon and from the next one."""
    store, job = Kept(), Scope("job", Limits(tokens=1000))
    async with daemon(store) as far:
        run = await far.start(budget=job)
        grip = await Hand(far.pool).take()
        assert (await grip.append(grip.started())).outcome == "appended"
        asked, after = grip.requested(), grip.number
        assert (await grip.append(asked, batch="b")).outcome == "appended"
        assert (await grip.append(asked, batch="b", after=after)).outcome == "appended"
        assert job.reserved == Amounts(rounds=1, tokens=100)
        assert await far.kinds(run) == ["run_created", "run_started", "model_requested"]
    async with daemon(store) as far:
        hand = Hand(far.pool)
        hand.held = [Holding(run=run, claim=grip.claim)]
        await hand.poll()
        grip.pool = far.pool
        assert (await grip.append(asked, batch="b", after=after)).outcome == "appended"
        assert await far.kinds(run) == ["run_created", "run_started", "model_requested"]


async def test_a_batch_of_unknown_outcome_is_reserved_for_when_it_is_sent_again(autojump_clock):
    """Where the store broke off, what the batch holds is given back, and held again when the batch proves to be in."""
    store, job = Kept(), Scope("job", Limits(tokens=1000))
    async with daemon(store) as far:
        await far.start(budget=job)
        grip = await Hand(far.pool).take()
        await grip.append(grip.started())
        asked, after = grip.requested(), grip.number
        far.link.broken = True
        with pytest.raises(Exception, match="the store is gone"):
            await grip.append(asked, batch="b", after=after)
        assert job.reserved == NOTHING
        far.link.broken = False
        assert (await grip.append(asked, batch="b")).outcome == "appended"
        assert job.reserved.tokens == 100


async def test_a_budget_without_room_refuses_and_nothing_is_appended(autojump_clock):
    """Spent is told with its limit, held by others is not; when the others have settled there is room."""
    job = Scope("job", Limits(tokens=150))
    async with daemon() as far:
        for _ in range(2):
            await far.start(budget=job)
        hand = Hand(far.pool)
        await hand.poll()
        first, second = [await hand.grip(held) for held in hand.held]
        for grip in (first, second):
            await grip.append(grip.started())
        await first.append(first.requested())
        refused = await second.append(second.requested())
        assert (refused.outcome, refused.exhausted) == ("no_room", None)
        [above] = refused.above
        assert (above.name, above.reserved.tokens) == ("job", 100)
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def settle() -> None:
                await trio.sleep(3)
                await first.append(first.replied(used=40))

            need = Amounts(rounds=1, tokens=100)
            room = await far.pool.room(second.run, RoomRequest(claim=second.claim, need=need))
        assert trio.current_time() == 3
        assert room.above[0].used.tokens == 40
        assert (await second.append(second.requested())).outcome == "appended"
        await second.append(second.replied(used=90))
        spent = await second.append(second.requested(step=2))
        assert spent.exhausted is not None
        assert (spent.exhausted.scope, spent.exhausted.limit, spent.exhausted.observed) == ("job", "tokens", 130)
        assert (job.used.tokens, job.reserved) == (130, NOTHING)


async def test_a_tool_call_is_paid_for_when_it_is_started_and_once(autojump_clock):
    """The last call that a budget allows goes to whoever starts first; starting it again costs nothing."""
    job = Scope("job", Limits(tool_calls=1))
    async with daemon() as far:
        for _ in range(2):
            await far.start(budget=job)
        hand = Hand(far.pool)
        await hand.poll()
        answers = []
        for held in hand.held:
            grip = await hand.grip(held)
            await grip.append(grip.started())
            await grip.append(grip.requested())
            message = '{"role":"assistant","tool_calls":[{"id":"c","name":"look","arguments":"{}"}]}'
            replied = grip.replied()
            reply = msgspec.structs.replace(replied.reply, message=msgspec.json.decode(message, type=Message))
            await grip.append(msgspec.structs.replace(replied, reply=reply))
            started = ToolStarted(run=grip.run, step=1, index=0, call="c", name="look", key="k", repeatable=True)
            answers.append([(await grip.append(started)).outcome for _ in range(2)])
        assert answers == [["appended", "appended"], ["no_room", "no_room"]]
        assert job.used.tool_calls == 1


async def test_newcomers_come_before_what_did_not_know_of_them(autojump_clock):
    """A batch behind an older end of the log is not appended, the worker is told what came first, and holds nothing."""
    async with daemon() as far:
        run = await far.start()
        hand = Hand(far.pool)
        grip = await hand.take()
        await grip.append(grip.started())
        await far.service.message(run, "by the way")
        answer = await hand.poll(seconds=10.0)
        assert [news.run for news in answer.news] == [run]
        late = await grip.append(grip.requested())
        assert (late.outcome, len(late.newcomers)) == ("newcomers", 1)
        assert (await grip.append(grip.requested())).outcome == "appended"
        assert (await hand.poll(seconds=1.0)).news == ()


async def test_a_worker_appends_only_what_a_run_may_say_of_itself(autojump_clock):
    """What comes from people, or is another run's, is refused."""
    async with daemon() as far:
        run = await far.start()
        grip = await Hand(far.pool).take()
        for event in (
            MessageAdded(run=run, content="x"),
            RunEnded(run="y", reason=StopReason.LOST, state=State.FAILED),
        ):
            with pytest.raises(UnknownEvent):
                await grip.append(event)
        assert await far.kinds(run) == ["run_created"]


async def test_an_older_claim_counts_no_longer(autojump_clock):
    """A worker that was silent for too long is refused everything, whatever it still believes."""
    async with daemon() as far:
        run = await far.start()
        slow = Hand(far.pool, "slow")
        old = await slow.take()
        await old.append(old.started())
        await old.append(old.requested())
        await trio.sleep(LEASE + 1)
        new = await Hand(far.pool, "new").take()
        assert new.material.generation == old.material.generation + 1
        for refused in (
            lambda: old.append(old.replied()),
            lambda: far.pool.call(run, old.asks()),
            lambda: far.pool.left(run, LeftRequest(claim=old.claim)),
            lambda: far.pool.begin(run, ClaimRequest(claim=old.claim)),
        ):
            with pytest.raises(ClaimGone):
                await refused()
        assert run in (await slow.poll()).leave
        lost = ModelFailed(run=run, at=wall(), step=1, attempt=1, kind="lost", message="x", unknown_tokens=100)
        assert (await new.append(lost)).outcome == "appended"


async def test_a_model_call_is_made_once_however_often_it_is_asked_for(autojump_clock):
    """Asked for again the call is joined, its outcome is kept until it is in the log, and then nobody knows it."""
    calls = 0

    def script(*args: object) -> object:
        nonlocal calls
        calls += 1
        return LOOKS(*args)  # type: ignore[arg-type]

    async with daemon(script=script) as far:  # type: ignore[arg-type]
        run = await far.start()
        grip = await Hand(far.pool).take()
        assert (await far.pool.call(run, grip.asks())).failure is not None
        await grip.append(grip.started())
        await grip.append(grip.requested())
        assert (await far.pool.call(run, grip.asks(seconds=0.3))).reply is None
        for _ in range(2):
            answer = await far.pool.call(run, grip.asks())
            assert answer.reply is not None
        assert calls == 1
        await grip.append(grip.replied())
        answer = await far.pool.call(run, grip.asks())
        assert answer.failure is not None
        assert answer.failure.kind == "call_lost"


async def test_a_call_that_is_left_is_answered_with_what_is_known(autojump_clock):
    """The worker learns that its call has ended, and leaves one that it never made as well."""
    async with daemon() as far:
        run = await far.start()
        grip = await Hand(far.pool).take()
        await grip.append(grip.started())
        await grip.append(grip.requested())
        assert (await far.pool.call(run, grip.asks(seconds=0.3))).failure is None
        left = await far.pool.leave_call(run, CallLeave(claim=grip.claim, key=f"{run}/1/1"))
        assert left.failure is not None
        assert trio.current_time() < 1
        assert (await far.pool.leave_call(run, CallLeave(claim=grip.claim, key="other"))).failure is not None


async def test_what_was_given_is_told_until_the_worker_holds_it(autojump_clock):
    """A lost answer of a poll costs nothing: the claim is told again; one that was begun and dropped is over."""
    async with daemon() as far:
        run = await far.start()
        hand = Hand(far.pool)
        first = await hand.poll()
        hand.held = []
        again = await hand.poll()
        assert first.take == again.take
        grip = await hand.grip(again.take[0])
        hand.held = []
        other = await hand.poll()
        assert [held.run for held in other.take] == [run]
        assert other.take[0].claim != grip.claim
        with pytest.raises(ClaimGone):
            await grip.append(grip.started())


async def test_a_claim_of_an_earlier_daemon_is_waited_for_and_then_gone(autojump_clock):
    """Until the worker has said what it holds nobody can say; when the grace is over unsaid claims do not count."""
    store = Kept()
    async with daemon(store) as far:
        run = await far.start()
        grip = await Hand(far.pool).take()
    async with daemon(store) as far:
        grip.pool = far.pool
        with pytest.raises(NotYet):
            await grip.append(grip.started())
        assert (await Hand(far.pool, "other").poll()).take == ()
        await trio.sleep(LEASE)
        with pytest.raises(ClaimGone):
            await grip.append(grip.started())
        taken = await Hand(far.pool, "other").take()
        assert taken.run == run


async def test_a_claim_may_come_before_its_job_asks_for_the_run(autojump_clock):
    """A run of a job that has not come so far is kept for the worker that drives it."""
    store = Kept()
    async with daemon(store) as far:
        run = await far.start(job="j")
        grip = await Hand(far.pool).take()
    async with daemon(store, resume=False) as far:
        hand = Hand(far.pool)
        hand.held = [Holding(run=run, claim=grip.claim)]
        assert (await hand.poll()).leave == ()
        grip.pool = far.pool
        with pytest.raises(NotYet):
            await grip.append(grip.started())
        await far.service.resume_rest()
        await trio.sleep(1)
        assert (await grip.append(grip.started())).outcome == "appended"


async def test_a_worker_holds_nothing_that_does_not_exist(autojump_clock):
    """Runs that have ended, and runs that nobody knows, are to be left."""
    async with daemon() as far:
        hand = Hand(far.pool)
        hand.held = [Holding(run="none", claim="x-1")]
        assert (await hand.poll(seconds=20.0)).leave == ("none",)
        assert trio.current_time() == 0


async def test_a_worker_that_ends_gives_its_runs_to_others_at_once(autojump_clock):
    """Its last word is that it ends, and what it left is somebody else's without waiting."""
    async with daemon() as far:
        run = await far.start()
        hand, other = Hand(far.pool), Hand(far.pool, "other")
        grip = await hand.take()
        await far.pool.left(run, LeftRequest(claim=grip.claim))
        hand.held = []
        await hand.poll(ends=True)
        assert [worker.worker for worker in far.pool.seen().workers] == []
        assert (await other.take()).run == run
        assert trio.current_time() < 3


async def test_late_results_need_no_claim(autojump_clock):
    """Evidence is taken from whoever has it, once."""
    async with daemon() as far:
        run = await far.start()
        event = ToolLate(run=run, step=1, index=0, call="c", name="look", key="k", outcome="ok", content="late")
        for _ in range(2):
            await far.pool.late(run, LateRequest(event=Raw(encode(event))))
        assert await far.kinds(run) == ["run_created", "tool_late"]


async def test_only_the_latest_poll_of_a_worker_is_given_anything(autojump_clock):
    """A poll whose client is gone without a word takes no run."""
    async with daemon() as far, trio.open_nursery() as nursery:
        old = Hand(far.pool)
        nursery.start_soon(lambda: old.poll(seconds=20.0))
        await trio.testing.wait_all_tasks_blocked()
        new = Hand(far.pool)
        nursery.start_soon(lambda: new.poll(seconds=20.0))
        await trio.testing.wait_all_tasks_blocked()
        await far.start()
        await trio.sleep(1)
        assert (len(old.held), len(new.held)) == (0, 1)


async def test_a_poll_is_held_for_a_part_of_the_lease_only(autojump_clock):
    """So several signs of life fit into the time after which a worker counts as gone."""
    async with daemon(lease=3.0) as far:
        answer = await far.pool.poll(PollRequest(worker="w", room=1, seconds=20.0))
        assert (trio.current_time(), answer.lease_seconds) == (0.5, 3.0)
