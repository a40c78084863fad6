"""Runs the systems: each before a provider of its own with the same settings, all side by side in one stretch of time.

Side by side, since limits by the minute need minutes: one after the other, four systems would need four times as long.
What a machine is busy with then falls on all alike. It is not a measure of speed: some ten requests a second in all
leave a core mostly idle.

Known limits: the provider is simulated, so its answers are as fast as it is told; and clients that share a bucket know
each other and the limits to the digit, which programs of different people do not.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from subprocess import PIPE
from typing import Final

import msgspec
import trio

from bench.peers.provider import ask
from bench.peers.report import PeersReport, SystemResult, report, result
from bench.peers.systems import System, headrace, provider
from bench.peers.work import Item, Limits, Plan, Told
from bench.processes import STARTS_WITHIN, NotStarted
from orchestrator.groups import only

_GRACE: Final = 10.0
"""Seconds that a client may take beyond its time."""


def measure_peers(
    systems: Sequence[System],
    limits: Limits,
    items: list[Item],
    *,
    on_progress: Callable[[str], None] = lambda line: None,
) -> PeersReport:
    """Every system with all calls, from one moment on. Blocks for as long as the slowest takes; ends what it starts.

    Raises `NotStarted` if a process does not start, or ends without saying what it saw.
    """
    with ExitStack() as started:
        running = [_start(system, limits, started) for system in systems]
        on_progress(f"{len(items)} calls through each of {', '.join(system.name for system in systems)}")
        try:
            results = trio.run(partial(_measure, running, limits, items, on_progress))
        except BaseExceptionGroup as group:
            raise only(group, NotStarted) or group from None
    return report(limits, items, results)


class _Running:
    """A system that stands: where its clients go, and where its provider tells what it counted."""

    def __init__(self, system: System, url: str, counts: int) -> None:
        self.system = system
        self.url = url
        self.counts = counts


def _start(system: System, limits: Limits, started: ExitStack) -> _Running:
    upstream, counts = started.enter_context(provider(limits, system.port))
    url = (
        started.enter_context(headrace(upstream, limits, told=system.told))
        if system.ours
        else system.gateway or upstream
    )
    return _Running(system, url, counts)


async def _measure(
    running: Sequence[_Running], limits: Limits, items: list[Item], on_progress: Callable[[str], None]
) -> list[SystemResult]:
    clients = [[_Client(plan) for plan in one.system.plans(one.url, items)] for one in running]
    results: dict[str, SystemResult] = {}

    async def finish(one: _Running, its: list[_Client]) -> None:
        told: list[Told] = []
        async with trio.open_nursery() as nursery:
            for client in its:
                nursery.start_soon(client.work, told)
        found = result(one.system.name, one.system.settings, items, told, await ask(one.counts), limits)
        results[found.name] = found
        on_progress(f"{found.name}: {found.last:.1f} s, {found.refused} refused, {found.unanswered} unanswered")

    try:
        async with trio.open_nursery() as nursery:
            for client in [client for its in clients for client in its]:
                nursery.start_soon(client.prepare)
        async with trio.open_nursery() as nursery:
            for one, its in zip(running, clients, strict=True):
                nursery.start_soon(finish, one, its)
    finally:
        for client in [client for its in clients for client in its]:
            await client.aclose()
    return [results[one.system.name] for one in running]


class _Client:
    """One client process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._process: trio.Process | None = None

    async def prepare(self) -> None:
        """Starts it, and waits until it could begin."""
        self._process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "bench.peers.client"], stdin=PIPE, stdout=PIPE
        )
        with trio.move_on_after(STARTS_WITHIN):
            await self._say(msgspec.json.encode(self._plan) + b"\n")
            if await self._line() == b"ready\n":
                return
        raise NotStarted("a client process did not start")

    async def work(self, told: list[Told]) -> None:
        """Lets it do its work, and takes in what it says."""
        with trio.move_on_after(self._plan.within + _GRACE):
            await self._say(b"begin\n")
            if line := await self._line():
                told.append(msgspec.json.decode(line, type=Told))
                return
        raise NotStarted("a client process ended without saying what it saw")

    async def _say(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line)

    async def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        said = b""
        async for part in self._process.stdout:
            said += part
            if said.endswith(b"\n"):
                break
        return said

    async def aclose(self) -> None:
        """Ends the process, if it has not ended."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.kill()
        with trio.CancelScope(shield=True):
            await self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    await pipe.aclose()
