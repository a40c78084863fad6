"""A job: one prompt template over a stream of inputs, each item one run, a bounded number of them live.

Workers are long-lived tasks that take the next item when they have ended one, so memory does not grow with the input:
what is held is one item and one run per worker, and in `ordered` mode a window of results that wait for an earlier
one. A result is written as soon as its run has ended, in order of completion or of input.

A job stops early when `stop` is called (a signal, an item that failed under `fail_fast`, a hopeless backend): nothing
new is read, live runs have `grace` seconds to end, then they are cancelled. Every item is accounted for at the end:
done, failed, cancelled, or not read.
"""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal

import msgspec
import trio
from msgspec import Struct

from agents.messages import Usage
from orchestrator.jobs.inputs import InputError, Item, Unreadable
from orchestrator.jobs.outputs import OutputError
from orchestrator.jobs.template import Template, TemplateError

PEEK = 20
"""Unreadable items in a row, at the start, after which the input as a whole is refused."""

ERRORS_KEPT = 10
WINDOW = 4  # results that wait for an earlier one, per worker

JobState = Literal["done", "failed", "stopped", "interrupted"]


class ItemResult(Struct, frozen=True, omit_defaults=True):
    """One line of the output. `reason` is the run's stop reason, or `invalid_input` for an item that never ran.

    `value` is the answer, or what there was of it; `seconds` counts from when a worker took the item.
    """

    ordinal: int
    origin: str
    state: Literal["done", "failed"]
    reason: str
    value: str = ""
    error: str = ""
    rounds: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0

    def line(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"


def item_failed(result: ItemResult) -> str:
    """Why a job ends that ends with its first failure."""
    return f"an item failed: {result.origin}: {result.error or result.reason}"


class JobSpec(Struct, frozen=True):
    """What a job does with its inputs. `workers` bounds the live runs."""

    name: str
    template: Template
    workers: int = 64
    ordered: bool = False
    fail_fast: bool = False


class JobReport(Struct, frozen=True):
    """How a job ended. `cancelled` are ordinals that were begun and not finished (never more than workers).

    `unread_after` is the origin of the last item taken, if the input went on behind it, else empty.
    """

    job: str
    state: JobState
    message: str
    done: int
    failed: int
    cancelled: tuple[int, ...]
    unread_after: str
    failures: dict[str, int]
    errors: tuple[str, ...]
    usage: Usage
    seconds: float


RunItem = Callable[[Item, str], Awaitable[ItemResult]]
"""Runs one item with its prompt to an end. It returns failures and raises nothing but cancellation."""

WriteResult = Callable[[ItemResult], Awaitable[None]]


class Job:
    """One job. Call `run` once; `stop`, `hurry` and the counters may be used while it runs."""

    def __init__(
        self, spec: JobSpec, items: AsyncIterator[Item | Unreadable], run: RunItem, write: WriteResult
    ) -> None:
        if spec.workers < 1:
            raise InputError("workers: a job needs at least one")
        self.spec = spec
        self.taken = 0
        self.done = self.failed = 0
        self.ended = False
        self.stopping = ""
        self.usage = Usage()
        self._state: JobState = "done"
        self._items = items
        self._run = run
        self._write = write
        self._live: dict[int, str] = {}
        self._last_origin = ""
        self._failures: Counter[str] = Counter()
        self._errors: list[str] = []
        self._turn = trio.Lock()
        self._writing = trio.Lock()
        self._reading = trio.CancelScope()
        self._working = trio.CancelScope()
        self._window = _Window(WINDOW * spec.workers) if spec.ordered else None

    def __repr__(self) -> str:
        return f"<Job {self.spec.name}: {self.done} done, {self.failed} failed, {self.live} live>"

    @property
    def live(self) -> int:
        """Items taken and not yet ended."""
        return len(self._live)

    def stop(self, message: str, *, state: JobState = "stopped", grace: float = 0.0) -> None:
        """Reads nothing more and gives live runs `grace` seconds. The first call's message stands."""
        if not self.stopping:
            self.stopping, self._state = message, state
        self._reading.cancel()
        self._working.deadline = min(self._working.deadline, trio.current_time() + grace)

    def hurry(self) -> None:
        """Cancels live runs at once."""
        self._working.cancel()

    async def run(self) -> JobReport:
        """Works until the input has ended or the job was stopped."""
        began = trio.current_time()
        with self._working:
            async with trio.open_nursery() as nursery:
                for _ in range(self.spec.workers):
                    nursery.start_soon(self._worker)
        if self._window is not None:
            await self._write_all(self._window.rest())
        return self._report(trio.current_time() - began)

    async def _worker(self) -> None:
        while (item := await self._take()) is not None:
            began = trio.current_time()
            result = await self._process(item)
            result = msgspec.structs.replace(result, seconds=round(trio.current_time() - began, 6))
            with trio.CancelScope(shield=True):
                await self._finish(result)

    async def _take(self) -> Item | Unreadable | None:
        """The next item, or None when there is none or the job stops."""
        async with self._turn:
            if self.ended or self.stopping:
                return None
            with trio.CancelScope() as self._reading:
                if self._window is not None:
                    await self._window.room(self.taken + 1)
                try:
                    item = await anext(self._items)
                except StopAsyncIteration:
                    self.ended = True
                    return None
                self.taken += 1
                self._live[item.ordinal] = self._last_origin = item.origin
                return item
        return None

    async def _process(self, item: Item | Unreadable) -> ItemResult:
        if isinstance(item, Unreadable):
            return ItemResult(item.ordinal, item.origin, "failed", "invalid_input", error=item.problem)
        try:
            prompt = self.spec.template.fill(item.fields, item.origin)
        except TemplateError as error:
            problem = error.message.removeprefix(f"{item.origin}: ")
            return ItemResult(item.ordinal, item.origin, "failed", "invalid_input", error=problem)
        return await self._run(item, prompt)

    async def _finish(self, result: ItemResult) -> None:
        if not await self._emit(result):
            return
        del self._live[result.ordinal]
        self.usage += result.usage
        if result.state == "done":
            self.done += 1
            return
        self.failed += 1
        self._failures[result.reason] += 1
        if len(self._errors) < ERRORS_KEPT:
            self._errors.append(f"{result.origin}: {result.error or result.reason}")
        if self.spec.fail_fast:
            self.stop(item_failed(result), state="failed")

    async def _emit(self, result: ItemResult) -> bool:
        """Writes the result, or keeps it for its turn; False if the output is broken, which stops the job."""
        if self._window is None:
            return await self._write_all([result])
        async with self._writing:  # or a later result would overtake the one that released it
            return await self._write_all(self._window.add(result))

    async def _write_all(self, results: Sequence[ItemResult]) -> bool:
        try:
            for result in results:
                await self._write(result)
        except OutputError as error:
            self.stop(error.message, state="failed")
            return False
        return True

    def _report(self, seconds: float) -> JobReport:
        state = self._state
        if state == "done" and self.failed:
            state = "failed"
        return JobReport(
            job=self.spec.name,
            state=state,
            message=self.stopping,
            done=self.done,
            failed=self.failed,
            cancelled=tuple(sorted(self._live)),
            unread_after="" if self.ended else self._last_origin,
            failures=dict(self._failures),
            errors=tuple(self._errors),
            usage=self.usage,
            seconds=seconds,
        )


class _Window:
    """Results waiting for an earlier one, so that they leave in order of ordinal, at most `size` behind the first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._next = 1
        self._held: dict[int, ItemResult] = {}
        self._moved = trio.Event()

    async def room(self, ordinal: int) -> None:
        """Waits until an item of this ordinal may start."""
        while ordinal >= self._next + self._size:
            await self._moved.wait()

    def add(self, result: ItemResult) -> list[ItemResult]:
        """What may be written now."""
        self._held[result.ordinal] = result
        ready: list[ItemResult] = []
        while self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next += 1
        if ready:
            self._moved.set()
            self._moved = trio.Event()
        return ready

    def rest(self) -> list[ItemResult]:
        """Everything that still waits, in order; the gaps are items that were cancelled."""
        return [self._held.pop(ordinal) for ordinal in sorted(self._held)]


async def peek(items: AsyncIterator[Item | Unreadable], template: Template) -> Sequence[Item | Unreadable]:
    """Reads up to the first readable item and checks the template with it. Raises `InputError`, `TemplateError`.

    Returns what was read. An input without a readable item among its first `PEEK` is refused as a whole.
    """
    head: list[Item | Unreadable] = []
    async for item in items:
        head.append(item)
        if isinstance(item, Item):
            template.check(item.fields, item.origin)
            return head
        if len(head) == PEEK:
            break
    if not head:
        raise InputError("the input is empty: it has no items")
    first = head[0]
    assert isinstance(first, Unreadable)
    if len(head) == 1:
        raise InputError(first.message)
    many = f"none of the first {PEEK}" if len(head) == PEEK else f"none of the {len(head)}"
    raise InputError(f"{many} items can be read; the first: {first.message}")


async def chain(
    head: Sequence[Item | Unreadable], items: AsyncIterator[Item | Unreadable]
) -> AsyncGenerator[Item | Unreadable, None]:
    """What was peeked at, then the rest."""
    for item in head:
        yield item
    async for item in items:
        yield item
