"""Commands before a real daemon that ends and is started anew: what was said to it is kept, and watchers go on."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from tests.client.daemon_thread import DaemonThread, headrace


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    """A daemon whose calls take minutes, until it is started anew."""
    daemon = DaemonThread(tmp_path / "data", speed=0.01, drain=0.05)
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def renewed(daemon: DaemonThread, when: Callable[[], bool]) -> threading.Thread:
    """Ends the daemon as soon as `when` holds, whatever is under way, and starts one whose calls are quick."""

    def work() -> None:
        until(when)
        daemon.stop()
        daemon.speed = 500.0
        daemon.start()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def events_of(daemon: DaemonThread, run: str) -> list[str]:
    """The types of a run's events so far."""
    lines = headrace(daemon.url, "events", run, "--json").stdout.splitlines()
    return [json.loads(line)["type"] for line in lines]


def test_a_run_that_is_watched_survives_its_daemon(daemon: DaemonThread) -> None:
    """It ends in the middle of a model call: `run` waits, tells the outage once, and prints the answer of the next."""
    thread = renewed(daemon, lambda: daemon.live_runs() > 0)
    result = headrace(daemon.url, "run", "Name three rivers")
    thread.join()
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith('On "Name three rivers"')
    said = result.stderr.splitlines()
    assert sum("trying again" in line for line in said) == sum("the daemon is back" in line for line in said) == 1
    assert sum("taken up again" in line for line in said) == 1


def test_events_are_followed_over_a_restart(daemon: DaemonThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """`events --follow` shows each event of a run once and in order, those of both daemons, to its end."""
    run = headrace(daemon.url, "run", "Name three rivers", "--detach").stdout.strip()
    followed: list[str] = []
    monkeypatch.setattr("orchestrator.cli.events.print_text", followed.append)
    thread = renewed(daemon, lambda: any("asks the model" in line for line in followed))
    result = headrace(daemon.url, "events", run, "--follow")
    thread.join()
    assert (result.exit_code, "the daemon is back" in result.stderr) == (0, True)
    assert [int(line.split()[0]) for line in followed] == list(range(1, len(followed) + 1))
    assert sum("taken up again" in line for line in followed) == 1
    assert followed[-1].endswith("ended: completed, final_answer")


def test_what_is_said_to_a_run_outlives_the_daemon(daemon: DaemonThread) -> None:
    """A message and a grant are in the log when their commands end; the next daemon's model reads the message."""
    run = headrace(daemon.url, "run", "Name three rivers", "--max-rounds", "3", "--detach").stdout.strip()
    until(lambda: "model_requested" in events_of(daemon, run))
    assert headrace(daemon.url, "tell", run, "Only long ones").exit_code == 0
    assert headrace(daemon.url, "grant", run, "rounds=9").exit_code == 0
    renewed(daemon, lambda: True).join()
    followed = headrace(daemon.url, "events", run, "--follow").stdout
    assert "told: Only long ones" in followed
    assert "granted: rounds=9" in followed
    shown = json.loads(headrace(daemon.url, "show", run, "--json").stdout)
    assert shown["state"] == "completed"
    assert "Only long ones" in [message["content"] for message in shown["messages"]]
    late = headrace(daemon.url, "tell", run, "Too late")
    assert (late.exit_code, "has ended" in late.stderr) == (2, True)


def test_a_session_goes_on_with_the_next_daemon(daemon: DaemonThread) -> None:
    """Two runs of a session, a restart between them: the second knows what the first said, and is listed with it."""
    renewed(daemon, lambda: True).join()
    first = headrace(daemon.url, "run", "clerk", "Name a river", "--session", "rivers", "--json")
    daemon.stop()
    daemon.start()
    second = headrace(daemon.url, "run", "And another", "--session", "rivers", "--json")
    assert (first.exit_code, second.exit_code) == (0, 0), second.stderr
    words = [message["content"] for message in json.loads(second.stdout)["messages"] if message["role"] == "user"]
    assert words == ["Name a river", "And another"]
    assert json.loads(second.stdout)["agent"] == "clerk"
    shown = json.loads(headrace(daemon.url, "sessions", "rivers", "--json").stdout)
    runs = [json.loads(result.stdout)["run"] for result in (first, second)]
    assert [view["run"] for view in shown["runs"]] == runs
    assert set(headrace(daemon.url, "ps", "--all", "--session", "rivers").stdout.split()) >= set(runs)
    wrong = headrace(daemon.url, "run", "--session", "rivers", "--continue")
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (2, 1)


def test_a_run_that_a_limit_stopped_goes_on(daemon: DaemonThread) -> None:
    """What the advice names is taken: the session goes on in a run with a budget of its own, where the last stopped."""
    renewed(daemon, lambda: True).join()
    stopped = headrace(daemon.url, "run", "x y", "--session", "s", "--max-tokens-total", "1")
    assert stopped.exit_code == 1
    advice = stopped.stderr.partition("headrace run ")[2].splitlines()[0]
    result = headrace(daemon.url, "run", *advice.split())
    assert (result.exit_code, result.stdout[:8]) == (0, 'On "x y"'), result.stderr


def test_a_log_moves_to_another_daemon(daemon: DaemonThread, tmp_path: Path) -> None:
    """Exported here and imported there: the other daemon shows the run as this one does, and its session goes on."""
    renewed(daemon, lambda: True).join()
    run = json.loads(headrace(daemon.url, "run", "Name a river", "--session", "rivers", "--json").stdout)["run"]
    path = tmp_path / "rivers.jsonl"
    assert headrace(daemon.url, "export", run, "-o", path).exit_code == 0
    other = DaemonThread(tmp_path / "other", speed=500.0)
    other.start()
    try:
        taken = headrace(other.url, "import", path)
        assert (taken.exit_code, "rivers of tenant default" in taken.stdout) == (0, True), taken.stderr
        here, there = (json.loads(headrace(url, "show", run, "--json").stdout) for url in (daemon.url, other.url))
        assert here == there
        assert headrace(other.url, "run", "And another", "--session", "rivers", "--quiet").exit_code == 0
        assert headrace(other.url, "import", path).exit_code == 2
    finally:
        other.close()


def test_pruning_takes_what_is_old_and_nothing_else(daemon: DaemonThread) -> None:
    """What was touched a moment ago stays, and what a dry run names is there afterwards."""
    renewed(daemon, lambda: True).join()
    headrace(daemon.url, "run", "x y", "--session", "s", "--quiet")
    for options in (("--dry-run",), ()):
        report = json.loads(headrace(daemon.url, "prune", "--older-than", "1m", "--json", *options).stdout)
        assert (report["sessions"], report["events"], report["dry_run"]) == (0, 0, bool(options))
    assert headrace(daemon.url, "sessions", "s").exit_code == 0
