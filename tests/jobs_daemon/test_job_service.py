"""A job of the daemon: fed by uploads, worked on as they come, seen, followed, cancelled, tried again, removed."""

from pathlib import Path

import msgspec
import pytest
import trio
import trio.testing

from agents.amounts import Limits
from agents.errors import InvalidLimits, ModelError, Refused, UnknownModel
from agents.lifecycle import StopReason
from agents.messages import Message, ModelReply, ModelRequest
from agents.port import ModelPort
from agents.result import RunResult
from orchestrator.jobs.errors import DuplicateJob, JobConflict, UnknownJob
from orchestrator.jobs.tail import MAX_LINE_BYTES
from orchestrator.jobs.template import TemplateError
from orchestrator.views.jobs import InputLine, JobRequest
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    ended,
    feed,
    instantly,
    last,
    lines,
    never,
    read,
    serving,
    task,
    until,
    until_ended,
    upload,
)

replace = msgspec.structs.replace


async def test_a_job_runs_every_uploaded_item_once(tmp_path: Path) -> None:
    """Each input becomes one run under the job's flow, and one line of results."""
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, tenant="acme", priority="batch"))
        await feed(service, "j", lines(range(1, 31)))
        view = await until_ended(service, "j")
        results = await read(service, "j")
    assert (view.phase, view.done, view.failed, view.received) == ("done", 30, 0, 30)
    assert view.usage.output == 150
    assert sorted(line.ordinal for line in results) == list(range(1, 31))
    assert all(line.value == f"SAY {line.ordinal}" and line.origin == f"in:{line.ordinal}" for line in results)
    assert sorted(run.run for run in runs.asked) == sorted(f"j.{n}" for n in range(1, 31))
    assert {(run.tenant, run.job, run.priority) for run in runs.asked} == {("acme", "j", "batch")}


async def test_work_begins_with_the_first_whole_line(tmp_path: Path) -> None:
    """An item runs as soon as its line is whole, while the rest of the upload is still to come."""
    runs = FakeRuns()
    first, second = trio.Event(), trio.Event()
    data = lines([1, 2])

    async def body() -> object:
        yield data[:30]
        await first.wait()
        yield data[30:-1]
        await second.wait()
        yield data[-1:]

    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.upload, "j", 0, body())
            await until(lambda: service.view("j").upload_offset == 30)
            assert runs.asked == []
            first.set()
            await until(lambda: service.view("j").done == 1)
            assert service.view("j").received == 1
            second.set()
        await service.complete("j")
        assert (await until_ended(service, "j")).done == 2


async def test_what_is_no_item_fails_alone_and_blank_lines_are_skipped(tmp_path: Path) -> None:
    """Lines that cannot be used, problems that the client met and templates that cannot be filled are failed items."""
    good = lines([1])
    bad = [
        b"not json\n",
        b'{"origin": 7}\n',
        b"\xff\xfe\n",
        b"[" * 200_000 + b"\n",
        b'{"origin":"far","fields":{"text":"' + b"x" * MAX_LINE_BYTES + b'"}}\n',
        msgspec.json.encode(InputLine("file:9", problem="not UTF-8")) + b"\n",
        msgspec.json.encode(InputLine("file:10", {"other": "field"})) + b"\n",
    ]
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1))
        await feed(service, "j", good + b"\n  \r\n" + b"".join(bad) + b" \n" + good + b"  ")
        view = await until_ended(service, "j")
        results = await read(service, "j")
    assert (view.phase, view.received, view.done, view.failed) == ("failed", 9, 2, 7)
    assert view.failures == {"invalid_input": 7}
    assert view.micro_dollars is None
    assert [line.ordinal for line in results] == list(range(1, 10))
    assert len(runs.asked) == 2
    problems = {line.origin: line.error for line in results if line.state == "failed"}
    assert list(problems) == ["line 4", "line 5", "line 6", "line 7", "line 8", "file:9", "file:10"]
    assert problems["line 8"].startswith("longer than 8 MiB")
    assert problems["file:9"] == "not UTF-8"
    assert "{text}" in problems["file:10"]


async def test_at_most_workers_runs_are_live(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """The job's own bound on its live runs holds, and is used."""

    async def slowly(request: RunRequest) -> RunResult:
        await trio.sleep(1)
        return ended(request)

    runs = FakeRuns(slowly)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=7))
        await feed(service, "j", lines(range(50)))
        assert (await until_ended(service, "j")).done == 50
    assert runs.most == 7


async def test_ordered_results_leave_in_the_order_of_inputs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """With `ordered` a result waits for those before it, also when only some ordinals are tried again."""
    failing = {3, 4, 9, 15}

    async def later_ones_are_quicker(request: RunRequest) -> RunResult:
        number = task(request)
        await trio.sleep(3 - number / 10)
        return ended(request, StopReason.TOOL_ERROR) if number in failing else ended(request)

    async with serving(tmp_path, FakeRuns(later_ones_are_quicker)) as service:
        await service.create(replace(REQUEST, ordered=True, workers=4))
        await feed(service, "j", lines(range(1, 21)))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 16, 4)
        assert [line.ordinal for line in await read(service, "j")] == list(range(1, 21))
        failing.clear()
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("done", 20, 0)
        assert [line.ordinal for line in await read(service, "j")] == [*range(1, 21), 3, 4, 9, 15]


async def test_a_retry_supersedes_what_failed_and_runs_nothing_else(tmp_path: Path) -> None:
    """Only ordinals without a `done` result run again, under a new run id; counts follow each ordinal's last line."""
    failing = {2, 5}

    async def some_fail(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR) if task(request) in failing else ended(request)

    runs = FakeRuns(some_fail)
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(1, 7)))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 4, 2)
        assert view.failures == {"tool_error": 2}
        assert sorted(view.errors) == ["in:2: it went wrong", "in:5: it went wrong"]
        failing.remove(5)
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 5, 1)
        assert (view.failures, view.errors) == ({"tool_error": 1}, ("in:2: it went wrong",))
        assert view.usage.output == 8 * 5
        assert sorted(run.run for run in runs.asked[6:]) == ["j.2.2", "j.5.2"]
        assert [line.attempt for line in await read(service, "j")] == [1] * 6 + [2] * 2
        failing.clear()
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failures, view.errors) == ("done", 6, {}, ())
        assert runs.asked[-1].run == "j.2.3"
        before = len(runs.asked)
        await service.retry("j")
        assert (await until_ended(service, "j")).phase == "done"
        assert len(runs.asked) == before


async def test_cancel_takes_live_runs_away_and_accounts_for_them(tmp_path: Path) -> None:
    """What is queued never begins, what is live is taken away without a line, and a retry runs both."""

    async def the_first_three(request: RunRequest) -> RunResult:
        return await (instantly(request) if task(request) <= 3 else never(request))

    runs = FakeRuns(the_first_three)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=5))
        await feed(service, "j", lines(range(1, 21)))
        await until(lambda: (service.view("j").done, service.view("j").live) == (3, 5))
        assert (await service.cancel("j")).phase in ("stopping", "cancelled")
        view = await until_ended(service, "j")
        assert (view.phase, view.message) == ("cancelled", "cancelled on request")
        assert (view.done, view.failed, view.cancelled, view.live, view.received) == (3, 0, 5, 0, 20)
        assert (await service.cancel("j")).phase == "cancelled"
        assert runs.live == 0
        runs.answer = instantly
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.cancelled, view.message) == ("done", 20, 0, "")
        assert len(last(await read(service, "j"))) == 20


async def test_a_job_without_inputs_can_be_cancelled_fed_and_ended(tmp_path: Path) -> None:
    """A job that waits for its first input can be cancelled; one that never gets any ends as done."""
    async with serving(tmp_path) as service:
        await service.create(REQUEST)
        await service.cancel("j")
        assert (await until_ended(service, "j")).phase == "cancelled"
        with pytest.raises(JobConflict, match="has ended"):
            await upload(service, "j", lines([1]))
        await service.retry("j")
        await service.complete("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.received) == ("done", 0)


async def test_fail_fast_ends_the_job_with_its_first_failure(tmp_path: Path) -> None:
    """One failed item ends the job as failed and says which it was."""

    async def the_second_fails(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR) if task(request) == 2 else ended(request)

    async with serving(tmp_path, FakeRuns(the_second_fails)) as service:
        await service.create(replace(REQUEST, fail_fast=True, workers=1))
        await feed(service, "j", lines(range(1, 10)))
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.failed) == ("failed", 1, 1)
    assert view.message == "an item failed: in:2: it went wrong"


class RefusedPort:
    """A model that refuses this key."""

    async def call(self, request: ModelRequest, **_: object) -> ModelReply:
        raise Refused("the key is wrong", status=401, endpoint_fault=True)


async def test_a_hopeless_backend_ends_the_job_with_one_message(tmp_path: Path) -> None:
    """The model calls of a job's runs are watched, so a wrong key ends the job and not a thousand items."""

    class Through(FakeRuns):
        async def run_to_end(self, request: RunRequest, **given: object) -> RunResult:
            port: ModelPort = given["through"](RefusedPort())  # type: ignore[operator]
            self.asked.append(request)
            try:
                await port.call(ModelRequest("m", (Message("user", "hello"),)))
            except ModelError:
                await trio.lowlevel.checkpoint()
            return ended(request, StopReason.PLANNER_ERROR)

    runs = Through()
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=3))
        await feed(service, "j", lines(range(1000)))
        view = await until_ended(service, "j")
    assert (view.phase, view.message) == ("stopped", "the backend refuses every request: the key is wrong")
    assert len(runs.asked) <= 3


async def test_a_spent_budget_ends_the_job(tmp_path: Path) -> None:
    """All runs share the job's budget, and where it stops one of them, nothing more is begun."""
    spent = trio.Event()

    async def within(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        if task(request) < 4:
            return ended(request)
        spent.set()
        return ended(request, StopReason.MAX_ROUNDS, scope="job", limit="rounds", allowed=3, observed=3)

    runs = FakeRuns(within)
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, workers=1, budget=Limits(rounds=3)))
        await feed(service, "j", lines(range(1, 100)))
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("stopped", 3, 1)
        assert view.message == "its budget is spent: it went wrong"
        budget = runs.budgets[0]
        assert budget is not None
        assert budget.limits == Limits(rounds=3)
        assert all(other is budget for other in runs.budgets)
        await service.retry("j")  # a new grant
        await until_ended(service, "j")
        assert runs.budgets[-1] is not budget
        assert runs.budgets[-1].used.rounds == 0  # type: ignore[union-attr]


async def test_what_goes_wrong_inside_one_run_fails_one_item(tmp_path: Path) -> None:
    """An error that nobody expected costs its own item only."""

    async def broken(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        if task(request) == 2:
            raise ZeroDivisionError("oh")
        return ended(request)

    async with serving(tmp_path, FakeRuns(broken)) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines([1, 2, 3]))
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.failures) == ("failed", 2, {"internal_error": 1})


async def test_nonsense_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """A request that could never work leaves no folder."""
    async with serving(tmp_path) as service:
        for fields, error in (
            ({"prompt": "no field"}, TemplateError),
            ({"job": "../up"}, InvalidLimits),
            ({"job": "x" * 41}, InvalidLimits),
            ({"tenant": ""}, InvalidLimits),
            ({"name": "a b"}, InvalidLimits),
            ({"workers": 0}, InvalidLimits),
            ({"workers": 1_000_000}, InvalidLimits),
            ({"weight": float("nan")}, InvalidLimits),
            ({"weight": 0.0}, InvalidLimits),
            ({"who": AgentChoice(model="nobody")}, UnknownModel),
            ({"budget": Limits(micro_dollars=5)}, InvalidLimits),
        ):
            with pytest.raises(error):
                await service.create(replace(REQUEST, **fields))
        assert service.list().jobs == ()
        assert list((tmp_path / "jobs").iterdir()) == []
        await service.create(REQUEST)
        with pytest.raises(DuplicateJob):
            await service.create(REQUEST)
        for call in (service.complete, service.cancel, service.retry, service.remove):
            with pytest.raises(UnknownJob):
                await call("nobody")
        for look in (service.view, service.results, service.watch):
            with pytest.raises(UnknownJob):
                look("nobody")


async def test_ids_are_made_up_from_the_name(tmp_path: Path) -> None:
    """Without an id of the client's a job gets one that is its own and still a valid name for its runs."""
    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        views = [await service.create(JobRequest(prompt="{text}", name="n" * 64)) for _ in range(3)]
        assert len({view.job for view in views}) == 3
        assert all(len(view.job) == 40 and view.job.startswith("nnn") for view in views)
        assert {view.job for view in service.list().jobs} == {view.job for view in views}


async def test_weights_are_told_while_a_job_is_live(tmp_path: Path) -> None:
    """Two jobs of one tenant share by the weights that are told when they begin, and taken back when they end."""
    told: list[tuple[str, str, float]] = []
    async with serving(tmp_path, on_weight=lambda *weight: told.append(weight)) as service:
        await service.create(replace(REQUEST, job="heavy", tenant="acme", weight=3.0))
        await service.create(replace(REQUEST, job="light", tenant="acme", weight=0.5))
        assert told == [("acme", "heavy", 3.0), ("acme", "light", 0.5)]
        await feed(service, "heavy", lines([1]))
        await until_ended(service, "heavy")
        assert told[2:] == [("acme", "heavy", 1.0)]


async def test_results_are_read_from_any_byte_and_followed(tmp_path: Path) -> None:
    """Whatever bytes a reader has, the rest follows; a reader that follows ends with the job."""
    go = trio.Event()

    async def held(request: RunRequest) -> RunResult:
        if task(request) > 10:
            await go.wait()
        return ended(request)

    followed: list[bytes] = []

    async def follow() -> None:
        async for piece in service.results("j", 0, follow=True):
            followed.append(piece)  # noqa: PERF401 -- it is looked at meanwhile

    async with serving(tmp_path, FakeRuns(held)) as service:
        await service.create(REQUEST)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            await feed(service, "j", lines(range(1, 21)))
            await until(lambda: sum(piece.count(b"\n") for piece in followed) >= 10)
            assert len(await read(service, "j")) == 10
            go.set()
        whole = b"".join(followed)
        assert whole.count(b"\n") == 20
        assert all(piece.endswith(b"\n") for piece in followed)
        for offset in (0, 1, 100, len(whole) - 1, len(whole)):
            rest = b"".join([piece async for piece in service.results("j", offset, follow=True)])
            assert whole[:offset] + rest == whole
        for offset in (-1, len(whole) + 1):
            with pytest.raises(InvalidLimits):
                service.results("j", offset)


async def test_long_results_come_whole(tmp_path: Path) -> None:
    """A line longer than what is read at once is one piece."""

    async def long(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return replace(ended(request), answer="x" * 500_000)

    async with serving(tmp_path, FakeRuns(long)) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(5)))
        await until_ended(service, "j")
        assert [len(line.value) for line in await read(service, "j")] == [500_000] * 5


async def test_watchers_hear_of_changes_at_most_four_times_a_second(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """However many items end, a watcher gets a view every quarter of a second, and the last one says the end."""

    async def one_each_10_ms(request: RunRequest) -> RunResult:
        await trio.sleep(0.01)
        return ended(request)

    async with serving(tmp_path, FakeRuns(one_each_10_ms)) as service:
        await service.create(replace(REQUEST, workers=1))
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(feed, service, "j", lines(range(300)))
            views = [view async for view in service.watch("j")]
        assert len(views) <= 2 + (trio.current_time() - began) / 0.25
        assert len(views) >= 10
        assert (views[-1].phase, views[-1].done) == ("done", 300)


async def test_removing_a_job_needs_its_end_and_takes_its_files(tmp_path: Path) -> None:
    """A live job is kept; an ended one goes with its folder, and its id is free again."""
    async with serving(tmp_path, FakeRuns(never)) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines([1]))
        with pytest.raises(JobConflict, match="live"):
            await service.remove("j")
        await service.cancel("j")
        await until_ended(service, "j")
        await service.remove("j")
        with pytest.raises(UnknownJob):
            service.view("j")
        assert list((tmp_path / "jobs").iterdir()) == []
        await service.create(REQUEST)


async def test_a_live_job_is_not_tried_again(tmp_path: Path) -> None:
    """A retry of a job that works is refused and disturbs nothing."""
    async with serving(tmp_path, FakeRuns(never)) as service:
        await service.create(REQUEST)
        await upload(service, "j", lines([1]))
        with pytest.raises(JobConflict, match="live"):
            await service.retry("j")
        await upload(service, "j", b"{")
        with pytest.raises(JobConflict, match="middle of a line"):
            await service.complete("j")
        await upload(service, "j", b'"origin": "x"}\n')
        view = await service.complete("j")
        assert view.complete
        assert await service.complete("j") == view
        with pytest.raises(JobConflict, match="complete"):
            await upload(service, "j", lines([2]))
