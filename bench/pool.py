"""What it costs that runs are driven by worker processes: the same jobs through a daemon with each kind of pool.

A model that answers at once leaves what is around it: here the daemon's own work, the log on its disk and, where
workers drive the runs, three requests over HTTP for each model call and four for each call of a tool. Two figures per
pool, both as ratios to `local` in the same repeat: all runs at once, which is what the daemon's one process can carry,
and one run after another, which is what each run waits for. All processes are on this machine and share its cores.

Known limits: tools do nothing, so that the gain of workers, for tools that keep a processor busy, is not seen; and the
way over the network costs nothing.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from bench.pool_daemon import Measured, Setting, measured, serving

POOLS: Final = ("local", "workers", "ray")
WARM_UP: Final = 20
"""Runs before anything is measured, at most."""
ALONE: Final = 25
"""Runs one after another, at most."""


class PoolResult(Struct, frozen=True):
    """One pool's figures, medians of the repeats. `overhead_ms` is what a run costs more than with `local` where all
    run at once, `added_ms` how much longer one takes by itself.
    """

    pool: str
    runs: int
    calls: int
    runs_per_second: float
    ratio: float
    overhead_ms: float
    alone_ms: float
    added_ms: float


class _Times(Struct):
    """Seconds of each repeat, per run."""

    together: list[float]
    alone: list[float]


def measure_pool(
    pools: Sequence[str] = ("local", "workers"),
    *,
    runs: int = 400,
    calls: int = 3,
    repeats: int = 3,
    at_once: int = 200,
    cluster: str = "",
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[PoolResult]:
    """A result for each of `pools`, of which the first is `local`; `cluster` is the address of Ray's, for `ray`.

    Blocks. Raises `NotStarted`, `ClientError`.
    """
    settings = [Setting(pool=pool, calls=calls, at_once=at_once, address=cluster) for pool in pools]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, ExitStack() as stack:
        urls = [stack.enter_context(serving(setting, Path(folder) / setting.pool)) for setting in settings]
        times = trio.run(partial(_measure, settings, urls, runs, repeats, on_progress))
    return [_result(pool, runs, calls, times[pool], times[pools[0]]) for pool in pools]


async def _measure(
    settings: Sequence[Setting], urls: Sequence[str], runs: int, repeats: int, on_progress: Callable[[str], None]
) -> dict[str, _Times]:
    times = {setting.pool: _Times([], []) for setting in settings}
    async with AsyncExitStack() as stack:
        targets: dict[str, Measured] = {}
        for setting, url in zip(settings, urls, strict=True):
            targets[setting.pool] = await stack.enter_async_context(measured(setting, url))
            await targets[setting.pool].seconds(min(WARM_UP, runs), at_once=WARM_UP)
        at_once, alone = settings[0].at_once, min(ALONE, runs)
        for repeat in range(repeats):
            for pool, target in targets.items():
                times[pool].together.append(await target.seconds(runs, at_once=at_once) / runs)
                times[pool].alone.append(await target.seconds(alone, at_once=1) / alone)
            told = ", ".join(f"{pool} {1 / each.together[-1]:,.0f}" for pool, each in times.items())
            on_progress(f"repeat {repeat + 1}/{repeats}, runs/s: {told}")
    return times


def _result(pool: str, runs: int, calls: int, times: _Times, local: _Times) -> PoolResult:
    together = list(zip(times.together, local.together, strict=True))
    alone = list(zip(times.alone, local.alone, strict=True))
    return PoolResult(
        pool=pool,
        runs=runs,
        calls=calls,
        runs_per_second=1 / statistics.median(times.together),
        ratio=statistics.median(base / own for own, base in together),
        overhead_ms=1000 * statistics.median(own - base for own, base in together),
        alone_ms=1000 * statistics.median(times.alone),
        added_ms=1000 * statistics.median(own - base for own, base in alone),
    )
