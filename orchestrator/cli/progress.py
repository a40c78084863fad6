"""Progress of a job for people: a live line on a terminal, plain lines now and then anywhere else.

What is shown is a `Snapshot`, taken a few times a second by the one who draws; the job itself knows nothing of it.
"""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

import trio
from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

RATE_SECONDS = 30.0
"""The rate is that of the last so many seconds, so that the time left follows a limit that changed."""

LIVE_INTERVAL = 0.2
PLAIN_INTERVAL = 5.0


class Snapshot(Struct, frozen=True):
    """Where a job is. `total` is in items, None while unknown, and an estimate unless `exact`; money in dollars.

    `waiting` and `in_flight` count calls; None where only the `live` runs are known.
    """

    done: int
    failed: int
    live: int
    total: float | None
    exact: bool
    waiting: int | None
    in_flight: int | None
    tokens: int
    cost: float | None
    seconds: float
    note: str = ""

    @property
    def ended(self) -> int:
        return self.done + self.failed


class Rate:
    """Items per second over the last `RATE_SECONDS`."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)])

    def update(self, seconds: float, ended: int) -> float:
        """Notes how many had ended by then and returns the rate."""
        marks = self._marks
        marks.append((seconds, ended))
        while len(marks) > 2 and marks[1][0] <= seconds - RATE_SECONDS:
            marks.popleft()
        span = seconds - marks[0][0]
        return (ended - marks[0][1]) / span if span > 0 else 0.0


class Display(Protocol):
    """Draws snapshots; a context manager, so that a terminal is left as it was found."""

    interval: float

    def show(self, snapshot: Snapshot) -> None: ...

    def say(self, line: str) -> None:
        """Writes a line where it does not run into what is drawn."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


async def watch(
    display: Display, take: Callable[[], Snapshot], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Shows a snapshot every `display.interval` seconds until cancelled."""
    task_status.started()
    while True:
        await trio.sleep(display.interval)
        display.show(take())


class LiveDisplay:
    """A bar and its figures, drawn over themselves. Draws only when told, so it needs no thread."""

    interval = LIVE_INTERVAL

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._rate = Rate()
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        rate = self._rate.update(snapshot.seconds, snapshot.ended)
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=snapshot.total, completed=snapshot.ended, width=30)
        grid.add_row(Text(self._title, style="bold"), bar, Text(count(snapshot)))
        figures = Text(figures_line(snapshot, rate), style="dim", overflow="ellipsis", no_wrap=True)
        self._live.update(Group(grid, figures), refresh=True)

    def say(self, line: str) -> None:
        self._live.console.print(Text.from_ansi(line), soft_wrap=True)


class PlainDisplay:
    """One line every few seconds, for logs and pipes."""

    interval = PLAIN_INTERVAL

    def __init__(self, write: Callable[[str], None], title: str) -> None:
        self._write = write
        self._title = title
        self._rate = Rate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, snapshot: Snapshot) -> None:
        rate = self._rate.update(snapshot.seconds, snapshot.ended)
        self.say(f"{self._title}: {count(snapshot)}, {figures_line(snapshot, rate)}")

    def say(self, line: str) -> None:
        self._write(line)


class NoDisplay(PlainDisplay):
    """Says what it is told to say, and shows nothing."""

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__(write, "")

    def show(self, snapshot: Snapshot) -> None:
        pass


def count(snapshot: Snapshot) -> str:
    """`1,234 of about 100,000 done, 3 failed`."""
    of = ""
    if snapshot.total is not None:
        of = f" of {'' if snapshot.exact else 'about '}{round(snapshot.total):,}"
    failed = f", {snapshot.failed:,} failed" if snapshot.failed else ""
    return f"{snapshot.done:,}{of} done{failed}"


def figures_line(snapshot: Snapshot, rate: float) -> str:
    """Rate, calls waiting and in flight, tokens, cost, time left: what is known of them."""
    parts = [f"{rate:,.1f}/s" if rate < 100 else f"{rate:,.0f}/s"]
    if snapshot.waiting is None or snapshot.in_flight is None:
        parts.append(f"{snapshot.live:,} live")
    else:
        parts.append(f"{snapshot.waiting:,} waiting, {snapshot.in_flight:,} in flight")
    parts.append(f"{short(snapshot.tokens)} tokens")
    if snapshot.cost is not None:
        parts.append(dollars(snapshot.cost))
    if snapshot.total is not None and snapshot.done and rate > 0:
        left = max(0.0, snapshot.total - snapshot.ended) / rate
        parts.append(f"{duration(left)} left")
    if snapshot.note:
        parts.append(snapshot.note)
    return ", ".join(parts)


def short(number: float) -> str:
    """`999`, `12.3k`, `4.5M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0f}"


def dollars(amount: float) -> str:
    """`$0.0042`, `$12.35`: small sums keep their digits."""
    return f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
