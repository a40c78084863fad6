"""A process from outside, once a second: its memory, its file descriptors, its threads (proc(5))."""

import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MEGABYTE: Final = 1 << 20


class Sample(Struct, frozen=True):
    """One look: `at` on trio's clock, `memory` resident in bytes."""

    at: float
    memory: int
    descriptors: int
    threads: int


class Trend(Struct, frozen=True):
    """Medians over the second and the last quarter of the samples: the first quarter warms up."""

    early: float
    late: float

    @property
    def growth(self) -> float:
        """Late in early's units."""
        return self.late / self.early if self.early else 1.0


def look(pid: int, at: float) -> Sample:
    """The process now. Raises `OSError` where it is gone."""
    proc = Path("/proc") / str(pid)
    memory = int((proc / "statm").read_text().split()[1]) * PAGE
    return Sample(at, memory, len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())))


def trend(samples: Sequence[Sample], of: Callable[[Sample], float]) -> Trend:
    """How a figure went; by at least four samples."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return Trend(statistics.median(map(of, early)), statistics.median(map(of, late)))


async def watch(pid: int, samples: list[Sample]) -> None:
    """Looks once a second, until cancelled or the process is gone."""
    while True:
        try:
            samples.append(look(pid, trio.current_time()))
        except OSError:
            return
        await trio.sleep(1.0)
