"""A job's log: what goes on from it, what it survives, and what it keeps apart."""

from collections import Counter
from pathlib import Path

import msgspec
import pytest
import structlog.testing
import trio
import trio.testing

from agents.amounts import Amounts, Limits
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.catalogue import Catalogue
from orchestrator.jobs.errors import JobConflict, JobStorageError
from orchestrator.jobs.events import AttemptStarted, ItemFinished, JobEnded, JobEvent, JobStopping, decode, session_of
from orchestrator.jobs.fold import JobFold
from orchestrator.jobs.service import CANCELLED
from orchestrator.store.base import Batch, RunRow
from orchestrator.store.errors import StoreFull
from orchestrator.store.memory import MemoryStore
from orchestrator.views.runs import RunRequest
from tests.jobs_daemon.fake_runs import (
    CATALOGUE,
    REQUEST,
    FakeRuns,
    LoggedRuns,
    ended,
    feed,
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


async def log_of(store: MemoryStore, job: str = "j") -> list[JobEvent]:
    return [decode(record.data) for record in await store.read(session_of(job))]


class WeakStore(MemoryStore):
    """Takes nothing while `full`; counts what it takes."""

    full = False
    appends = 0

    async def append(self, batch: Batch, generation: int) -> int:
        await trio.lowlevel.checkpoint()
        if self.full:
            raise StoreFull("there is no room on the disk")
        self.appends += 1
        return await super().append(batch, generation)


async def test_a_drained_job_goes_on_by_itself_and_repeats_nothing(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The next daemon asks for the same runs again; those that ended, or have a line, are not run twice."""

    async def four_are_quick(request: RunRequest) -> RunResult:
        await trio.sleep(1 if task(request) <= 4 else 5)
        return ended(request)

    store, runs = MemoryStore(), LoggedRuns(four_are_quick)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(replace(REQUEST, workers=6))
        await feed(service, "j", lines(range(1, 31)))
        await until(lambda: service.view("j").done == 4)
        service.close(1)
        await service.all_ended()
        assert (service.view("j").phase, service.view("j").done) == ("interrupted", 4)
    runs.ended["j.5"] = ended(replace(runs.asked[0], run="j.5", task="say 5"))  # its line got lost with its daemon
    runs.ran.clear()
    async with serving(tmp_path, runs, store=store) as service:
        assert service.going_on == {"j"}
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("done", 30, 0)
        assert Counter(line.ordinal for line in await read(service, "j")) == Counter(range(1, 31))
    assert Counter(runs.ran) == Counter(f"j.{n}" for n in range(6, 31))


async def test_failures_of_the_same_attempt_are_not_repeated(tmp_path: Path) -> None:
    """What failed before the daemon ended has finished, and waits for a retry like any other failure."""

    async def odd_ones_fail(request: RunRequest) -> RunResult:
        if task(request) > 6:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR) if task(request) % 2 else ended(request)

    store, runs = MemoryStore(), FakeRuns(odd_ones_fail)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines(range(1, 9)))
        await until(lambda: service.view("j").done + service.view("j").failed == 6)
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 5, 3)
        assert sorted(request.run for request in runs.asked) == ["j.7", "j.8"]
        await service.retry("j")
        assert (await until_ended(service, "j")).phase == "done"
        assert sorted(request.run for request in runs.asked[2:]) == ["j.1.2", "j.3.2", "j.5.2"]


async def test_what_was_spent_stays_spent_the_unknown_included(tmp_path: Path) -> None:
    """The job's budget goes on where it was, with what runs may have used besides what they reported."""

    async def some(request: RunRequest) -> RunResult:
        if task(request) > 3:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return ended(request, unknown_tokens=100 if task(request) == 2 else 0)

    store, runs, budget = MemoryStore(), FakeRuns(some), Limits(tokens=1000)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(replace(REQUEST, budget=budget))
        await feed(service, "j", lines(range(1, 5)))
        await until(lambda: service.view("j").done == 3)
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        await until_ended(service, "j")
        scope = runs.budgets[0]
        assert scope is not None
        assert (scope.used, scope.unknown) == (Amounts(rounds=3, tokens=45), Amounts(tokens=100))
        await service.retry("j")
        assert (await until_ended(service, "j")).phase == "done"


async def test_a_store_without_room_costs_time_and_no_result(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A job whose log takes nothing is left with that message, and gone on with as soon as there is room."""

    async def a_second(request: RunRequest) -> RunResult:
        await trio.sleep(1)
        return ended(request)

    store, runs = WeakStore(), LoggedRuns(a_second)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(replace(REQUEST, workers=2))
        await feed(service, "j", lines(range(1, 11)))
        await until(lambda: service.view("j").done == 4)
        store.full = True
        await until(lambda: service.view("j").phase == "interrupted")
        view = service.view("j")
        assert (view.message, view.done) == ("there is no room on the disk", 4)
        await trio.sleep(20)
        assert service.view("j").done == 4
        store.full = False
        await until(lambda: service.view("j").phase == "done")
        assert service.view("j").done == 10
        assert Counter(line.ordinal for line in await read(service, "j")) == Counter(range(1, 11))
    assert Counter(runs.ran) == Counter(f"j.{n}" for n in range(1, 11))


async def test_items_that_end_together_are_kept_together(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """A hundred workers that end at once wait for two batches, and not each for its own."""

    async def a_second(request: RunRequest) -> RunResult:
        await trio.sleep(1)
        return ended(request)

    store = WeakStore()
    async with serving(tmp_path, FakeRuns(a_second), store=store) as service:
        await service.create(replace(REQUEST, workers=100))
        await feed(service, "j", lines(range(1, 101)))
        await until(lambda: service.view("j").live == 100)
        before = store.appends
        await until_ended(service, "j")
    assert store.appends - before <= 4


async def test_another_daemon_that_has_the_job_is_left_alone(tmp_path: Path) -> None:
    """Where another daemon has taken the log over, the first one appends nothing more and does not take it back."""
    store = MemoryStore()
    go = trio.Event()

    async def held(request: RunRequest) -> RunResult:
        await go.wait()
        return ended(request)

    async with serving(tmp_path / "a", FakeRuns(held), store=store) as first:
        await first.create(replace(REQUEST, workers=1))
        await feed(first, "j", lines([1, 2]))
        await until(lambda: first.view("j").live == 1)
        view = await store.take(session_of("j"), "jobs")
        go.set()
        with trio.fail_after(5):
            await first.all_ended()
        assert first.view("j").phase == "interrupted"
        assert "was taken over" in first.view("j").message
        assert (await store.session(session_of("j"))).generation == view.generation


async def test_a_job_whose_agent_is_gone_waits_for_it(tmp_path: Path) -> None:
    """What cannot be gone on with says why; it can be cancelled, or tried again when the reason is gone."""
    store = MemoryStore()
    for job in ("j", "k"):
        async with serving(tmp_path, FakeRuns(never), store=store) as service:
            await service.create(replace(REQUEST, job=job))
            await feed(service, job, lines([1]))
    nobody = Catalogue(models={}, default_model="m")
    with structlog.testing.capture_logs() as logs:
        async with serving(tmp_path, store=store, catalogue=lambda: nobody) as service:
            assert {view.phase for view in service.list().jobs} == {"interrupted"}
            assert "model" in service.view("j").message
            cancelled = await service.cancel("k")
            assert (cancelled.phase, cancelled.message) == ("cancelled", CANCELLED)
            catalogue, nobody = nobody, CATALOGUE
            await service.retry("j")
            view = await until_ended(service, "j")
            assert (view.phase, view.done) == ("done", 1)
            assert catalogue.models == {}
    assert any("cannot be gone on with" in str(log["event"]) for log in logs)
    async with serving(tmp_path, FakeRuns(), store=store) as service:
        assert {view.job: view.phase for view in service.list().jobs} == {"j": "done", "k": "cancelled"}


async def test_runs_of_a_job_that_was_stopping_are_taken_away(tmp_path: Path) -> None:
    """A job whose cancellation was acknowledged ends as cancelled, and its open runs do not go on without it."""
    store, row = (
        MemoryStore(),
        RunRow(
            run="j.1",
            session="j.1",
            tenant="default",
            job="j",
            state="running",
            open=True,
            after=0,
            created=0.0,
            head=b"",
        ),
    )
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines([1, 2]))
        await until(lambda: service.view("j").live == 2)
    await store.beat("x")
    await store.take("j.1", "x", batch=Batch(session="j.1", id="b", after=0, records=(b"{}",), runs=(row,)))
    stopping = JobStopping(at=1.0, phase="cancelled", message=CANCELLED)
    await store.append_external(session_of("j"), "k", [msgspec.json.encode(stopping)])
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
        assert (view.phase, view.message, view.cancelled) == ("cancelled", CANCELLED, 1)
    assert (runs.cancelled, runs.asked) == (["j.1"], [])


async def test_fail_fast_is_decided_with_the_item_that_failed(tmp_path: Path) -> None:
    """The failure and the end that it means are one move, so no daemon that follows begins another item."""
    store = MemoryStore()

    async def fails(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR)

    async with serving(tmp_path, FakeRuns(fails), store=store) as service:
        await service.create(replace(REQUEST, fail_fast=True, workers=1))
        await feed(service, "j", lines([1, 2, 3]))
        await until_ended(service, "j")
    kinds = [type(event) for event in await log_of(store)]
    failed = kinds.index(ItemFinished)
    assert kinds[failed : failed + 3] == [ItemFinished, JobStopping, JobEnded]


async def test_a_name_used_again_gets_runs_of_its_own(tmp_path: Path) -> None:
    """A job named like one that was removed never gets that one's answers: its attempts count on."""
    store, runs = MemoryStore(), LoggedRuns()
    async with serving(tmp_path, runs, store=store) as service:
        for text in (1, 2, 3):
            await service.create(REQUEST)
            await feed(service, "j", lines([text]))
            assert (await until_ended(service, "j")).done == 1
            assert [line.value for line in await read(service, "j")] == [f"SAY {text}"]
            await service.remove("j")
    assert [request.run for request in runs.asked] == ["j.1", "j.1.2", "j.1.3"]
    async with serving(tmp_path, runs, store=store) as service:
        assert service.list().jobs == ()


async def test_an_event_of_a_later_version_stops_the_job_and_keeps_it(tmp_path: Path) -> None:
    """A log that this version cannot read is shown with that message, and nothing of it is changed."""
    store = MemoryStore()
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        await service.create(REQUEST)
        await upload(service, "j", lines([1]))
    last = await store.append_external(session_of("j"), "k", [b'{"type":"job_dreamt","at":1}'])
    runs = FakeRuns()
    async with serving(tmp_path, runs, store=store) as service:
        view = service.view("j")
        assert view.phase == "interrupted"
        assert "cannot read" in view.message
        with pytest.raises(JobStorageError, match="cannot read"):
            await service.retry("j")
    assert runs.asked == []
    assert (await store.session(session_of("j"))).last == last


async def test_results_of_a_job_whose_log_is_gone_are_taken_over(tmp_path: Path) -> None:
    """With a new store, or one put back to an earlier state, what the folder has counts and is not run again."""

    async def some(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR) if task(request) == 2 else ended(request)

    async with serving(tmp_path, FakeRuns(some), store=MemoryStore()) as service:
        await service.create(REQUEST)
        await feed(service, "j", lines([1, 2, 3]))
        before = await until_ended(service, "j")
        data = (tmp_path / "jobs" / "j" / "results.jsonl").read_bytes()
    runs, store = FakeRuns(), MemoryStore()
    async with serving(tmp_path, runs, store=store) as service:
        assert service.view("j") == before
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.usage.output) == ("done", 3, 20)
    assert [request.run for request in runs.asked] == ["j.2.2"]
    events = await log_of(store)
    assert [event.attempt for event in events if isinstance(event, AttemptStarted)] == [1, 2]
    written = b"".join(bytes(event.line) + b"\n" for event in events if isinstance(event, ItemFinished))
    assert written == (tmp_path / "jobs" / "j" / "results.jsonl").read_bytes()
    assert written.startswith(data)


async def test_the_log_comes_to_what_clients_saw(tmp_path: Path) -> None:
    """Folded, a log gives the job's view and its results byte for byte, and tells of each item once."""

    async def some(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR, micro_dollars=3) if task(request) % 3 == 0 else ended(request)

    store = MemoryStore()
    async with serving(tmp_path, FakeRuns(some), store=store) as service:
        await service.create(replace(REQUEST, ordered=True, workers=5))
        await feed(service, "j", lines(range(1, 20)))
        await until_ended(service, "j")
        await service.retry("j")
        view = await until_ended(service, "j")
    fold = JobFold()
    data = b"".join([fold.add(decode(record.data), record.number) for record in await store.read(session_of("j"))])
    assert data == (tmp_path / "jobs" / "j" / "results.jsonl").read_bytes()
    assert fold.record is not None
    summary = fold.record.summary
    assert (summary.done, summary.failed, summary.usage, summary.failures) == (
        view.done,
        view.failed,
        view.usage,
        view.failures,
    )
    assert (fold.record.phase, fold.record.attempt, fold.record.complete) == (view.phase, 2, True)
    digests = [event.digest for event in await log_of(store) if isinstance(event, ItemFinished)]
    assert all(len(digest) == 64 for digest in digests)
    assert len(set(digests)) == 19


async def test_a_job_that_was_left_can_be_completed_and_removed(tmp_path: Path) -> None:
    """Inputs may be completed while nobody works at a job; a live one is still not removed."""
    store, none = MemoryStore(), Catalogue(models={}, default_model="m")
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        await service.create(REQUEST)
        await upload(service, "j", lines([1]))
    async with serving(tmp_path, store=store, catalogue=lambda: none) as service:
        assert (await service.complete("j")).complete
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        assert service.view("j").complete
        with pytest.raises(JobConflict):
            await service.remove("j")
        await service.cancel("j")
        await until_ended(service, "j")
        await service.remove("j")
    assert list((tmp_path / "jobs").iterdir()) == []
