"""Signals to a real command before a real daemon: the first asks the daemon for the end, the second leaves at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from tests.client.daemon_thread import SECONDS, DaemonThread, headrace

COMMAND = [sys.executable, "-c", "from orchestrator.cli.app import main; main()"]
ROOT = Path(__file__).parents[2]
LONG = ("run", "x", "--max-tokens", "100000")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    """One whose calls take minutes."""
    daemon = DaemonThread(tmp_path / "data", speed=0.01, drain=0.05)
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


@contextmanager
def command(daemon: DaemonThread, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HEADRACE_URL": daemon.url}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: "subprocess.Popen[str]", text: str) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if text in line:
            return line
    pytest.fail(f"it ended without saying {text!r}, but: {''.join(said)}")


def test_ctrl_c_cancels_the_run_and_waits(daemon: DaemonThread) -> None:
    """The run ends as cancelled, which is told, and the exit code is that of the signal."""
    with command(daemon, *LONG) as process:
        run = hear(process, "run ").split()[1].rstrip(":")
        process.send_signal(signal.SIGINT)
        hear(process, "cancelling the run; once more to leave it")
        out, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, "")
    assert f"run {run} cancelled" in said
    assert json.loads(headrace(daemon.url, "show", run, "--json").stdout)["reason"] == "cancelled"


def test_ctrl_c_ends_the_job_and_keeps_what_is_done(daemon: DaemonThread, tmp_path: Path) -> None:
    """The job ends as cancelled with everything accounted for, and the message says how to go on with it."""
    path = tmp_path / "in.jsonl"
    path.write_text('"one"\n"two"\n"three"\n')
    with command(daemon, "job", "start", "-i", str(path), "--prompt", "{text}", "--workers", "2") as process:
        job = hear(process, "is with the daemon").split()[1]
        while daemon.live_runs() < 2:
            pass
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (128 + signal.SIGTERM, "")
    assert "0 done, 0 failed, 2 cancelled" in said
    assert f"headrace job retry {job}" in said
    assert json.loads(headrace(daemon.url, "job", "show", job, "--json").stdout)["phase"] == "cancelled"


def test_a_second_signal_leaves_at_once(daemon: DaemonThread) -> None:
    """Where the daemon does not answer any more, two signals still end the command, and say what stays behind."""
    with command(daemon, *LONG) as process:
        run = hear(process, "run ").split()[1].rstrip(":")
        daemon.stop(abruptly=True)
        hear(process, "trying again")
        process.send_signal(signal.SIGINT)
        hear(process, "once more to leave it")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert f"run {run} goes on until the daemon has ended it" in said


def test_a_reader_that_leaves_ends_the_job(daemon: DaemonThread, tmp_path: Path) -> None:
    """`| head -1`: nobody gets the answers any more, so the job is cancelled, and what was done is kept."""
    daemon.stop()
    fast = DaemonThread(tmp_path / "fast", speed=50.0)
    fast.start()
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'"item {number}"\n' for number in range(2_000)))
    with command(fast, "job", "start", "-i", str(path), "--prompt", "{text}", "--quiet", "--workers", "4") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["state"] == "done"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(SECONDS) == 1
    fast.close()
    assert "stdout: its reader is gone; the job was cancelled" in said
