"""Runs driven by a worker: to their end, over lost answers, dropped with their claim, left, cancelled, fenced."""

import itertools

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from agents.amounts import Amounts, Limits
from agents.budget import Scope
from agents.events import (
    CancelRequested,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunEnded,
    RunResumed,
    ToolFinished,
    ToolStarted,
)
from agents.lifecycle import StopReason
from agents.scripted import ask, in_turn, say
from orchestrator.views.workers import ChildAnswer, ToolTables
from orchestrator.worker.link import PatienceOver
from tests.worker.working import LOOKER, LOOKS, MADE, POSTER, place

Clock = trio.testing.MockClock


async def test_a_run_is_driven_to_its_end(autojump_clock: Clock) -> None:
    """Its tool is called here, its model there, and the log has all of it in order."""
    async with place() as here:
        run = here.pool.add(POSTER)
        await here.worker()
        result = await here.pool.result(run.id)
        assert (result.reason, result.answer) == (StopReason.FINAL_ANSWER, "done")
        kinds = [type(event).__name__ for event in run.events]
        model = ["ModelRequested", "ModelReplied"]
        assert kinds == ["RunCreated", "RunStarted", *model, "ToolStarted", "ToolFinished", *model, "RunEnded"]
        assert MADE == ["post a", "sent a"]
        assert run.left == []


async def test_each_answer_lost_once_doubles_nothing(autojump_clock: Clock) -> None:
    """Whatever was asked is asked again, and counts once."""
    async with place() as here:
        seen: set[tuple[str, int]] = set()

        def lose(what: str) -> bool:
            if what == "poll":
                return False
            turn = (what, len(here.transport.asked) // 3)
            lost = turn not in seen
            seen.add(turn)
            return lost

        run = here.pool.add(POSTER)
        await here.worker()
        here.transport.lose = lose
        assert (await here.pool.result(run.id)).ok
        assert MADE == ["post a", "sent a"]
        assert len(run.of(ModelRequested)) == len(run.of(ModelReplied)) == 2
        assert len(run.of(ToolStarted)) == len(run.of(ToolFinished)) == len(run.of(RunEnded)) == 1
        assert len(here.pool.model.requests) == 2
        assert len(seen) > 5


async def test_what_came_first_from_outside_is_decided_with(autojump_clock: Clock) -> None:
    """A message that the worker was not told of is met at the next append, and the model reads it."""
    async with place(LOOKS) as here:
        run = here.pool.add(LOOKER)
        await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        here.pool.say(run.id, MessageAdded(run=run.id, content="and look well"), quietly=True)
        assert (await here.pool.result(run.id)).ok
        assert here.pool.model.requests[1].messages[-1].content == "and look well"


async def test_a_claim_that_does_not_count_any_more_drops_the_run(autojump_clock: Clock) -> None:
    """The worker appends nothing more, says nothing of it, and goes on with others."""
    async with place() as here:
        run = here.pool.add(POSTER)
        worker = await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        run.claim = "another's"
        count = len(run.events)
        await trio.sleep(100)
        assert (worker.runs, len(run.events), run.left) == (0, count, [])
        other = here.pool.add(POSTER)
        assert (await here.pool.result(other.id)).ok


async def test_a_run_to_be_left_is_dropped_at_once(autojump_clock: Clock) -> None:
    """The daemon's word in an answer to a poll is enough."""
    async with place() as here:
        run = here.pool.add(POSTER)
        worker = await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        here.pool.leave.append(run.id)
        here.pool.stir()
        await trio.sleep(1)
        assert worker.runs == 0
        assert MADE == ["post a"]


async def test_a_worker_that_is_told_to_end_lets_calls_end(autojump_clock: Clock) -> None:
    """The call under way ends and is recorded, nothing new begins, and the run may be given to another."""
    async with place() as here:
        run = here.pool.add(POSTER)
        worker = await here.worker(runs=1)
        await here.until(lambda: run.of(ToolStarted))
        waiting = here.pool.add(POSTER)
        waiting_until = trio.current_time()
        worker.end()
        await here.until(lambda: here.pool.polls[-1].ends and not here.pool.polls[-1].holding)
        assert trio.current_time() - waiting_until > 30
        assert len(run.of(ToolFinished)) == 1
        assert [left.parked for left in run.left] == [False]
        here.pool.give(run.id)
        await here.worker()
        assert (await here.pool.result(run.id)).ok
        assert (await here.pool.result(waiting.id)).ok
        assert len(run.of(RunResumed)) == 1
        assert MADE.count("post a") == 2


async def test_a_worker_in_a_hurry_leaves_everything(autojump_clock: Clock) -> None:
    """What was cut off has an unknown effect, and nobody makes it again."""
    async with place() as here:
        run = here.pool.add(POSTER)
        worker = await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        await trio.sleep(1)
        worker.hurry()
        await here.until(lambda: run.left)
        here.pool.give(run.id)
        await here.worker()
        result = await here.pool.result(run.id)
        assert result.unknown_effects == (run.of(ToolStarted)[0].key,)
        assert MADE == ["post a"]


async def test_a_daemon_that_is_away_for_a_while_is_waited_for(autojump_clock: Clock) -> None:
    """The tool under way goes on, its result is appended when somebody is there again, and it is called once."""
    async with place() as here:
        run = here.pool.add(POSTER)
        await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        await trio.sleep(45)
        here.transport.serve(None)
        await trio.sleep(16)
        assert MADE == ["post a", "sent a"]
        assert not run.of(ToolFinished)
        here.transport.serve(here.pool)
        result = await here.pool.result(run.id)
        assert (result.ok, result.unknown_effects) == (True, ())
        assert MADE == ["post a", "sent a"]
        assert ["is back" in line for line in here.told] == [False, True]
        held = [holding.run for holding in here.pool.polls[-1].holding]
        assert held in ([], [run.id])


async def test_after_a_loss_nothing_is_asked_before_a_poll_was_answered(autojump_clock: Clock) -> None:
    """A daemon that has just begun is told first what is held; only then it is asked for anything."""
    async with place(LOOKS) as here:
        run = here.pool.add(LOOKER)
        await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        here.transport.serve(None)
        await trio.sleep(5)
        here.transport.asked.clear()
        here.transport.serve(here.pool)
        await here.pool.result(run.id)
        assert here.transport.asked[0] == "poll"
        assert run.id in [holding.run for poll in here.pool.polls for holding in poll.holding]


async def test_a_worker_that_hears_nothing_leaves_its_runs_in_time(autojump_clock: Clock) -> None:
    """Some seconds before others may be given them it drives none any more; the log is then another's."""
    async with place() as here:
        run = here.pool.add(POSTER)
        worker = await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        here.transport.serve(None)
        await trio.sleep(26)
        assert worker.runs == 0
        assert any("1 run is left" in line for line in here.told)
        await trio.sleep(10)
        here.pool.give(run.id)
        here.transport.serve(here.pool)
        result = await here.pool.result(run.id)
        assert (result.ok, len(result.unknown_effects)) == (True, 1)
        assert MADE == ["post a"]
        assert here.pool.polls[-1].worker == worker.name


async def test_without_a_daemon_for_too_long_a_worker_ends(autojump_clock: Clock) -> None:
    """It has so much patience, whether it had a daemon before or not."""
    async with place() as here:
        here.transport.serve(None)
        with pytest.RaisesGroup(pytest.RaisesExc(PatienceOver, match="for 50 s")):
            async with trio.open_nursery() as nursery:
                here.nursery = nursery
                await here.worker(patience=50.0, wait=False)
        assert 50 <= trio.current_time() < 55


async def test_news_cut_off_what_is_under_way(autojump_clock: Clock) -> None:
    """A cancellation is acted on when it is heard of, not only at the next append."""
    async with place() as here:
        run = here.pool.add(POSTER)
        await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        began = trio.current_time()
        here.pool.say(run.id, CancelRequested(run=run.id, source="user", reason="cancelled"))
        assert (await here.pool.result(run.id)).reason is StopReason.CANCELLED
        assert trio.current_time() - began < 5


async def test_a_place_that_gets_free_is_filled_at_once(autojump_clock: Clock) -> None:
    """A worker of two places drives six runs of a minute each in three minutes and a little."""
    async with place() as here:
        runs = [here.pool.add(POSTER) for _ in range(6)]
        await here.worker(runs=2)
        for run in runs:
            await here.pool.result(run.id)
        assert trio.current_time() < 3 * 62 + 3
        assert max(len(poll.holding) for poll in here.pool.polls) == 2


async def test_a_spent_budget_above_ends_the_run(autojump_clock: Clock) -> None:
    """The worker sees it in its mirror; where others spend it meanwhile, the refusal of its append tells."""
    async with place(LOOKS) as here:
        job = Scope("job", Limits(tokens=100_000))
        run = here.pool.add(LOOKER, above=job)
        await here.worker()
        await here.until(lambda: run.of(ToolStarted))
        job.used += Amounts(tokens=100_000)
        result = await here.pool.result(run.id)
        assert (result.reason, result.scope) == (StopReason.TOKEN_BUDGET_EXCEEDED, "job")
        assert job.reserved == Amounts()


async def test_a_tool_call_for_which_there_is_no_room_any_more_is_refused(autojump_clock: Clock) -> None:
    """Another run took the last call between the reply and the start: the call is answered, and the run ends."""
    async with place(LOOKS) as here:
        job = Scope("job", Limits(tool_calls=1))
        run = here.pool.add(LOOKER, above=job)
        await here.worker()
        append = here.pool.append

        async def spend_first(name: str, request: object) -> object:
            if b"tool_started" in bytes(request.events[0]):  # type: ignore[attr-defined]
                job.used = Amounts(rounds=job.used.rounds, tokens=job.used.tokens, tool_calls=1)
            return await append(name, request)  # type: ignore[arg-type]

        here.pool.append = spend_first  # type: ignore[method-assign,assignment]
        result = await here.pool.result(run.id)
        assert (result.reason, result.tool_calls) == (StopReason.MAX_TOOL_CALLS, 0)
        assert "job allows 1 tool calls" in result.messages[-1].content
        assert MADE == []
        assert job.used.tool_calls == 1


async def test_what_others_only_hold_is_waited_for(autojump_clock: Clock) -> None:
    """The run asks the daemon when there is room, and goes on as soon as there is."""
    async with place(LOOKS) as here:
        job = Scope("job", Limits(tokens=10_000))
        others = job.reserve(Amounts(rounds=1, tokens=9_000))
        assert hasattr(others, "settle")
        run = here.pool.add(LOOKER, above=job)
        await here.worker()
        await trio.sleep(100)
        assert not run.of(ModelRequested)
        assert here.transport.asked.count("room") < 20
        others.settle(Amounts(tokens=10))
        here.pool.stir()
        assert (await here.pool.result(run.id)).ok
        assert trio.current_time() < 110


async def test_a_lost_call_is_made_again_and_not_for_ever(autojump_clock: Clock) -> None:
    """Each time as a call of its own; three in a row fail the run."""
    from agents.errors import CallLost

    answers = iter([CallLost("gone"), CallLost("gone")])
    async with place(lambda messages: next(answers, say("done"))) as here:
        run = here.pool.add(LOOKER)
        await here.worker()
        assert (await here.pool.result(run.id)).ok
        assert [event.attempt for event in run.of(ModelRequested)] == [1, 2, 3]
        assert {event.kind for event in run.of(ModelFailed)} == {"call_lost"}
    async with place(lambda messages: CallLost("gone")) as here:
        run = here.pool.add(LOOKER)
        await here.worker()
        assert (await here.pool.result(run.id)).reason is StopReason.PLANNER_ERROR
        assert len(run.of(ModelFailed)) == 3


async def test_an_agent_whose_tool_is_not_here_is_left_with_the_reason(autojump_clock: Clock) -> None:
    """The run stays open for others, and whoever looks reads why."""
    async with place() as here:
        run = here.pool.add(POSTER)
        await here.worker(own=())
        await here.until(lambda: run.left)
        assert "tool post cannot be made on this machine" in run.left[0].message
        here.pool.tables = ToolTables(digest="new", tools={"post": {"function": "tests.worker.working:post"}})
        here.pool.give(run.id)
        assert (await here.pool.result(run.id)).ok
        assert here.transport.asked.count("tools") == 2


async def test_what_a_child_uses_counts_in_the_runs_own_budget(autojump_clock: Clock) -> None:
    """The daemon says what the child has come to, and the run sees it in its own limits."""
    from agents.delegate import AgentTool
    from agents.spawner import Spent

    giver = replace(LOOKER, name="giver", tools=(AgentTool("give", "looker"),), limits=Limits(tokens=9_000))
    async with place(in_turn(ask("give", {"task": "x"}), say("done"))) as here:
        child = here.pool.add(LOOKER, run="child")
        spent = [Spent(Amounts(tokens=100), Amounts()), Spent(Amounts(tokens=8_900), Amounts())]

        def answer(asked: object) -> ChildAnswer:
            part = spent.pop(0) if len(spent) > 1 else spent[0]
            return ChildAnswer(spent=part, result=done if part is spent[0] and len(spent) == 1 else None)

        await here.worker(own=(*giver.tools, *LOOKER.tools))
        done = await here.pool.result(child.id)
        here.pool.children = answer
        run = here.pool.add(giver)
        result = await here.pool.result(run.id)
        assert result.below == Amounts(tokens=8_900)
        assert result.reason is StopReason.TOKEN_BUDGET_EXCEEDED


async def test_a_cancelled_worker_leaves_its_runs_open(autojump_clock: Clock) -> None:
    """Its end is no reason for a run to end: nothing is appended, and another may take the run up."""
    async with place() as here:
        run = here.pool.add(POSTER)
        async with trio.open_nursery() as nursery:
            here.nursery, outer = nursery, here.nursery
            await here.worker()
            await here.until(lambda: run.of(ToolStarted))
            nursery.cancel_scope.cancel()
        count = len(run.events)
        assert not run.of(RunEnded)
        here.nursery = outer
        here.pool.give(run.id)
        await here.worker()
        assert (await here.pool.result(run.id)).ok
        assert len(run.events) > count


def test_what_a_worker_may_be_told() -> None:
    """Settings that make no sense are refused by their names."""
    from agents.errors import InvalidLimits
    from orchestrator.client.errors import BadAddress
    from orchestrator.worker.config import WorkerConfig

    for said, name in (({"runs": 0}, "runs"), ({"patience": -1.0}, "patience"), ({"name": "a b"}, "name")):
        with pytest.raises(InvalidLimits, match=name):
            WorkerConfig(daemons=("http://x",), **said)  # type: ignore[arg-type]
    with pytest.raises(InvalidLimits, match="daemons"):
        WorkerConfig(daemons=())
    with pytest.raises(BadAddress):
        WorkerConfig(daemons=("x",))


async def test_a_daemon_without_a_pool_refuses_workers(autojump_clock: Clock) -> None:
    """The worker ends with what the daemon says, and does not try for ever."""
    from orchestrator.api.worker_services import NO_WORKERS
    from orchestrator.client.errors import Refusal

    async with place() as here:
        here.transport.serve(NO_WORKERS)
        with pytest.RaisesGroup(pytest.RaisesExc(Refusal, match="drives its runs itself")):
            async with trio.open_nursery() as nursery:
                here.nursery = nursery
                await here.worker(wait=False)
        assert trio.current_time() < 1


async def test_answers_lost_now_and_then_are_no_reason_to_leave(autojump_clock: Clock) -> None:
    """Every second answer to a poll gets lost: each try is a sign of life of its own, and no run is left."""
    async with place() as here:
        polls = itertools.count()
        here.transport.lose = lambda what: what == "poll" and next(polls) % 2 == 1
        run = here.pool.add(POSTER)
        await here.worker()
        assert (await here.pool.result(run.id)).unknown_effects == ()
        assert not any("left for others" in line for line in here.told)
        assert not run.of(RunResumed)
