"""A whole screen that is drawn again and again: the terminal's other screen, its size, its keys, and back.

Nothing is drawn but in `draw`, and the terminal is given back as it was found whatever ends the block, and while the
process is stopped with Ctrl-Z.
"""

import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import trio
from rich.console import Console
from rich.live import Live
from rich.text import Text

from orchestrator.cli.top_cells import ASCII, UNICODE, Glyphs

Lines = Callable[[int, int, Glyphs], Sequence[Text]]
"""What to draw on so many columns and rows."""

QUIT = frozenset(b"qQ\x03\x04")
"""Keys that end it; Ctrl-C comes as a signal, except where the terminal does not make one of it."""


def glyphs_of(console: Console) -> Glyphs:
    """What this terminal can show."""
    return ASCII if console.options.ascii_only else UNICODE


def page(lines: Sequence[Text]) -> Text:
    """Lines as one text that is never wrapped."""
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines)


class Screen:
    """One terminal. Use as a context manager; `draw` within it."""

    def __init__(self, console: Console, lines: Lines) -> None:
        self._console = console
        self._lines = lines
        self._live: Live | None = None
        self._modes: list[Any] | None = None
        self._keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None

    @contextmanager
    def on(self) -> Generator[None, None, None]:
        """The screen is ours inside the block."""
        self._take()
        try:
            yield
        finally:
            self._give_back()

    def draw(self) -> None:
        """Draws what there is now, in the terminal's size now."""
        if self._live is not None:
            width, height = self._console.size
            self._live.update(page(self._lines(width, height, glyphs_of(self._console))), refresh=True)

    async def watch(self, quit: Callable[[], None], press: Callable[[str], None] = lambda key: None) -> None:
        """Draws again when the size changes, calls `quit` for its keys and `press` for others, and lets go while the
        process is stopped.
        """
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(signal.SIGWINCH, signal.SIGTSTP) as signals:
                if self._keys is not None:
                    nursery.start_soon(self._read_keys, self._keys, quit, press)
                await self._obey(signals)

    async def _obey(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            if number == signal.SIGTSTP:
                self._give_back()
                os.kill(os.getpid(), signal.SIGSTOP)
                self._take()
            self.draw()

    async def _read_keys(self, keys: int, quit: Callable[[], None], press: Callable[[str], None]) -> None:
        while True:
            await trio.lowlevel.wait_readable(keys)
            pressed = os.read(keys, 64)
            if not pressed:
                return
            if QUIT & set(pressed):
                quit()
            else:
                for key in pressed.decode("ascii", "ignore"):
                    press(key)
                self.draw()

    def _take(self) -> None:
        if self._keys is not None:
            self._modes = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _give_back(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._keys is not None and self._modes is not None:
            termios.tcsetattr(self._keys, termios.TCSANOW, self._modes)
            self._modes = None
