"""`headrace top`: the live board of a daemon."""

import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.connect import Url, speak, tell
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.top_cells import Glyphs, fit, name_of, span
from orchestrator.cli.top_render import board_lines
from orchestrator.cli.top_screen import Screen, glyphs_of, page
from orchestrator.client import Client
from orchestrator.client_errors import ClientError, DaemonLost, NoDaemon, Refusal
from orchestrator.client_wire import DEFAULT_URL
from orchestrator.views.queue import QueueView

INTERVAL = 1.0
"""Seconds between two looks, and between two tries to find a daemon that is gone."""

PIPE_WIDTH = 160

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
        self._gone_since: float | None = None
        self._why = ""

    def heard(self, view: QueueView) -> None:
        self.view = view
        self._gone_since = None

    def lost(self, error: ClientError) -> bool:
        """Notes that the daemon is gone; True if that is news."""
        news = self._gone_since is None
        if news:
            self._gone_since = trio.current_time()
        self._why = error.message
        return news

    def lines(self, width: int, height: int, glyphs: Glyphs) -> list[Text]:
        """The board in that size, with the age of what it shows if the daemon is gone."""
        gone = ""
        if self._gone_since is not None:
            away = span(trio.current_time() - self._gone_since)
            gone = f"daemon gone, trying again; this is from {away} ago ({self._why})"
        if self.view is None:
            text = gone or f"asking the daemon at {self.url}"
            return [fit(Text(f" {name_of(text)}"), width, glyphs)]
        return board_lines(self.view, width=width, height=height, gone=gone, glyphs=glyphs)


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


async def show_live(views: Views, url: str, console: Console, quit: Callable[[], None]) -> None:
    """Draws the board on the whole screen until cancelled; `quit` is called for the keys that ask for it."""
    board = Board(url)
    screen = Screen(console, board.lines)

    async def redraw() -> None:
        while True:
            screen.draw()
            await trio.sleep(INTERVAL)

    with screen.on():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(redraw)
            nursery.start_soon(screen.watch, quit)
            await follow(views, board, screen.draw, lambda _: screen.draw())


async def print_lines(views: Views, url: str) -> None:
    """Prints views as JSON, a line each, until cancelled."""
    board = Board(url)

    def heard() -> None:
        print_json(board.view)

    await follow(views, board, heard, lambda error: tell(f"daemon gone, trying again: {error.message}"))


async def print_once(views: Views, console: Console, *, json: bool) -> None:
    """Prints one view, whole."""
    async with aclosing(views()) as stream:
        async for view in stream:
            if json:
                print_json(view)
            else:
                console.print(page(board_lines(view, width=console.width, glyphs=glyphs_of(console))))
            return


def top(url: Url = DEFAULT_URL, once: Once = False, json: Lines = False) -> None:
    """Shows live who waits for what: queues, limits, shares, runs.

    On a terminal it redraws itself every second until q or Ctrl-C; in a pipe it prints the board once.

    Per backend: endpoints with their calls in flight, and limits with the part in use. Per tenant: weight (wt), calls
    queued as interactive/standard/batch (q i/s/b) and in flight (live), calls and tokens of the last minute, its share
    of the service beside what its weight asks for among those who wait (due), waits, and what holds its next call.

    Examples:

      headrace top

      headrace top --once

      headrace top --json --once | jq '.backends[].tenants[] | {tenant, oldest_wait, held_by}'
    """
    raise typer.Exit(speak(url, partial(_work, once=once, json=json), interrupted=""))


async def _work(client: Client, ending: SignalEnd, *, once: bool, json: bool) -> int:
    views = partial(_views, client)
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PIPE_WIDTH, markup=False, highlight=False, emoji=False)
    with trio.CancelScope() as scope:
        ending.target = _Stop(scope)
        if once or not (terminal or json):
            await print_once(views, console, json=json)
        elif json:
            await print_lines(views, client.url)
        else:
            await show_live(views, client.url, console, scope.cancel)
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
