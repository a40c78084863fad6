"""What models, tools and clients say, on the terminal of whoever looks: every command, on a terminal of its own."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.daemon.process import COMMAND, daemon, environment
from tests.strangers.evil import EVIL

CONFIG = """
[backends.sim]
kind = "simulated"
script = "tests.strangers.evil:script"
speed = 500

[models."*"]
backends = ["sim"]

[agents.clerk]
tools = ["look", "fail", "send"]

[tools.look]
function = "tests.strangers.evil:look"

[tools.fail]
function = "tests.strangers.evil:fail"

[tools.send]
function = "tests.strangers.evil:send"
"""
DRIVES = ("\x1b]", "\x1b[2J", "\x07", "\x08", "\x9b", "\u202e", "\u2066", "\x7f")
MODEL = "m\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A daemon on which evil was said in every place that takes words."""
    folder = tmp_path_factory.mktemp("evil")
    with daemon(folder, CONFIG) as (process, url):

        def post(path: str, body: object) -> None:
            answer = httpx2.post(f"{url}{path}", json=body, trust_env=False, timeout=30)
            assert answer.is_success, answer.text

        post("/api/runs", {"task": f"look {EVIL}", "run": "r1", "who": {"agent": "clerk"}})
        post("/api/runs", {"task": f"send {EVIL}", "run": "r2", "who": {"agent": "clerk"}})
        post("/api/runs", {"task": "look", "run": "r3", "who": {"model": MODEL, "system": EVIL}})
        post("/api/jobs", {"prompt": f"{EVIL} {{text}}", "job": "j1", "who": {"agent": "clerk"}})
        line = '{"text": "x", "id": "\\u001b]0;owned\\u0007"}\n'
        inputs = f"{url}/api/jobs/j1/inputs"
        assert httpx2.patch(f"{inputs}?offset=0", content=line, trust_env=False, timeout=30).is_success
        assert httpx2.post(f"{inputs}/complete", trust_env=False, timeout=30).is_success
        for run in ("r1", "r3"):
            httpx2.get(f"{url}/api/runs/{run}?wait=20", trust_env=False, timeout=30)
        yield folder, url
        assert not any(words in process.said for words in DRIVES), "the daemon's own log"


def on_terminal(folder: Path, url: str, *words: str) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env=environment(HEADRACE_URL=url, TERM="xterm", NO_COLOR="1"),
    )
    os.close(theirs)
    watch = threading.Timer(60, process.kill)
    watch.start()
    seen = b""
    try:
        while data := os.read(ours, 65_536):
            seen += data
    except OSError:
        pass  # how a terminal ends whose other side is closed
    finally:
        process.wait()
        watch.cancel()
        os.close(ours)
    return seen.decode(errors="surrogateescape")


COMMANDS = (
    ("ps",),
    ("ps", "--json"),
    ("show", "r1"),
    ("show", "r1", "--json"),
    ("show", "r3"),
    ("events", "r1"),
    ("events", "r1", "--json"),
    ("events", "r2"),
    ("approvals",),
    ("approvals", "--json"),
    ("sessions",),
    ("explain", "r1"),
    ("explain", "r3"),
    ("top", "--once"),
    ("job", "ls"),
    ("job", "show", "j1"),
    ("job", "results", "j1"),
    ("run", "clerk", f"look {EVIL}"),
    ("run", "clerk", f"look {EVIL}", "--json"),
    ("export", "r1"),
    ("show", EVIL),
    ("explain", f"call-{EVIL}"),
    ("run", EVIL, "x"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: ascii(" ".join(words)))
def test_no_command_lets_a_model_drive_the_terminal(place: tuple[Path, str], words: tuple[str, ...]) -> None:
    """Title, screen and direction of reading stay as they were, whatever was said; what was said is shown."""
    seen = on_terminal(*place, *words)
    assert seen.strip()
    assert "No such" not in seen, seen
    # the command's own: its progress moves the cursor, and ends lines with \r\n
    assert [drive for drive in DRIVES if drive in seen] == [], seen[:2_000].encode()
