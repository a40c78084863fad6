"""Runs of a service whose runs are driven by worker processes."""

import pytest
import trio

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.lifecycle import State, StopReason
from agents.scripted import ask, in_turn, say
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.pools.pooled import LEASE, LOOKS, MADE, PAYS, POSTS, Net, daemon, workers
from tests.runs.lasting import Kept


@pytest.fixture(autouse=True)
def nothing_made() -> None:
    MADE.clear()


async def test_a_run_elsewhere_comes_to_what_it_would_here(autojump_clock):
    """A worker's run ends with the events, the result and the counts of a run that is driven in the daemon."""
    async with daemon() as here:
        here.tables = here.tables.__class__(digest="none", tools={})  # a pool that can make none of the tools
        local = await here.service.wait(await here.start())
        events = await here.kinds(local.run)
    transport = Net()
    async with daemon(transport=transport) as far, workers(transport, "w1"):
        remote = await far.service.wait(await far.start())
        assert await far.kinds(remote.run) == events
        assert (remote.state, remote.answer, remote.rounds, remote.tool_calls, remote.usage, remote.events) == (
            local.state,
            local.answer,
            local.rounds,
            local.tool_calls,
            local.usage,
            local.events,
        )
        assert remote.messages == local.messages
        assert far.models.live.total() == 0


async def test_runs_wait_for_a_worker_and_are_shared_by_all(autojump_clock):
    """Runs are queued while there is no worker, and workers that come share them by the room they have."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far:
        runs = [await far.start() for _ in range(8)]
        await trio.sleep(100)
        assert far.pool.seen().waiting == 8
        assert (await far.service.view(runs[0])).state is State.QUEUED
        async with workers(transport, "a", "b", runs=6):
            await trio.sleep(10)
            assert sorted(worker.runs for worker in far.pool.seen().workers) == [2, 6]
            for run in runs:
                assert (await far.service.wait(run)).state is State.COMPLETED
        assert far.pool.seen().waiting == 0


@pytest.mark.parametrize("script", [LOOKS, POSTS])
async def test_a_dead_workers_run_goes_on_elsewhere(autojump_clock, script):
    """A killed worker's claim runs out, another worker takes the run up from its log, and no call is made twice that
    may not be."""
    transport = Net()
    async with daemon(transport=transport, script=script) as far, workers(transport, "b", runs=1):
        other = await far.start()  # keeps b busy for a moment, so that a gets the next
        await trio.sleep(0.5)
        async with workers(transport, "a"):
            run = await far.start()
            await trio.sleep(1.5)
            assert len(MADE) == 2
        began = trio.current_time()
        ended = await far.service.wait(run)
        assert trio.current_time() - began > LEASE / 2
        assert ended.state is State.COMPLETED
        assert "run_resumed" in await far.kinds(run)
        assert len(MADE) == (3 if script is LOOKS else 2)
        assert len(ended.unknown_effects) == (script is POSTS)
        await far.service.wait(other)


async def test_a_daemon_restarted_while_a_tool_works_goes_on_with_its_worker(autojump_clock):
    """A worker whose daemon is killed in mid-call tells the next one, and nothing is resumed or made again."""
    store, transport = Kept(), Net()
    async with workers(transport, "w"):
        async with daemon(store, transport=transport, script=POSTS) as first:
            run = await first.start()
            await trio.sleep(5)
            assert MADE == ["post a"]
        await trio.sleep(3)
        async with daemon(store, transport=transport, script=POSTS) as second:
            await trio.sleep(5)
            [worker] = second.pool.seen().workers
            assert (worker.worker, worker.runs) == ("w", 1)
            assert (await second.service.view(run)).state is State.WAITING_TOOL
            ended = await second.service.wait(run)
            assert ended.state is State.COMPLETED
            assert (ended.rounds, ended.tool_calls) == (2, 1)
            assert MADE == ["post a"]
            assert "run_resumed" not in await second.kinds(run)


async def test_a_call_that_was_under_way_when_the_daemon_went_is_asked_again(autojump_clock):
    """What the lost model call may have cost stays unknown, the next attempt answers, and no budget counts it twice."""
    store, transport = Kept(), Net()
    async with workers(transport, "w"):
        async with daemon(store, transport=transport) as first:
            run = await first.start(who="priced")
            await trio.sleep(0.7)
            assert (await first.service.view(run)).state is State.WAITING_MODEL
        async with daemon(store, transport=transport) as second:
            ended = await second.service.wait(run)
            assert ended.state is State.COMPLETED
            failed = [event for event in await second.log(run) if event.__struct_config__.tag == "model_failed"]
            assert [event.kind for event in failed] == ["call_lost"]
            assert ended.unknown_tokens == failed[0].unknown_tokens > 0


async def test_a_run_waits_out_the_grace_of_a_new_daemon(autojump_clock):
    """After a restart a run whose worker is gone as well is given to another one when the lease is over, not before."""
    store, transport = Kept(), Net()
    async with daemon(store, transport=transport) as first, workers(transport, "w"):
        run = await first.start()
        await trio.sleep(1.5)
    async with daemon(store, transport=transport) as second, workers(transport, "v"):
        began = trio.current_time()
        fresh = await second.start()
        await second.service.wait(fresh)
        assert trio.current_time() < began + LEASE / 2
        assert (await second.service.wait(run)).state is State.COMPLETED
        assert trio.current_time() >= began + LEASE


async def test_a_queued_run_that_is_cancelled_ends_without_a_worker(autojump_clock):
    """Cancelling needs no worker where none has the run, and it ends as one that is driven here would."""
    async with daemon() as far:
        run = await far.start()
        await trio.sleep(1)
        await far.service.cancel(run)
        ended = await far.service.wait(run)
        assert (ended.state, ended.reason) == (State.CANCELLED, StopReason.CANCELLED)
        assert await far.kinds(run) == ["run_created", "cancel_requested", "run_ended"]


async def test_a_run_that_is_worth_nothing_any_more_ends_without_a_worker(autojump_clock):
    """An expiry holds while a run waits for a worker."""
    async with daemon() as far:
        run = await far.start(expires_in=5.0)
        ended = await far.service.wait(run)
        assert (ended.state, trio.current_time()) == (State.EXPIRED, 5.0)


async def test_a_cancellation_reaches_a_tool_at_once(autojump_clock):
    """A worker's call is cut off without waiting for its next append."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far, workers(transport, "w"):
        run = await far.start()
        await trio.sleep(5)
        await far.service.cancel(run)
        ended = await far.service.wait(run)
        assert ended.state is State.CANCELLED
        assert trio.current_time() < 8
        assert ended.unknown_effects == (f"{run}/1/0",)


async def test_whoever_wants_the_result_and_is_cancelled_takes_the_run_away(autojump_clock):
    """The task that asked for a result ends when the run elsewhere has ended, and its log says who took it away."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far, workers(transport, "w"):
        with trio.move_on_after(5):
            await far.service.run_to_end(RunRequest(task="x", run="one", who=AgentChoice(agent="works")))
        ended = await far.service.detail("one")
        assert ended.state is State.CANCELLED
        assert trio.current_time() < 8
        [cancel] = [event for event in await far.log("one") if event.__struct_config__.tag == "cancel_requested"]
        assert cancel.source == "parent"


async def test_the_end_of_a_run_of_a_dead_worker_is_waited_for_no_longer_than_its_claim(autojump_clock):
    """A run that is taken away while its worker is dead is brought to its end by the daemon when the claim is over."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far:
        async with workers(transport, "w"):
            run = await far.start()
            await trio.sleep(5)
        await far.service.cancel(run)
        ended = await far.service.wait(run)
        assert ended.state is State.CANCELLED
        assert trio.current_time() <= 5 + 2 * LEASE
        assert ended.unknown_effects == (f"{run}/1/0",)


async def test_a_run_that_waits_for_people_is_nobodys(autojump_clock):
    """It is parked, its worker and its place are free, and it goes on with a worker when somebody has decided."""
    transport = Net()
    async with daemon(transport=transport, script=PAYS) as far, workers(transport, "w"):
        run = await far.start()
        await trio.sleep(10)
        assert (await far.service.view(run)).state is State.WAITING_APPROVAL
        assert [worker.runs for worker in far.pool.seen().workers] == [0]
        assert far.service.statistics().driven == 0
        [asked] = (await far.service.approvals.list_open()).approvals
        await far.service.approvals.decide(asked.id, "approved", by="somebody")
        ended = await far.service.wait(run)
        assert (ended.state, MADE) == (State.COMPLETED, ["pay 1"])


async def test_messages_and_grants_reach_a_run_elsewhere(autojump_clock):
    """What is said to a run while its worker is in a tool is in its next request, and a grant raises its own limits."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far, workers(transport, "w"):
        run = await far.start(budget=None)
        await trio.sleep(5)
        await far.service.message(run, "hurry up")
        ended = await far.service.wait(run)
        assert [message.content for message in ended.messages if message.role == "user"] == ["x", "hurry up"]


@pytest.mark.parametrize("store", [Kept, MemoryStore])
async def test_a_daemon_that_ends_leaves_or_ends_its_runs(autojump_clock, store):
    """With a store that stays runs elsewhere are left open, with one in memory they are ended, and it takes no time."""
    transport = Net()
    kept = store()
    async with daemon(kept, transport=transport, script=POSTS) as far, workers(transport, "w"):
        run = await far.start()
        waits = await far.start(job="j")
        await trio.sleep(5)
        far.service.close()
        await far.service.end_all()
        assert trio.current_time() < 10
        assert far.models.live.total() == 0
        ended = [
            one.__struct_config__.tag == "run_ended" for one in ((await far.log(run))[-1], (await far.log(waits))[-1])
        ]
        assert ended == ([False, False] if store is Kept else [True, True])


async def test_a_drain_has_workers_leave_their_runs(autojump_clock):
    """Runs that have no call under way are left at once, one in a tool when that has ended; the next daemon goes on."""
    store, transport = Kept(), Net()
    async with workers(transport, "w"):
        async with daemon(store, transport=transport, script=POSTS) as first:
            run = await first.start()
            await trio.sleep(5)
            first.service.leave_soon()
            assert await first.service.drain(trio.current_time() + 100) == 0
            assert 50 < trio.current_time() < 75
            await first.service.end_all()
        async with daemon(store, transport=transport, script=POSTS) as second:
            assert (await second.service.wait(run)).state is State.COMPLETED
            assert MADE == ["post a"]


async def test_a_worker_that_cannot_make_a_tool_leaves_the_run_with_the_reason(autojump_clock):
    """The run stays open, says what is in its way, and is given to a worker again later."""
    transport = Net()
    async with daemon(transport=transport) as far:
        async with workers(transport, "w", own=()):
            run = await far.start()
            await trio.sleep(5)
            seen = await far.service.view(run)
            assert "look" in seen.message or "post" in seen.message
        async with workers(transport, "v"):
            assert (await far.service.wait(run)).state is State.COMPLETED


@pytest.mark.parametrize(
    ("name", "allowed"), [("tokens", 9_000), ("tool_calls", 110), ("micro_dollars", 9_000), ("rounds", 170)]
)
async def test_hundreds_of_runs_elsewhere_overshoot_a_shared_budget_by_nothing(autojump_clock, name, allowed):
    """Runs of several workers under one budget never hold or use more of it than it allows, and use nearly all."""
    transport, job, most = Net(), Scope("job", Limits(**{name: allowed})), 0
    script = in_turn(*[ask("look", {"where": str(n)}) for n in range(2)], say("done"))

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, sum(getattr(held, name) for held in (job.used, job.reserved, job.unknown)))
            await trio.sleep(0.1)

    async with (
        daemon(transport=transport, script=script) as far,
        workers(transport, "a", "b", "c", runs=100),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(watch)
        runs = [await far.start(who="priced", budget=job) for _ in range(150)]
        ended = [await far.service.wait(run) for run in runs]
        nursery.cancel_scope.cancel()
    assert most <= allowed
    assert (job.reserved, job.unknown) == (NOTHING, NOTHING)
    assert getattr(job.used, name) > 0.9 * allowed
    assert job.used.tool_calls == len(MADE) == sum(one.tool_calls for one in ended)
    assert job.used.rounds == sum(one.rounds for one in ended)
    assert {one.scope for one in ended if one.state is State.STOPPED} == {"job"}
