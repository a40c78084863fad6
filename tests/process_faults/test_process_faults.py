"""What happens to the process: its disk is full, it is stopped for a minute, its provider's certificate is wrong."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from tests.daemon.process import COMMAND, daemon, run, started
from tests.process_faults.certificate import provider, write_certificate

STOPPED = 60.0 if os.environ.get("CI") else 5.0
"""Seconds for which a daemon is stopped: twice as long as its leases in CI."""

SIMULATED = """
[backends.sim]
kind = "simulated"
latency = { first_token = 1.0, spread = 0 }
length = { tokens = 20 }

[models.m]
backends = ["sim"]
"""


def ask(url: str) -> httpx2.Response:
    body = {"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "hello"}]}
    return httpx2.post(f"{url}/v1/chat/completions", json=body, timeout=60)


def start_run(url: str, run_id: str) -> httpx2.Response:
    return httpx2.post(f"{url}/api/runs", json={"task": "hello", "run": run_id}, timeout=60)


def end_of(url: str, run_id: str, seconds: float = 60) -> str:
    """How the run ended."""
    answer = httpx2.get(f"{url}/api/runs/{run_id}", params={"wait": seconds}, timeout=seconds + 5)
    return str(answer.json().get("reason"))


def can_mount() -> bool:
    """Whether a disk of its own can be had, in a mount namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def fill(disk: Path) -> Path:
    """Fills the disk to its last byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_loses_nothing_and_is_forgiven(tmp_path: Path) -> None:
    """Runs that cannot be kept are refused with 507, those that are open wait, and all goes on when there is room."""
    if not can_mount():
        pytest.skip("no mount namespace can be made here (unshare(1))")
    (tmp_path / "headrace.toml").write_text(SIMULATED)
    (tmp_path / "data").mkdir()
    mounted = 'mount -t tmpfs -o size=8m tmpfs data && exec "$@"'
    program = ["unshare", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", *COMMAND]
    with started("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path, program=program) as process:
        url = process.hear(r"serves (http://\S+?),")[1]
        assert start_run(url, "before").status_code == 201
        assert end_of(url, "before") == "final_answer"
        assert start_run(url, "meanwhile").status_code == 201
        filler = fill(Path(f"/proc/{process.pid}/root") / (tmp_path / "data").relative_to("/"))
        refused = [start_run(url, f"refused-{n}") for n in range(3)]
        assert {answer.status_code for answer in refused} <= {507, 201}
        assert refused[-1].status_code == 507
        assert "disk" in refused[-1].json()["error"]["message"]
        assert ask(url).status_code == 200  # a call of a program needs no room at once
        filler.unlink()
        assert end_of(url, "meanwhile") == "final_answer"
        assert start_run(url, "refused-2").status_code == 201
        assert end_of(url, "refused-2") == "final_answer"
        process.signal(signal.SIGTERM)
        assert process.end() == 0


def test_a_daemon_that_is_stopped_for_a_minute_goes_on(tmp_path: Path) -> None:
    """Runs and calls under way when it is stopped end when it wakes, as if nothing had been."""
    with daemon(tmp_path, SIMULATED) as (process, url):
        for number in range(20):
            assert start_run(url, f"r{number}").status_code == 201
        with httpx2.Client(timeout=STOPPED + 60) as client:
            body = {"model": "m", "max_tokens": 20, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
            with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                process.signal(signal.SIGSTOP)
                time.sleep(STOPPED)
                process.signal(signal.SIGCONT)
                assert answer.read().rstrip().endswith(b"data: [DONE]")
        assert {end_of(url, f"r{number}") for number in range(20)} == {"final_answer"}
        assert "Traceback" not in process.said
        process.signal(signal.SIGTERM)
        assert process.end() == 0


TLS = """
[backends.p]
kind = "openai"
base_url = "https://127.0.0.1:{port}/v1"
ca_file = "provider.pem"
retry = {{ attempts = 2 }}

[models.m]
backends = ["p"]
"""


def test_a_wrong_certificate_is_named_and_the_right_one_is_enough(tmp_path: Path) -> None:
    """Who asks and who looks are told of the certificate, and once it is right the same daemon serves."""
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    right = write_certificate(tmp_path, "127.0.0.1")
    with (
        provider(*write_certificate(wrong, "127.0.0.2")) as (port, context),
        daemon(tmp_path, TLS.format(port=port)) as (process, url),
    ):
        answer = ask(url)
        assert answer.status_code in (502, 503)
        assert "certificate" in answer.json()["error"]["message"].lower()
        assert start_run(url, "early").status_code == 201
        assert end_of(url, "early") == "planner_error"
        assert "certificate is not trusted" in run("explain", "early", cwd=tmp_path, url=url).stdout
        context.load_cert_chain(*right)
        assert start_run(url, "late").status_code == 201
        assert end_of(url, "late") == "final_answer"
        assert ask(url).status_code == 200
        assert "Traceback" not in process.said
