"""The real command in a process of its own: signals, pipes, and a server on a port."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-c", "from orchestrator.cli.app import main; main()"]
JOB = [*COMMAND, "job", "start", "--embedded", "--prompt", "Say {text}"]
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
SECONDS = 60


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"text": "item {number}"}}\n' for number in range(1, 20_001)))
    return path


def run(command: list[str], **more: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        command, capture_output=True, text=True, env=ENVIRONMENT, timeout=SECONDS, check=False, **more
    )


def read_to(process: "subprocess.Popen[str]", text: str) -> None:
    """Reads standard error up to the line that holds the text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"it ended without saying {text!r}")


def test_ctrl_c_ends_cleanly(endless: Path) -> None:
    """SIGINT in mid-job: exit code 130, whole lines only, and the message and the summary account for everything."""
    out = endless.with_name("out.jsonl")
    command = [*JOB, "-i", str(endless), "-o", str(out), "--json", "--workers", "8", "--grace", "1", "--verbose"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    read_to(process, "call finished")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    summary = json.loads(stdout)
    data = out.read_bytes()
    assert data.endswith(b"\n")
    done = {json.loads(line)["ordinal"] for line in data.splitlines()}
    assert len(done) == summary["done"] > 0
    assert not done & set(summary["cancelled"])
    assert done | set(summary["cancelled"]) == set(range(1, len(done) + len(summary["cancelled"]) + 1))
    assert f"interrupted by SIGINT: {summary['done']:,} done" in stderr
    assert f"the input behind {summary['unread_after']} was not read" in stderr


def test_a_second_signal_hurries(endless: Path) -> None:
    """With calls that take minutes and a long grace, SIGTERM and then SIGINT end the job at once."""
    out = endless.with_name("out.jsonl")
    command = [*JOB, "-i", str(endless), "-o", str(out), "--speed", "0.001", "--workers", "4", "--verbose"]
    command += ["--grace", "1000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    for _ in range(4):
        read_to(process, "call queued")
    process.send_signal(signal.SIGTERM)
    read_to(process, "once more to end now")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert "interrupted by SIGTERM: 0 done, 0 failed, 4 cancelled" in stderr


def test_results_flow_through_pipes() -> None:
    """Lines on standard input become rows on standard output, and the summary goes to standard error."""
    result = run([*JOB, "-i", "-", "--json"], input='"one"\n"two"\n')
    assert result.returncode == 0, result.stderr
    assert {json.loads(line)["origin"] for line in result.stdout.splitlines()} == {"stdin:1", "stdin:2"}
    assert json.loads(result.stderr)["done"] == 2


def test_a_reader_that_leaves_ends_the_job(endless: Path) -> None:
    """`| head -1` stops the job with one message instead of working on for nobody."""
    command = [*JOB, "-i", str(endless), "--quiet"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read().splitlines()[0] == "headrace: stdout: its reader is gone"
    assert process.returncode == 1


def test_empty_standard_input_is_refused() -> None:
    """Nothing on standard input is an empty input."""
    result = run([*JOB, "-i", "-"], stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stderr) == (2, "headrace: the input is empty: it has no items\n")


def test_the_simulator_serves_a_job_and_stops_on_a_signal(tmp_path: Path) -> None:
    """`simulate` says where it listens, a second one on that port is refused, a job is answered, SIGINT ends it."""
    server = subprocess.Popen(
        [*COMMAND, "simulate", "--port", "0", "--api-key", "k", "--first-token", "0", "--rate", "10000"],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        port = url.rpartition(":")[2].partition("/")[0]
        second = run([*COMMAND, "simulate", "--port", port])
        assert (second.returncode, "address already in use" in second.stderr) == (2, True)
        path = tmp_path / "a.txt"
        path.write_text("a text")
        job = [*JOB, "-i", str(path), "--backend", "openai", "--base-url", url, "--model", "m", "--api-key-env", "KEY"]
        result = subprocess.run(
            job, capture_output=True, text=True, env={**ENVIRONMENT, "KEY": "k"}, timeout=SECONDS, check=False
        )
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["state"] == "done"
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=SECONDS) == 0
        assert server.stdout is not None
        server.stdout.close()
