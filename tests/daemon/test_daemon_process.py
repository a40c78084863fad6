"""The real daemon in a process: signals under load, and what cannot start."""

import json
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.daemon.process import daemon, run, started

SLOW = """
[backends.sim]
kind = "simulated"
speed = 2
concurrency = 20
rpm = 100_000
"""
"""An answer takes a second or two."""

ENDLESS = SLOW.replace("speed = 2", "speed = 0.01")
"""An answer takes minutes."""


def inputs(folder: Path, count: int) -> str:
    path = folder / "in.jsonl"
    path.write_text("".join(f'{{"text": "item {n}"}}\n' for n in range(1, count + 1)))
    return str(path)


def test_sigterm_during_a_job_of_200_agents(tmp_path: Path) -> None:
    """Live agents end, the rest is kept: the client waits for the next daemon and goes on there, and no item that was
    done runs again."""
    job = ["job", "start", "-i", inputs(tmp_path, 200), "--prompt", "Say {text}", "--workers", "200"]
    job += ["--name", "letters", "-o", "out.jsonl"]
    with ExitStack() as stack:
        first, url = stack.enter_context(daemon(tmp_path, SLOW, "--drain-seconds", "2"))
        client = stack.enter_context(started(*job, cwd=tmp_path, HEADRACE_URL=url))
        job_id = client.hear(r"job (letters-\w+) is with the daemon")[1]
        client.hear(r"letters: [1-9]\d* of 200 done")
        first.signal(signal.SIGTERM)
        assert first.end() == 0
        assert "draining" in first.said
        assert "Traceback" not in first.said
        results = tmp_path / "data" / "jobs" / job_id / "results.jsonl"
        before = [json.loads(line) for line in results.read_text().splitlines()]
        done = {line["ordinal"] for line in before if line["state"] == "done"}
        assert 0 < len(done) < 200
        client.hear("there is no daemon at .*; trying again")

        faster = SLOW.replace("speed = 2", "speed = 200")
        stack.enter_context(daemon(tmp_path, faster, "--port", url.rpartition(":")[2]))
        assert client.end() == 0, client.said
        assert "Traceback" not in client.said
        shown = json.loads(run("job", "show", job_id, "--json", cwd=tmp_path, url=url).stdout)
        assert (shown["phase"], shown["done"]) == ("done", 200)
    for file in (results, tmp_path / "out.jsonl"):
        after = [json.loads(line) for line in file.read_text().splitlines()]
        assert sorted(line["ordinal"] for line in after if line["state"] == "done") == list(range(1, 201))


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """With calls that take minutes and all the time in the world to drain, the second SIGTERM ends it with code 0; the
    run stays open."""
    with daemon(tmp_path, ENDLESS, "--drain-seconds", "1000") as (process, url):
        detached = run("run", "--detach", "Say hello", cwd=tmp_path, url=url)
        assert detached.returncode == 0, detached.stderr
        process.signal(signal.SIGTERM)
        process.hear("draining")
        process.signal(signal.SIGTERM)
        assert process.end() == 0
        assert "runs_left_open=1" in process.said


def test_sighup_changes_all_or_nothing(tmp_path: Path) -> None:
    """Under load a broken file changes nothing and says where it is broken; a good one is shown as a difference."""
    with daemon(tmp_path, SLOW) as (process, url):
        job = [
            "job",
            "start",
            "-i",
            inputs(tmp_path, 200),
            "--prompt",
            "Say {text}",
            "-o",
            "out.jsonl",
            "--name",
            "load",
        ]
        with started(*job, cwd=tmp_path, HEADRACE_URL=url) as client:
            client.hear(r"load: [1-9]\d* of 200 done")
            (tmp_path / "headrace.toml").write_text(SLOW.replace("rpm =", "rmp ="))
            process.signal(signal.SIGHUP)
            process.hear("reload refused")
            assert "rmp" in process.said
            queue = json.loads(run("top", "--once", "--json", cwd=tmp_path, url=url).stdout)
            assert [limit["amount"] for limit in queue["backends"][0]["endpoints"][0]["limits"]] == [100_000]
            (tmp_path / "headrace.toml").write_text(SLOW.replace("100_000", "50_000").replace("20", "40"))
            process.signal(signal.SIGHUP)
            process.hear("reloaded")
            assert "backends.sim.rpm: 100000 -> 50000" in process.said.replace("100_000", "100000")
            queue = json.loads(run("top", "--once", "--json", cwd=tmp_path, url=url).stdout)
            assert [limit["amount"] for limit in queue["backends"][0]["endpoints"][0]["limits"]] == [50_000]
            assert client.end() == 0
        process.signal(signal.SIGTERM)
        assert process.end() == 0


def test_an_idle_daemon_ends_at_ctrl_c(tmp_path: Path) -> None:
    """SIGINT on a daemon with nothing to do is a normal end."""
    with daemon(tmp_path, SLOW) as (process, _):
        process.signal(signal.SIGINT)
        assert process.end() == 0
        assert "Traceback" not in process.said


def test_what_cannot_start_says_why(tmp_path: Path) -> None:
    """No configuration, a taken port, a folder that another daemon has: code 2 and one message that helps."""
    empty = tmp_path / "empty"
    empty.mkdir()
    with started("serve", cwd=empty, HOME=str(empty), XDG_CONFIG_HOME=str(empty)) as lost:
        assert lost.end() == 2
        assert "headrace init" in lost.said
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with started("serve", "--upstream", "simulated", "--port", port, "--data-dir", "d", cwd=tmp_path) as late:
            assert late.end() == 2
            assert f"cannot listen on 127.0.0.1:{port}: address already in use" in late.said
    with (
        daemon(tmp_path, SLOW) as (_, _),
        started("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path) as second,
    ):
        assert second.end() == 2
        assert "another daemon holds it" in second.said
