"""A daemon for each pool that is measured, with its workers, and the jobs that it is given."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Struct

from bench.processes import HEADRACE, NotStarted, running
from orchestrator.client.client import Client, open_client
from orchestrator.views.jobs import InputLine, JobRequest
from orchestrator.views.runs import AgentChoice

WORKERS: Final = 2
"""Worker processes of a pool that has any."""
THERE_WITHIN: Final = 60.0
"""Seconds for the workers to be there."""

_BACKEND: Final = """
[backends.instant]
kind = "simulated"
concurrency = 1024
tool_rounds = {rounds}
latency = {{ first_token = 0, spread = 0, input_rate = 1e9, output_rate = 1e9, chunk_tokens = 1000 }}
length = {{ tokens = 8, spread = 0 }}

[models.instant]
backends = ["instant"]

[tools.look]
function = "bench.pool_tool:look"
read_only = true

[agents.worker]
model = "instant"
tools = {tools}
"""


class Setting(Struct, frozen=True, kw_only=True):
    """Where a daemon's runs are driven: `local`, `workers`, or `ray` at the address of a cluster. Each has `calls`
    model calls, and a call of a tool between two of them; `at_once` are live.
    """

    pool: str
    calls: int
    at_once: int
    address: str = ""

    def file(self) -> str:
        """The daemon's configuration."""
        pool = {"local": ""}.get(self.pool, f'[pool]\nkind = "{self.pool}"\n')
        if self.pool == "ray":
            pool += f'address = "{self.address}"\nworkers = {WORKERS}\nruns = {self.at_once}\npatience = 30\n'
        tools = '["look"]' if self.calls > 1 else "[]"
        return pool + _BACKEND.format(rounds=max(1, self.calls - 1), tools=tools)


@contextmanager
def serving(setting: Setting, folder: Path) -> Iterator[str]:
    """A daemon and its workers inside the block; its URL. Raises `NotStarted`."""
    folder.mkdir()
    config = folder / "headrace.toml"
    config.write_text(setting.file())
    serve = ["serve", "--config", str(config), "--data-dir", str(folder / "data"), "--port", "0"]
    quiet = ["--drain-seconds", "0", "--log-level", "warning"]
    with ExitStack() as stack:
        url = stack.enter_context(running([*HEADRACE, *serve, *quiet], r"serves (http://[^\s,]+)", folder)).rstrip("/")
        for _ in range(WORKERS if setting.pool == "workers" else 0):
            work = ["worker", "--daemon", url, "--runs", str(setting.at_once)]
            stack.enter_context(running([*HEADRACE, *work], r"drives up to (\d+) runs", folder))
        yield url


class Measured:
    """A daemon at work, asked for jobs."""

    def __init__(self, client: Client, setting: Setting) -> None:
        self._client = client
        self._setting = setting
        self._jobs = 0

    async def until_there(self) -> None:
        """Waits for the workers. Raises `NotStarted` where they do not come."""
        if self._setting.pool == "local":
            return
        with trio.move_on_after(THERE_WITHIN):
            while len((await self._client.workers()).workers) < WORKERS:  # noqa: ASYNC110 -- the daemon cannot call back
                await trio.sleep(0.1)
            return
        raise NotStarted(f"the workers of the pool {self._setting.pool} were not there within {THERE_WITHIN:g} s")

    async def seconds(self, runs: int, *, at_once: int) -> float:
        """How long so many runs take, from the start of their job to its end. Raises `NotStarted` if any fails."""
        self._jobs += 1
        job = f"bench-{self._jobs}"
        lines = [msgspec.json.encode(InputLine(str(n), {"text": f"item {n}"})) + b"\n" for n in range(runs)]
        who = AgentChoice(agent="worker")
        began = trio.current_time()
        await self._client.create_job(JobRequest(prompt="Look at {text}.", who=who, job=job, workers=at_once))
        await self._client.upload(job, 0, b"".join(lines))
        view = await self._client.complete(job)
        async with aclosing(self._client.watch_job(job)) as views:
            async for seen in views:
                view = seen
        if view.done != runs:
            raise NotStarted(f"{view.failed} of {runs} runs failed in the pool {self._setting.pool}: {view.errors}")
        return trio.current_time() - began


@asynccontextmanager
async def measured(setting: Setting, url: str) -> AsyncGenerator[Measured, None]:
    """A client that measures the daemon at `url`, with its workers there."""
    async with open_client(url) as client:
        target = Measured(client, setting)
        await target.until_there()
        yield target
