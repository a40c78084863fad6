"""A job: bounded live runs over a stream, results as they come, and every item accounted for at the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager

import pytest
import trio
import trio.testing

from agents.errors import ModelError, Overloaded, Refused, TooLarge, Unavailable
from agents.messages import Usage
from orchestrator.jobs.fuse import Fuse
from orchestrator.jobs.inputs import InputError, Item, Unreadable
from orchestrator.jobs.job import PEEK, ItemResult, Job, JobSpec, chain, peek
from orchestrator.jobs.outputs import OutputError
from orchestrator.jobs.template import Template, TemplateError

Work = Callable[[Item], Awaitable[None]]


class numbers:  # noqa: N801 -- reads as the function it stands for
    """An iterator that needs no closing, unlike a generator."""

    def __init__(self, count: int, bad: frozenset[int] = frozenset()) -> None:
        self._ordinals = iter(range(1, count + 1))
        self._bad = bad

    def __aiter__(self) -> "numbers":
        return self

    async def __anext__(self) -> Item | Unreadable:
        for ordinal in self._ordinals:
            if ordinal in self._bad:
                return Unreadable(ordinal, f"in:{ordinal}:7", "not valid JSON")
            return Item(ordinal, f"in:{ordinal}", {"text": str(ordinal)})
        raise StopAsyncIteration


class Bench:
    """A job over numbers, with what it wrote and how many runs were live at once."""

    def __init__(self, count: int, work: Work, *, bad: frozenset[int] = frozenset(), **spec: object) -> None:
        self.written: list[int] = []
        self.live = self.most = 0
        self.work = work
        self.failing: frozenset[int] = frozenset()
        self.output_breaks_at = 0
        self.job = Job(
            JobSpec("job", Template("{text}"), **spec),  # type: ignore[arg-type]
            numbers(count, bad),
            self.run,
            self.write,
        )

    async def run(self, item: Item, prompt: str) -> ItemResult:
        assert prompt == str(item.ordinal)
        self.live += 1
        self.most = max(self.most, self.live)
        try:
            await self.work(item)
        finally:
            self.live -= 1
        state = "failed" if item.ordinal in self.failing else "done"
        return ItemResult(item.ordinal, item.origin, state, "final_answer", prompt, usage=Usage(2, output=1))  # type: ignore[arg-type]

    async def write(self, result: ItemResult) -> None:
        await trio.lowlevel.checkpoint()
        if result.ordinal == self.output_breaks_at:
            raise OutputError("out: no space left on device")
        self.written.append(result.ordinal)


async def shorter_later(item: Item) -> None:
    await trio.sleep(10 - item.ordinal % 10)


async def test_live_runs_are_bounded_and_results_come_as_they_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Never more runs than workers are live, all items end once, and quick ones are written before slow ones."""
    bench = Bench(40, shorter_later, workers=8)
    report = await bench.job.run()
    assert bench.most == 8
    assert sorted(bench.written) == list(range(1, 41))
    assert bench.written != sorted(bench.written)
    assert (report.state, report.done, report.failed, report.unread_after) == ("done", 40, 0, "")
    assert report.usage == Usage(80, output=40)


async def test_ordered_results_keep_the_order_of_input(autojump_clock: trio.testing.MockClock) -> None:
    """`ordered` writes in order of input, and a stuck first item holds back a window of results, not the whole job."""

    async def work(item: Item) -> None:
        if item.ordinal == 1:
            await trio.sleep(1000)
        await shorter_later(item)

    bench = Bench(200, work, workers=8, ordered=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.job.run)
        await trio.sleep(999)
        assert bench.written == []
        assert bench.job.taken == 32
    assert bench.written == list(range(1, 201))


async def test_bad_items_fail_and_the_rest_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """An unreadable line in the middle is one failed result that names its place."""
    bench = Bench(10, shorter_later, bad=frozenset({4}), workers=2)
    report = await bench.job.run()
    assert (report.state, report.done, report.failed) == ("failed", 9, 1)
    assert report.errors == ("in:4:7: not valid JSON",)
    assert report.failures == {"invalid_input": 1}
    assert len(bench.written) == 10


async def test_a_stop_lets_live_runs_end_within_grace(autojump_clock: trio.testing.MockClock) -> None:
    """After a stop nothing is read; what ends in time is written, the rest is named as cancelled."""

    async def work(item: Item) -> None:
        await trio.sleep(item.ordinal)

    bench = Bench(100, work, workers=10)
    async with trio.open_nursery() as nursery:

        async def stopper() -> None:
            await trio.sleep(0.5)
            bench.job.stop("interrupted", state="interrupted", grace=5.0)

        nursery.start_soon(stopper)
        report = await bench.job.run()
    assert bench.written == [1, 2, 3, 4, 5]
    assert report.cancelled == (6, 7, 8, 9, 10)
    assert (report.state, report.message, report.unread_after) == ("interrupted", "interrupted", "in:10")
    assert report.seconds == pytest.approx(5.5)


async def test_hurry_ends_the_grace(autojump_clock: trio.testing.MockClock) -> None:
    """A second signal cancels live runs at once; a finished result that waits for its turn is still written."""

    async def work(item: Item) -> None:
        if item.ordinal == 2:
            await trio.sleep_forever()

    bench = Bench(4, work, workers=4, ordered=True)
    async with trio.open_nursery() as nursery:

        async def stopper() -> None:
            await trio.sleep(1)
            bench.job.stop("interrupted", grace=1000)
            await trio.sleep(1)
            bench.job.hurry()

        nursery.start_soon(stopper)
        report = await bench.job.run()
    assert bench.written == [1, 3, 4]
    assert report.cancelled == (2,)
    assert report.seconds == pytest.approx(2)


async def test_a_stop_wakes_a_reader_that_waits_for_input(autojump_clock: trio.testing.MockClock) -> None:
    """A job at an idle pipe ends when it is stopped."""

    async def silent() -> AsyncIterator[Item | Unreadable]:
        yield Item(1, "in:1", {"text": "1"})
        await trio.sleep_forever()

    bench = Bench(0, shorter_later, workers=3)
    bench.job._items = silent()
    async with trio.open_nursery() as nursery:

        async def stopper() -> None:
            await trio.sleep(60)
            bench.job.stop("interrupted")

        nursery.start_soon(stopper)
        report = await bench.job.run()
    assert (report.done, report.cancelled, report.unread_after) == (1, (), "in:1")


async def test_fail_fast_stops_at_the_first_failure(autojump_clock: trio.testing.MockClock) -> None:
    """Under `fail_fast` the first failed item cancels the others and is the message."""
    bench = Bench(100, shorter_later, workers=4, fail_fast=True)
    bench.failing = frozenset({3})
    report = await bench.job.run()
    assert report.failed == 1
    assert report.state == "failed"
    assert report.message.startswith("an item failed: in:3")
    assert bench.live == 0
    assert report.done + report.failed + len(report.cancelled) < 12


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_broken_output_stops_the_job(autojump_clock: trio.testing.MockClock, ordered: bool) -> None:
    """A full disk ends the job with one message; what could not be written is not counted as done."""
    bench = Bench(50, shorter_later, workers=4, ordered=ordered)
    bench.output_breaks_at = 9
    report = await bench.job.run()
    assert report.message == "out: no space left on device"
    assert 9 in report.cancelled
    assert 9 not in bench.written
    assert report.state == "failed"


async def test_cancelling_a_job_at_every_step_loses_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whenever a job is stopped, done plus cancelled is what was taken, and done is what was written."""
    for step in range(60):
        bench = Bench(25, shorter_later, workers=3, ordered=step % 2 == 1)
        async with trio.open_nursery() as nursery:

            async def stopper(step: int = step, bench: Bench = bench) -> None:
                await trio.sleep(step * 0.7)
                bench.job.stop("enough")

            nursery.start_soon(stopper)
            report = await bench.job.run()
            nursery.cancel_scope.cancel()
        assert report.done == len(bench.written) == len(set(bench.written))
        assert report.done + len(report.cancelled) == bench.job.taken
        assert not set(bench.written) & set(report.cancelled)
        assert bench.live == 0


async def test_an_input_without_a_readable_item_is_refused() -> None:
    """Nothing starts when the head of the input is unreadable, empty, or does not fit the template."""
    template = Template("{text}")
    with pytest.raises(InputError, match="the input is empty"):
        await peek(numbers(0), template)
    with pytest.raises(InputError, match=r"^in:1:7: not valid JSON$"):
        await peek(numbers(1, frozenset({1})), template)
    with pytest.raises(InputError, match=f"none of the first {PEEK} items can be read; the first: in:1:7"):
        await peek(numbers(100, frozenset(range(1, 50))), template)
    with pytest.raises(TemplateError, match=r"in:1: the prompt names \{title\}"):
        await peek(numbers(3), Template("{title}"))
    items = numbers(4, frozenset({1, 2}))
    head = await peek(items, template)
    assert [item.ordinal for item in head] == [1, 2, 3]
    assert [item.ordinal async for item in chain(head, items)] == [1, 2, 3, 4]


def feed(fuse: Fuse, *errors: ModelError) -> list[str | None]:
    return [fuse.failed(error) for error in errors]


def test_a_wrong_key_stops_at_once() -> None:
    """A refusal that every request would get needs no second one."""
    (message,) = feed(Fuse(64), Refused("the key is not valid", status=401, endpoint_fault=True))
    assert message == "the backend refuses every request: the key is not valid"


def test_an_unreachable_backend_stops_after_a_few() -> None:
    """Three failed tries in a row, retries counted, stop a job that never got an answer; other errors do not count."""
    down = Unavailable("connection refused", worked=False)
    fuse = Fuse(64)
    assert feed(fuse, down, TooLarge("too large"), Overloaded("busy")) == [None, None, None]
    assert "connection refused (3 runs in a row" in str(feed(fuse, down)[0])
    assert feed(Fuse(64, attempts=6), down) == ["the backend cannot be used: connection refused"]


def test_one_outage_under_way_does_not_stop_a_job() -> None:
    """Once calls were answered, one failure per worker and a few more are needed."""
    down = Unavailable("connection refused")
    fuse = Fuse(8)
    fuse.succeeded()
    assert feed(fuse, *[down] * 10) == [None] * 10
    fuse.succeeded()
    assert feed(fuse, *[down] * 11)[-1] is not None


def test_the_same_refusal_in_a_row_stops_only_a_job_without_success() -> None:
    """An unknown model refuses everything; later refusals concern single inputs."""
    no_model = Refused("no such model", status=404)
    assert feed(Fuse(8), *[no_model] * 5)[-1] is not None
    assert feed(Fuse(8), *[no_model, Refused("bad", status=400)] * 20) == [None] * 40
    fuse = Fuse(8)
    fuse.succeeded()
    assert feed(fuse, *[no_model] * 20) == [None] * 20


def test_a_job_needs_a_worker() -> None:
    """No workers is refused, not waited for."""
    refused: AbstractContextManager[object] = pytest.raises(InputError, match="workers")
    with refused:
        Bench(1, shorter_later, workers=0)
