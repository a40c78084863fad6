"""`headrace top`: the live board of a daemon."""

import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated, Final

import trio
import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.connect import Url, speak, tell
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.top_cells import Glyphs, fit, name_of, span
from orchestrator.cli.top_render import NO_WORK, board_lines
from orchestrator.cli.top_screen import Screen, glyphs_of, page
from orchestrator.cli.top_work import Work
from orchestrator.client.client import Client
from orchestrator.client.errors import ClientError, DaemonLost, NoDaemon, Refusal
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.queue import QueueView

EXAMPLES: Final = """
\b
A tenant's columns, calls and tokens being those of the last minute:
  wt       weight                 share    its part of the service
  q i/s/b  queued, by priority    due      what that would be by weight, among
  live     in flight                       those who wait in its priority
  call/m   answered calls         mean     wait of the calls sent
  fail/m   failed calls           oldest   wait of the one that waits longest
  tok/m    tokens                 ends in  when its last queued call goes, at this pace
                                  held by  what its next call waits for

\b
Examples:
  headrace top
  headrace top --once | head
  headrace top --json --once | jq '.backends[].tenants[] | {tenant, held_by}'
"""

INTERVAL = 1.0
"""Seconds between two looks, and between two tries to find a daemon that is gone."""

SILENT = 5.0
"""Seconds without a word after which what is shown is called old."""

PIPE_WIDTH = 160

RUNS = 50
"""Runs, and requests of people, that are asked for."""

LIVE: Final = ("pending", "running")

Views = Callable[[], AsyncGenerator[QueueView, None]]
"""One connection's views, now and about once a second, until the daemon ends it or a `ClientError` does."""

Once = Annotated[bool, typer.Option("--once", help="Show the board once and end, as in a pipe.")]
Lines = Annotated[
    bool, typer.Option("--json", help="Print JSON, one document a line and one line a second; with --once just one.")
]


class Board:
    """What was last heard of a daemon. Times are on trio's clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.view: QueueView | None = None
        self.work = Work()
        self.only_work = False
        self._heard_at = 0.0
        self._why = ""

    def heard(self, view: QueueView) -> None:
        self.view = view
        self._heard_at = trio.current_time()
        self._why = ""

    def lost(self, error: ClientError) -> bool:
        """Notes that the daemon is gone; True if that is news."""
        news = not self._why
        self._why = error.message
        return news

    def lines(self, width: int, height: int, glyphs: Glyphs) -> list[Text]:
        """The board in that size, with the age of what it shows if the daemon is gone or silent."""
        if self.view is None:
            return [fit(Text(f" asking the daemon at {name_of(self.url)}"), width, glyphs)]
        gone = ""
        silent = trio.current_time() - self._heard_at
        if self._why:
            gone = f"daemon gone, trying again; this is from {span(silent)} ago: {self._why}"
        elif silent > SILENT:
            gone = f"the daemon says nothing; this is from {span(silent)} ago"
        return board_lines(
            self.view,
            width=width,
            height=height,
            gone=gone,
            glyphs=glyphs,
            work=self.work,
            only_work=self.only_work,
        )

    def press(self, key: str) -> None:
        """A key was pressed: `r` shows runs and jobs alone, and once more the rest beside them."""
        if key in "rR":
            self.only_work = not self.only_work


async def follow(views: Views, board: Board, heard: Callable[[], None], lost: Callable[[ClientError], None]) -> None:
    """Keeps the board up to date for ever. A daemon that was there once is looked for until it is back.

    Raises `ClientError` where there never was one, or where it cannot be understood.
    """
    while True:
        try:
            async with aclosing(views()) as stream:
                async for view in stream:
                    board.heard(view)
                    heard()
            error: ClientError = DaemonLost(f"the daemon at {board.url} ended the stream")
        except (NoDaemon, DaemonLost, Refusal) as refused:
            if board.view is None or (isinstance(refused, Refusal) and not refused.passing):
                raise
            error = refused
        if board.lost(error):
            lost(error)
        await trio.sleep(INTERVAL)


async def show_live(
    views: Views,
    url: str,
    console: Console,
    quit: Callable[[], None],
    work: Callable[[], Awaitable[Work]] | None = None,
) -> None:
    """Draws the board on the whole screen until cancelled; `quit` is called for keys that ask for it, `work` for runs,
    jobs and requests of people.
    """
    board = Board(url)
    screen = Screen(console, board.lines)

    async def redraw() -> None:
        while True:
            screen.draw()
            await trio.sleep(INTERVAL)

    async def look() -> None:
        while work is not None:
            with suppress(ClientError):  # the board says so already
                board.work = await work()
            await trio.sleep(INTERVAL)

    with screen.on():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(redraw)
            nursery.start_soon(look)
            nursery.start_soon(screen.watch, quit, board.press)
            await follow(views, board, screen.draw, lambda _: screen.draw())


async def print_lines(views: Views, url: str) -> None:
    """Prints views as JSON, a line each, until cancelled."""
    board = Board(url)

    def heard() -> None:
        print_json(board.view)

    await follow(views, board, heard, lambda error: tell(f"daemon gone, trying again: {error.message}"))


async def print_once(views: Views, console: Console, *, json: bool, work: Work = NO_WORK) -> None:
    """Prints one view, whole."""
    async with aclosing(views()) as stream:
        async for view in stream:
            if json:
                print_json(view)
            else:
                lines = board_lines(view, width=console.width, glyphs=glyphs_of(console), work=work)
                for line in lines:
                    line.rstrip()
                console.print(page(lines))
            return


def top(url: Url = DEFAULT_URL, once: Once = False, json: Lines = False) -> None:
    """Shows who waits for what, live: queues, limits, shares, runs, jobs, and what people are asked.

    On a terminal the board is drawn again every second, until q or Ctrl-C; r shows runs and jobs alone, and back. In a
    pipe it is printed once.
    """
    raise typer.Exit(speak(url, partial(_work, once=once, json=json), interrupted=""))


async def _work(client: Client, ending: SignalEnd, *, once: bool, json: bool) -> int:
    views = partial(_views, client)
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PIPE_WIDTH, markup=False, highlight=False, emoji=False)
    with trio.CancelScope() as scope:
        ending.target = _Stop(scope)
        if once or not (terminal or json):
            await print_once(views, console, json=json, work=Work() if json else await _work_seen(client))
        elif json:
            await print_lines(views, client.url)
        else:
            await show_live(views, client.url, console, scope.cancel, partial(_work_of, client))
    return DONE


class _Stop:
    """Being stopped is a board's normal end."""

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope

    def end(self, signal_name: str) -> None:
        self._scope.cancel()

    def hurry(self) -> None:
        self._scope.cancel()


async def _views(client: Client) -> AsyncGenerator[QueueView, None]:
    while True:
        yield await client.queue()
        await trio.sleep(INTERVAL)


async def _work_seen(client: Client) -> Work:
    """What a client may see of it: one whose runs are refused still has its queue."""
    with suppress(Refusal):
        return await _work_of(client)
    return NO_WORK


async def _work_of(client: Client) -> Work:
    """What there is to be seen beside the queue: a few runs, the jobs, what people are asked."""
    runs = await client.runs(observed=LIVE, size=RUNS)
    jobs = await client.jobs()
    asked = await client.approvals(size=RUNS)
    return Work(runs.runs, runs.total, jobs.jobs, asked.approvals, time.time())
