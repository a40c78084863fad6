"""A soak: a provider, a daemon, load for a while, the end of all of it, and what that came to."""

import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import httpx2
import trio
from msgspec import Struct

from bench.processes import HEADRACE, STARTS_WITHIN, NotStarted, running
from bench.soak.plan import Plan
from bench.soak.watch import MEGABYTE, Sample, Trend, look, trend, watch
from bench.soak.work import Agents, Call, People, Tally
from orchestrator.client.client import Client, open_client

ENDS_WITHIN: Final = 300.0
"""Seconds in which what is live must end once nothing new comes."""
GROWS: Final = 1.05
"""A figure that is more than this in the last quarter, against the second, has grown."""
LEAST_GROWTH: Final = 8.0
"""Megabytes of growth that the allocator may take without it being a leak."""
SLOWS: Final = 1.5


class SoakResult(Struct, frozen=True, kw_only=True):
    """What was seen. Memory in megabytes, latencies of HTTP clients in seconds. Without `problems` all is well."""

    seconds: float
    live_agents: int
    runs: int
    calls: int
    refused: int
    left: int
    calls_per_second: float
    memory: Trend
    descriptors: Trend
    threads: Trend
    p50: Trend
    p99: Trend
    descriptors_before: int
    descriptors_after: int
    problems: tuple[str, ...]


def measure_soak(plan: Plan, *, on_progress: Callable[[str], None] = lambda line: None) -> SoakResult:
    """Runs it. Blocks; loopback only, bounded by the plan. Raises `NotStarted`."""
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as name:
        folder = Path(name)
        arguments = ["-m", "bench.soak.provider", str(plan.rpm)]
        with running(arguments, r"serves (http://\S+)", Path.cwd()) as provider:
            (folder / "headrace.toml").write_text(plan.file(provider))
            return _with_daemon(plan, folder, on_progress)


def _with_daemon(plan: Plan, folder: Path, on_progress: Callable[[str], None]) -> SoakResult:
    command = [sys.executable, *HEADRACE, "serve", "--config", "headrace.toml", "--data-dir", "data", "--port", "0"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([*command, "--log-level", "warning"], cwd=folder, stdout=log, stderr=log)
    try:
        url = _address(daemon, folder / "log")
        result = trio.run(_soak, plan, url, daemon.pid, on_progress)
        daemon.send_signal(signal.SIGTERM)
        problems = list(result.problems)
        if (code := daemon.wait(STARTS_WITHIN)) != 0:
            problems.append(f"the daemon ended with {code}")
        said = (folder / "log").read_text(errors="replace")
        problems += [f"the daemon said: {line[:300]}" for line in said.splitlines() if "Traceback" in line]
        return SoakResult(**{**{f: getattr(result, f) for f in result.__struct_fields__}, "problems": tuple(problems)})
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()


def _address(daemon: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + STARTS_WITHIN
    while (found := re.search(r"serves (http://[^\s,]+)", log.read_text(errors="replace"))) is None:
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise NotStarted(f"the daemon did not start; it said:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
    return found[1].rstrip("/")


async def _soak(plan: Plan, url: str, pid: int, on_progress: Callable[[str], None]) -> SoakResult:
    tally, samples = Tally(), list[Sample]()
    limits = httpx2.Limits(max_connections=plan.clients, max_keepalive_connections=plan.clients)
    async with open_client(url) as client, httpx2.AsyncClient(limits=limits, timeout=None) as http:
        before = look(pid, trio.current_time())
        agents, people = Agents(client, tally, plan.agents), People(url, tally)
        began = trio.current_time()
        steady = began + max(1.0, plan.warm_up)
        until = began + plan.warm_up + plan.seconds
        async with trio.open_nursery() as around:
            around.start_soon(watch, pid, samples)
            around.start_soon(_tell, tally, samples, plan, on_progress)
            async with trio.open_nursery() as load:
                load.start_soon(agents.keep)
                async with trio.open_nursery() as clients:
                    for number in range(plan.clients):
                        clients.start_soon(people.one, http, number, until)
                    await trio.sleep_until(until)
                load.cancel_scope.cancel()
            loaded = [sample for sample in samples if steady <= sample.at <= until]
            await _all_ended(client, agents, tally)
            around.cancel_scope.cancel()
        await http.aclose()
        await trio.sleep(1.0)
        after = look(pid, trio.current_time())
    tally.answered = [call for call in tally.answered if call.at >= began + plan.warm_up]
    return _judged(plan, tally, loaded, before, after, plan.seconds)


async def _tell(tally: Tally, samples: Sequence[Sample], plan: Plan, on_progress: Callable[[str], None]) -> None:
    began = trio.current_time()
    while True:
        await trio.sleep(max(5.0, (plan.warm_up + plan.seconds) / 20))
        last, live = samples[-1], tally.live[-1] if tally.live else 0
        on_progress(
            f"{trio.current_time() - began:.0f} s: {len(tally.answered):,} calls answered, {live:,} agents live,"
            f" {last.memory / MEGABYTE:.0f} MB, {last.descriptors:,} descriptors, {len(tally.broken)} problems"
        )


async def _all_ended(client: Client, agents: Agents, tally: Tally) -> None:
    """Waits until nothing is live, and counts what became of it."""
    with trio.move_on_after(ENDS_WITHIN):
        while await agents.live():  # noqa: ASYNC110 - the daemon cannot call back
            await trio.sleep(1.0)
    states = await client.runs(tenant="agents", size=1)
    done = await client.runs(observed=("done",), tenant="agents", size=1)
    if states.total != tally.started:
        tally.broken.append(f"{tally.started} runs were started, and the daemon knows {states.total}")
    if done.total != tally.started:
        tally.broken.append(f"of {tally.started} runs {done.total} ended with an answer")
    queue = await client.queue()
    for backend in queue.backends:
        held = [endpoint.name for endpoint in backend.endpoints if endpoint.in_flight]
        if backend.queued or held:
            tally.broken.append(f"backend {backend.name} still has calls when all have ended")


def _judged(
    plan: Plan, tally: Tally, loaded: list[Sample], before: Sample, after: Sample, seconds: float
) -> SoakResult:
    memory = trend(loaded, lambda sample: sample.memory / MEGABYTE)
    descriptors = trend(loaded, lambda sample: sample.descriptors)
    half = len(tally.answered) // 4
    calls = sorted(tally.answered, key=lambda call: call.at)
    early, late = calls[half : 2 * half], calls[-half:]
    p50, p99 = (
        Trend(_percentile(early, 50), _percentile(late, 50)),
        Trend(_percentile(early, 99), _percentile(late, 99)),
    )
    problems = list(tally.broken)
    if memory.growth > GROWS and memory.late - memory.early > LEAST_GROWTH:
        problems.append(f"memory grew from {memory.early:.0f} to {memory.late:.0f} MB")
    if descriptors.late > descriptors.early * GROWS + 8:
        problems.append(f"file descriptors grew from {descriptors.early:.0f} to {descriptors.late:.0f}")
    # connections to the provider stay, one for each call that was in flight at a time; those of clients do not
    if after.descriptors > descriptors.late:
        problems.append(
            f"{after.descriptors} file descriptors are open when all is over, {descriptors.late} under load"
        )
    if p50.growth > SLOWS:
        problems.append(f"the median latency rose from {p50.early:.2f} to {p50.late:.2f} s")
    return SoakResult(
        seconds=seconds,
        live_agents=round(statistics.median(tally.live)) if tally.live else 0,
        runs=tally.started,
        calls=len(tally.answered),
        refused=tally.refused,
        left=tally.left,
        calls_per_second=len(tally.answered) / seconds,
        memory=memory,
        descriptors=descriptors,
        threads=trend(loaded, lambda sample: sample.threads),
        p50=p50,
        p99=p99,
        descriptors_before=before.descriptors,
        descriptors_after=after.descriptors,
        problems=tuple(problems),
    )


def _percentile(calls: Sequence[Call], percent: int) -> float:
    if len(calls) < 2:
        return 0.0
    return statistics.quantiles([call.seconds for call in calls], n=100)[percent - 1]
