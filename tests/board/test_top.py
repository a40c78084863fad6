"""`headrace top`: what it does when the daemon goes, in a pipe, and on a terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from fcntl import ioctl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from struct import pack

import msgspec
import pytest
import trio
import trio.testing
from msgspec.structs import replace

from orchestrator.cli.top import INTERVAL, Board, follow
from orchestrator.cli.top_cells import UNICODE
from orchestrator.client.errors import BadAnswer, ClientError, DaemonLost, NoDaemon, Refusal
from orchestrator.views.approvals import ApprovalList
from orchestrator.views.jobs import JobList
from orchestrator.views.queue import QueueView
from orchestrator.views.runs import RunPage
from tests.board.busy import BUSY
from tests.board.working import ASKED, JOB, RUN

SECONDS = 20.0
COMMAND = (sys.executable, "-c", "import typer; from orchestrator.cli.top import top; typer.run(top)")

SAYS = {
    "/api/queue": BUSY,
    "/api/runs": RunPage(runs=(RUN,), next="", total=1, states={}),
    "/api/jobs": JobList(jobs=(JOB,)),
    "/api/approvals": ApprovalList(approvals=(ASKED,), total=1),
}

TAKE_TERMINAL = "import os; os.close(os.open(os.ttyname(0), os.O_RDWR))"
"""The first terminal that a session's leader opens becomes the session's, and its signals go there."""


def screen(board: Board) -> str:
    return "\n".join(line.plain for line in board.lines(160, 50, UNICODE))


class Connections:
    """A daemon whose connections give so many views each, then break with the error beside it."""

    def __init__(self, *script: tuple[int, ClientError | None]) -> None:
        self._script = iter(script)
        self.given = 0

    async def __call__(self) -> AsyncGenerator[QueueView, None]:
        views, error = next(self._script)
        for _ in range(views):
            self.given += 1
            yield replace(BUSY, uptime=float(self.given))
            await trio.sleep(1)
        if error is not None:
            raise error


async def test_a_daemon_that_goes_is_looked_for_until_it_is_back(autojump_clock: trio.testing.MockClock) -> None:
    """When the daemon goes the board keeps what it said last, says how old that is, and goes on when it is back."""
    gone = NoDaemon("nobody is there")
    views = Connections((1, DaemonLost("broken off")), *[(0, gone)] * 20, (0, None), (100, None))
    board = Board("http://daemon")
    lost: list[ClientError] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, views, board, lambda: None, lost.append)
        await trio.sleep(0.5)
        assert "daemon gone" not in screen(board)
        await trio.sleep(10)
        assert "daemon gone, trying again; this is from 10s ago: nobody is there" in screen(board)
        assert "up 1.0 s" in screen(board)
        assert [error.message for error in lost] == ["broken off"]
        await trio.sleep(22 * INTERVAL)
        assert "daemon gone" not in screen(board)
        assert views.given > 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "error",
    [
        NoDaemon("nobody is there"),
        BadAnswer("no daemon, but a web page"),
        Refusal("no", status=401, kind="unauthorized"),
    ],
)
async def test_a_daemon_that_never_was_ends_it(autojump_clock: trio.testing.MockClock, error: ClientError) -> None:
    """Where there is no daemon at first, or none that can be understood, the command ends with that message."""
    with pytest.raises(type(error)):
        await follow(Connections((0, error)), Board("http://daemon"), lambda: None, lambda _: None)


@pytest.mark.parametrize("error", [BadAnswer("another version"), Refusal("no", status=401, kind="unauthorized")])
async def test_what_patience_does_not_help_ends_it(autojump_clock: trio.testing.MockClock, error: ClientError) -> None:
    """An answer that will be the same in a minute ends it also after the daemon was there."""
    with pytest.raises(type(error)):
        await follow(Connections((2, error)), Board("http://daemon"), lambda: None, lambda _: None)


async def test_a_silent_daemon_is_said_to_be(autojump_clock: trio.testing.MockClock) -> None:
    """Where the connection stands but nothing comes, the board says how old it is."""
    board = Board("http://daemon")
    assert "asking the daemon at http://daemon" in screen(board)
    board.heard(BUSY)
    await trio.sleep(4)
    assert "says nothing" not in screen(board)
    await trio.sleep(4)
    assert "the daemon says nothing; this is from 8.0s ago" in screen(board)


# The real command


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        body = msgspec.json.encode(SAYS[path])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A daemon that says `BUSY`, and has one run, one job, and one request of people."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_in_a_pipe_it_prints_once(url: str) -> None:
    """In a pipe the board comes once, without colours or padding, and the command ends with 0."""
    result = subprocess.run([*COMMAND, "--url", url], capture_output=True, text=True, timeout=SECONDS, check=True)
    lines = result.stdout.splitlines()
    assert "\x1b" not in result.stdout
    assert any(line.startswith(" research") for line in lines)
    assert any(RUN.run in line for line in lines)
    assert all(line == line.rstrip() for line in lines)


def test_json_is_the_view_itself(url: str) -> None:
    """With --json --once it prints what the daemon said, as one line."""
    command = [*COMMAND, "--url", url, "--json", "--once"]
    result = subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)
    assert result.stdout.count(b"\n") == 1
    assert msgspec.json.decode(result.stdout, type=QueueView) == BUSY


def test_without_a_daemon_it_says_what_to_do() -> None:
    """Where nothing listens it names the way out, and ends with 3."""
    command = [*COMMAND, "--url", "http://127.0.0.1:9"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert result.returncode == 3
    assert "headrace serve" in result.stderr


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", fd: int) -> None:
        self.process = process
        self._fd = fd
        self.seen = b""

    def until(self, condition: Callable[[bytes], bool]) -> None:
        """Reads until what was seen since the last wait is as wanted."""
        seen, ends = b"", time.monotonic() + SECONDS
        while not condition(seen):
            assert time.monotonic() < ends, seen
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    seen += os.read(self._fd, 65_536)
                except OSError:  # the other end is closed
                    assert condition(seen), seen
            self.seen += seen

    def press(self, keys: bytes) -> None:
        os.write(self._fd, keys)

    def resize(self, columns: int, rows: int) -> None:
        ioctl(self._fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))

    def modes(self) -> list[object]:
        return termios.tcgetattr(self._fd)


@contextmanager
def on_terminal(url: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", f"{TAKE_TERMINAL}; {COMMAND[-1]}", "--url", url],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("ending", ["q", "ctrl-c", "sigterm"])
def test_the_terminal_is_given_back(url: str, ending: str) -> None:
    """On a terminal it draws on the other screen, follows its size, and q, Ctrl-C and SIGTERM leave all as it was."""
    with on_terminal(url) as terminal:
        before = terminal.modes()
        terminal.until(lambda seen: b"\x1b[?1049h" in seen)
        terminal.until(lambda seen: b"research" in seen and b"quiet" in seen)
        assert b"by weight" not in terminal.seen
        terminal.resize(200, 50)
        terminal.until(lambda seen: b"by weight" in seen)
        if ending == "sigterm":
            terminal.process.send_signal(signal.SIGTERM)
        else:
            terminal.press(b"q" if ending == "q" else b"\x03")
        terminal.until(lambda seen: b"\x1b[?1049l" in seen)
        assert terminal.process.wait(SECONDS) == 0
        assert terminal.modes() == before
        assert terminal.seen.rindex(b"\x1b[?25h") > terminal.seen.rindex(b"\x1b[?25l")
