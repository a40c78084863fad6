"""What it costs that runs survive: durable appends, the agents' path over a durable store, resuming after a kill.

Three parts, each a ratio against a baseline in the same run: see `bench.durable_appends`, `bench.durable_path` and
`bench.durable_resume`. All depend on what a sync costs where the files lie, so that is measured and said as well: the
dearer it is, the more grouping gains, and on a file system in memory it gains nothing.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from bench.durable_appends import ALONE, APPENDERS, APPENDS, AppendsReport, measure_appends
from bench.durable_disk import Disk, look_at
from bench.durable_path import AGENTS, PathResult, measure_path
from bench.durable_resume import RUNS, ResumeResult, measure_resume

PARTS: Final = ("appends", "path", "resume")


class DurableReport(Struct, frozen=True):
    """What was measured; None for a part that was not asked for."""

    disk: Disk
    appends: AppendsReport | None
    path: list[PathResult] | None
    resume: ResumeResult | None


class Sizes(Struct, frozen=True, kw_only=True):
    """How much is measured. `repeats` are those of the first two parts, `kills` those of the last."""

    appenders: tuple[int, ...] = APPENDERS
    appends: int = APPENDS
    alone: int = ALONE
    agents: tuple[int, ...] = AGENTS
    runs: int = RUNS
    repeats: int = 5
    kills: int = 3


WHOLE: Final = Sizes()
QUICK: Final = Sizes(appenders=(1, 64, 1_000), appends=5_000, alone=300, agents=(300,), runs=1_000, repeats=3, kills=1)


def measure_durable(
    sizes: Sizes = WHOLE,
    *,
    folder: Path,
    parts: Collection[str] = PARTS,
    on_progress: Callable[[str], None] = lambda line: None,
) -> DurableReport:
    """Every part that is asked for. Files go below `folder` and are removed. Blocks; bounded, no sockets.

    Raises `NotStarted`, `OSError`, `StoreError`.
    """
    disk = look_at(folder)
    on_progress(f"{folder} is on {disk.file_system}: a sync costs {disk.sync_us:.0f} us at present")
    appends, path, resume = None, None, None
    if "appends" in parts:
        appends = measure_appends(
            sizes.appenders,
            folder=folder,
            appends=sizes.appends,
            alone=sizes.alone,
            repeats=sizes.repeats,
            on_progress=on_progress,
        )
    if "path" in parts:
        path = measure_path(sizes.agents, folder=folder, repeats=sizes.repeats, on_progress=on_progress)
    if "resume" in parts:
        resume = measure_resume(sizes.runs, folder=folder, repeats=sizes.kills, on_progress=on_progress)
    return DurableReport(disk, appends, path, resume)
