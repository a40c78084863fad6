"""Jobs that end with an answer written of their results, out of a share of the budget kept for that."""

import json
from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agents.amounts import Limits
from agents.errors import InvalidLimits
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.jobs.budget import lessened
from orchestrator.jobs.template import TemplateError
from orchestrator.store.memory import MemoryStore
from orchestrator.views.jobs import GatherRequest, SynthesisRequest
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    LoggedRuns,
    ended,
    feed,
    instantly,
    lines,
    serving,
    until,
    until_ended,
)

replace = msgspec.structs.replace
SUMMED = replace(REQUEST, synthesis=SynthesisRequest(prompt="{job}:\n{results}"), budget=Limits(tokens=1000))


async def third_fails(request: RunRequest) -> RunResult:
    await trio.lowlevel.checkpoint()
    return ended(request, StopReason.TOOL_ERROR) if request.run == "j.3" else ended(request)


async def test_the_synthesis_gets_every_item_in_the_order_of_the_inputs(tmp_path: Path) -> None:
    """Its prompt has a row per item, done or failed, and its answer is the job's."""

    async def later_ones_first(request: RunRequest) -> RunResult:
        if request.run == "j.1":
            await until(lambda: len(runs.asked) == 4 and service.view("j").done == 2)
        return await third_fails(request)

    runs = FakeRuns(later_ones_first)
    async with serving(tmp_path, runs) as service:
        await service.create(SUMMED)
        await feed(service, "j", lines([1, 2, 3, 4]))
        view = await until_ended(service, "j")
    asked = runs.asked[-1]
    head, *rows = asked.task.splitlines()
    assert (asked.run, head) == ("j.synthesis", "job:")
    assert [json.loads(row)["item"] for row in rows] == [1, 2, 3, 4]
    assert json.loads(rows[2]) == {
        "item": 3,
        "origin": "in:3",
        "state": "failed",
        "value": "",
        "reason": "tool_error",
        "error": "it went wrong",
    }
    assert view.answer == asked.task.upper()
    assert (view.phase, view.stage, view.done, view.usage.output) == ("failed", "ended", 3, 25)


async def test_its_share_is_kept_from_the_workers(tmp_path: Path) -> None:
    """Workers have a scope of four fifths of each limit, below that of the whole job, which the synthesis gets."""
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        await service.create(SUMMED)
        await feed(service, "j", lines([1]))
        await until_ended(service, "j")
    items, whole = runs.budgets
    assert items is not None
    assert whole is not None
    assert (items.name, items.limits.tokens, items.parent) == ("items", 800, whole)
    assert (whole.name, whole.limits.tokens) == ("job", 1000)


async def test_workers_that_spend_all_they_may_leave_an_answer(tmp_path: Path) -> None:
    """The job is stopped by its budget, and what it came to is summed up out of the share."""

    async def second_has_no_budget(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        if request.run != "j.2":
            return ended(request)
        return ended(request, StopReason.TOKEN_BUDGET_EXCEEDED, scope="items")

    runs = FakeRuns(second_has_no_budget)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(SUMMED, workers=1))
        await feed(service, "j", lines(range(1, 9)))
        view = await until_ended(service, "j")
    assert [run.run for run in runs.asked] == ["j.1", "j.2", "j.synthesis"]
    assert (view.phase, view.message) == ("stopped", "its budget is spent: it went wrong")
    assert view.answer


@pytest.mark.parametrize("gather", [GatherRequest(policy="all"), GatherRequest(policy="quorum", count=4)])
async def test_nothing_is_written_of_what_did_not_come_about(tmp_path: Path, gather: GatherRequest) -> None:
    """A job that failed by its policy has no synthesis."""
    runs = FakeRuns(third_fails)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(SUMMED, workers=1, gather=gather))
        await feed(service, "j", lines([1, 2, 3, 4]))
        view = await until_ended(service, "j")
    assert (view.phase, view.answer, runs.asked[-1].run) == ("failed", "", "j.3")


async def test_a_synthesis_that_fails_fails_the_job_and_is_tried_again_alone(tmp_path: Path) -> None:
    """The results stay; a retry asks for nothing but the synthesis."""

    async def broken(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.REFUSAL) if request.run == "j.synthesis" else ended(request)

    runs = FakeRuns(broken)
    async with serving(tmp_path, runs) as service:
        await service.create(SUMMED)
        await feed(service, "j", lines([1, 2]))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.message) == ("failed", 2, "the synthesis failed: it went wrong")
        await service.retry("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, runs.asked[-1].run, len(runs.asked)) == ("done", 2, "j.synthesis.2", 4)
    assert view.answer


async def test_a_job_is_cancelled_while_it_is_summed_up(tmp_path: Path) -> None:
    """The synthesis is taken away, and the job is cancelled with its results."""

    async def last_waits(request: RunRequest) -> RunResult:
        if request.run == "j.synthesis":
            await trio.sleep_forever()
        return await instantly(request)

    runs = FakeRuns(last_waits)
    gather = GatherRequest(policy="quorum", count=1)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(SUMMED, gather=gather))
        await feed(service, "j", lines([1]))
        await until(lambda: service.view("j").stage == "synthesis" and runs.live == 1)
        await service.cancel("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.message, view.answer) == ("cancelled", 1, "cancelled on request", "")


async def test_the_next_daemon_goes_on_with_the_synthesis(tmp_path: Path) -> None:
    """What was spent is charged once, and the answer is kept over restarts."""

    async def last_waits(request: RunRequest) -> RunResult:
        if request.run == "j.synthesis":
            await trio.sleep_forever()
        return await instantly(request)

    store, runs = MemoryStore(), LoggedRuns(last_waits)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(SUMMED)
        await feed(service, "j", lines([1, 2]))
        await until(lambda: runs.live == 1 and service.view("j").stage == "synthesis")
    runs.answer = instantly
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
    assert (view.phase, view.usage.output) == ("done", 15)
    assert runs.charged == ["j.synthesis"]
    whole = runs.budgets[-1]
    assert whole is not None
    assert whole.used.tokens == 30
    async with serving(tmp_path, runs, store=store) as service:
        assert service.view("j").answer == view.answer != ""


@given(
    tokens=st.integers(1, 10**9),
    dollars=st.integers(0, 10**9),
    share=st.floats(0.001, 0.999),
    seconds=st.floats(1, 1e6),
)
def test_share_and_rest_are_never_more_than_the_whole(tokens: int, dollars: int, share: float, seconds: float) -> None:
    """Each limit is lessened by its share at least, down to the least that makes sense."""
    less = lessened(Limits(tokens=tokens, micro_dollars=dollars, timeout=seconds), share)
    assert less.tokens is not None
    assert less.micro_dollars is not None
    assert less.timeout is not None
    assert less.tokens == 1 or less.tokens <= tokens * (1 - share)
    assert less.micro_dollars <= dollars * (1 - share)
    assert less.timeout <= seconds
    assert less.rounds is None


async def test_a_synthesis_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """A share of all or nothing, and a prompt that names something else, are refused by name."""
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(InvalidLimits, match="share"):
            SynthesisRequest(prompt="{results}", share=share)
    async with serving(tmp_path) as service:
        with pytest.raises(TemplateError, match=r"names \{text\}; it may name"):
            await service.create(replace(REQUEST, synthesis=SynthesisRequest(prompt="{text}")))
