"""Runs that do what a test says, behind the port a job service needs, and a service over them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from agents.budget import Scope
from agents.lifecycle import State, StopReason
from agents.messages import Usage
from agents.port import ModelPort
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue, Target
from orchestrator.jobs.record import JobLine
from orchestrator.jobs.service import JobService
from orchestrator.views.jobs import InputLine, JobRequest, JobView
from orchestrator.views.runs import RunRequest

CATALOGUE = Catalogue(models={"m": [Target("b", "m")]}, default_model="m")
PATIENCE = 60.0
"""Seconds after which a test that waits for something has failed; never reached when it passes."""

REQUEST = JobRequest(prompt="say {text}", job="j")

Answer = Callable[[RunRequest], Awaitable[RunResult]]


class FakeRuns:
    """Runs whose result comes from `answer`; remembers every request."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or instantly
        self.cancelled: list[str] = []
        self.charged: list[str] = []
        self.asked: list[RunRequest] = []
        self.budgets: list[Scope | None] = []
        self.live = self.most = 0

    async def run_to_end(
        self,
        request: RunRequest,
        *,
        budget: Scope | None = None,
        agent: AgentSpec | None = None,
        through: Callable[[ModelPort], ModelPort] = lambda port: port,
    ) -> RunResult:
        self.asked.append(request)
        self.budgets.append(budget)
        self.live += 1
        self.most = max(self.most, self.live)
        try:
            return await self.answer(request)
        finally:
            self.live -= 1

    async def charge(self, budget: Scope, runs: Iterable[str], *, tenant: str, job: str) -> None:
        await trio.lowlevel.checkpoint()
        self.charged += runs

    async def cancel(self, run: str) -> None:
        await trio.lowlevel.checkpoint()
        self.cancelled.append(run)


class LoggedRuns(FakeRuns):
    """Runs whose ends outlive the service, as those of a store do: who has ended is not run again."""

    def __init__(self, answer: Answer | None = None) -> None:
        super().__init__(answer)
        self.ended: dict[str, RunResult] = {}
        self.ran: list[str] = []

    async def run_to_end(self, request: RunRequest, **given: Any) -> RunResult:
        if request.run in self.ended:
            await trio.lowlevel.checkpoint()
            return self.ended[request.run]
        self.ran.append(request.run)
        result = await super().run_to_end(request, **given)
        self.ended[request.run] = result
        return result


async def instantly(request: RunRequest) -> RunResult:
    await trio.lowlevel.checkpoint()
    return ended(request)


async def never(request: RunRequest) -> RunResult:
    await trio.sleep_forever()
    raise AssertionError


def ended(request: RunRequest, reason: StopReason = StopReason.FINAL_ANSWER, **fields: Any) -> RunResult:
    """How a run ended that said its own task in capitals."""
    ok = reason is StopReason.FINAL_ANSWER
    return RunResult(
        run=request.run,
        agent="plain",
        reason=reason,
        state=State.COMPLETED if ok else State.FAILED,
        answer=request.task.upper() if ok else "",
        message="" if ok else "it went wrong",
        usage=Usage(10, output=5),
        rounds=1,
        **fields,
    )


def task(request: RunRequest) -> int:
    """The number in an input made by `lines`."""
    return int(request.task.rpartition(" ")[2])


def lines(numbers: Iterable[int]) -> bytes:
    """Inputs whose text is a number."""
    return b"".join(msgspec.json.encode(InputLine(f"in:{n}", {"text": str(n)})) + b"\n" for n in numbers)


async def pieces(*parts: bytes) -> AsyncGenerator[bytes, None]:
    """A body in parts."""
    for part in parts:
        await trio.lowlevel.checkpoint()
        yield part


async def upload(service: JobService, job: str, data: bytes) -> JobView:
    return await service.upload(job, service.view(job).upload_offset, pieces(data))


async def feed(service: JobService, job: str, data: bytes) -> JobView:
    """Uploads everything there is."""
    await upload(service, job, data)
    return await service.complete(job)


async def until_ended(service: JobService, job: str) -> JobView:
    with trio.fail_after(PATIENCE):
        views = [view async for view in service.watch(job)]
    return views[-1]


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110 -- what is waited for is seen from outside only
            await trio.sleep(0.001)


async def read(service: JobService, job: str, offset: int = 0, *, follow: bool = False) -> list[JobLine]:
    data = b"".join([piece async for piece in service.results(job, offset, follow=follow)])
    assert not data or data.endswith(b"\n")
    return decode(data)


def decode(data: bytes) -> list[JobLine]:
    return [msgspec.json.decode(line, type=JobLine) for line in data.splitlines()]


def last(results: Sequence[JobLine]) -> dict[int, JobLine]:
    """The line of each ordinal that counts."""
    return {line.ordinal: line for line in results}


@asynccontextmanager
async def serving(data_dir: Path, runs: FakeRuns | None = None, **options: Any) -> AsyncGenerator[JobService, None]:
    """A service that ends with the block: what is live is interrupted."""
    options.setdefault("catalogue", lambda: CATALOGUE)
    async with trio.open_nursery() as nursery:
        service = JobService(nursery, data_dir, runs=runs or FakeRuns(), **options)
        await service.open()
        yield service
        service.close(0)
