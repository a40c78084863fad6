"""The commands before a real daemon: what they print, where, and with which exit code."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from orchestrator.client.wire import DEFAULT_URL
from tests.client.daemon_thread import DaemonThread, headrace


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path_factory.mktemp("data"))
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path / "data", speed=20.0, drain=0.05)
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


@pytest.fixture
def stuck(tmp_path: Path) -> Iterator[DaemonThread]:
    """A daemon whose calls take minutes."""
    daemon = DaemonThread(tmp_path / "data", speed=0.01, drain=0.05)
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


@pytest.fixture
def three(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "one"}\n{"text": oops}\n{"text": "three"}\n')
    return path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# Runs


def test_an_answer_goes_to_stdout_and_all_else_to_stderr(daemon: DaemonThread) -> None:
    """`run` prints the answer alone; who works and what it took is told on standard error."""
    result = headrace(daemon.url, "run", "Name three rivers")
    assert (result.exit_code, result.stdout[:22]) == (0, 'On "Name three rivers"')
    assert "agent plain, model " in result.stderr
    assert "1 round, " in result.stderr
    quiet = headrace(daemon.url, "run", "Name three rivers", "--quiet")
    assert (quiet.exit_code, quiet.stderr) == (0, "")


def test_a_task_is_read_from_standard_input(daemon: DaemonThread) -> None:
    """`-` as the task stands for standard input."""
    result = headrace(daemon.url, "run", "clerk", "-", input="From a pipe")
    assert (result.exit_code, result.stdout[:16]) == (0, 'On "From a pipe"')
    assert "agent clerk" in result.stderr


def test_a_run_that_does_not_complete_says_why_and_what_helps(daemon: DaemonThread) -> None:
    """Exit code 1, nothing on standard output, and the reason, the last words and the option on standard error."""
    result = headrace(daemon.url, "run", "x", "--max-tokens", "3")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "its last words: " in result.stderr
    assert "stopped (output_limit)" in result.stderr
    assert "raise --max-tokens" in result.stderr


def test_a_run_is_one_json_document(daemon: DaemonThread) -> None:
    """`--json` prints the whole run, also one that did not complete, and the exit code is the same."""
    result = headrace(daemon.url, "run", "x", "--max-tokens", "3", "--json", "--tenant", "t", "--priority", "batch")
    assert result.exit_code == 1
    run = json.loads(result.stdout)
    assert (run["reason"], run["tenant"], run["priority"]) == ("output_limit", "t", "batch")


def test_a_detached_run_is_found_again(daemon: DaemonThread) -> None:
    """`--detach` prints the id, with which `events`, `show` and `ps` find the run."""
    detached = headrace(daemon.url, "run", "hello", "--detach", "--job", "later")
    run = detached.stdout.strip()
    assert (detached.exit_code, len(run)) == (0, 16)
    followed = headrace(daemon.url, "events", run, "--follow")
    assert [line.split()[0] for line in followed.stdout.splitlines()] == ["1", "2", "3", "4", "5"]
    assert followed.stdout.splitlines()[-1].endswith("ended: completed, final_answer")
    kinds = [json.loads(line)["type"] for line in headrace(daemon.url, "events", run, "--json").stdout.splitlines()]
    assert (kinds[0], kinds[-1], len(kinds)) == ("run_created", "run_ended", 5)
    assert headrace(daemon.url, "events", run, "--after", "4").stdout.split()[0] == "5"
    shown = headrace(daemon.url, "show", run).stdout
    assert all(part in shown for part in (run, "completed", "later", "[user]\nhello", "[assistant]"))
    assert json.loads(headrace(daemon.url, "show", run, "--json").stdout)["run"] == run
    assert run in headrace(daemon.url, "ps", "--all", "--job", "later").stdout
    assert run not in headrace(daemon.url, "ps", "--all", "--job", "another").stdout


def test_lists_are_paged_and_say_what_they_leave_out(daemon: DaemonThread) -> None:
    """`-n` bounds the rows, the rest is told on standard error; JSON comes as a document or line by line."""
    for _ in range(5):
        assert headrace(daemon.url, "run", "x", "--tenant", "pages", "--quiet").exit_code == 0
    few = headrace(daemon.url, "ps", "--all", "--tenant", "pages", "-n", "2")
    assert len(few.stdout.splitlines()) == 3
    assert "2 of 5 shown" in few.stderr
    every = headrace(daemon.url, "ps", "--all", "--tenant", "pages", "-n", "0")
    assert (len(every.stdout.splitlines()), every.stderr) == (6, "")
    document = json.loads(headrace(daemon.url, "ps", "--all", "--tenant", "pages", "-n", "2", "--json").stdout)
    assert (len(document["runs"]), document["total"]) == (2, 5)
    lines = headrace(daemon.url, "ps", "--state", "done", "--tenant", "pages", "--lines").stdout.splitlines()
    assert {json.loads(line)["tenant"] for line in lines} == {"pages"}
    nobody = headrace(daemon.url, "ps", "--tenant", "nobody")
    assert (nobody.exit_code, nobody.stdout) == (0, "")
    assert "no run is under way" in nobody.stderr


def test_runs_are_cancelled_by_id_and_by_job(stuck: DaemonThread) -> None:
    """Cancelled runs end as cancelled; one that ended before and one that nobody knows are told apart."""
    first, second, third = (
        headrace(stuck.url, "run", "x", "--detach", "--job", "pile").stdout.strip() for _ in range(3)
    )
    one = headrace(stuck.url, "cancel", first, "nobody")
    assert one.exit_code == 1
    assert f"{first} is cancelled" in one.stdout
    assert "there is no run nobody" in one.stderr
    headrace(stuck.url, "events", first, "--follow")
    again = headrace(stuck.url, "cancel", first)
    assert (again.exit_code, again.stdout) == (0, f"{first} had ended before: cancelled\n")
    pile = headrace(stuck.url, "cancel", "--job", "pile", "--json")
    assert {view["run"] for view in json.loads(pile.stdout)} == {second, third}
    for run in (first, second, third):
        headrace(stuck.url, "events", run, "--follow")
        assert json.loads(headrace(stuck.url, "show", run, "--json").stdout)["reason"] == "cancelled"
    missing = headrace(stuck.url, "cancel", "--job", "nowhere")
    assert (missing.exit_code, "nowhere" in missing.stderr) == (2, True)


# Jobs


def test_a_job_goes_up_and_its_results_come_back(daemon: DaemonThread, three: Path, tmp_path: Path) -> None:
    """Every input is a row, the unreadable one failed; the table and the exit code say so."""
    out = tmp_path / "out.jsonl"
    result = headrace(
        daemon.url, "job", "start", "-i", three, "--prompt", "Say {text}", "-o", out, "--ordered", "--name", "letters"
    )
    assert result.exit_code == 1, result.stderr
    assert [(row["ordinal"], row["state"]) for row in rows(out)] == [(1, "done"), (2, "failed"), (3, "done")]
    assert f"failed: {three}:2:10: not valid JSON" in result.stderr
    assert "job letters-" in result.stderr
    assert "invalid_input" in result.stdout


def test_answers_cut_off_name_the_option_of_the_job(daemon: DaemonThread, three: Path, tmp_path: Path) -> None:
    """Answers at their output limit are failed items, and the message says what to raise."""
    out = tmp_path / "out.jsonl"
    result = headrace(daemon.url, "job", "start", "-i", three, "--prompt", "{text}", "-o", out, "--max-tokens", "3")
    assert result.exit_code == 1
    assert "2 answers were cut off; raise --max-tokens" in result.stderr


def test_the_summary_of_a_job_is_one_json_document(daemon: DaemonThread, three: Path, tmp_path: Path) -> None:
    """`--json` ends with the job and the exit code, and nothing else on standard output."""
    out = tmp_path / "out.jsonl"
    result = headrace(
        daemon.url, "job", "start", "-i", three, "--prompt", "{text}", "-o", out, "--json", "--agent", "clerk"
    )
    summary = json.loads(result.stdout)
    assert (summary["done"], summary["failed"], summary["exit_code"], summary["agent"]) == (2, 1, 1, "clerk")


def test_a_detached_job_is_found_again(daemon: DaemonThread, three: Path, tmp_path: Path) -> None:
    """`--detach` sends the inputs and prints the id; `ls`, `show`, `results`, `retry` and `rm` find it by that."""
    started = headrace(daemon.url, "job", "start", "-i", three, "--prompt", "{text}", "--detach", "--name", "away")
    job = started.stdout.strip()
    assert (started.exit_code, "3 inputs are with the daemon" in started.stderr) == (0, True)
    out = tmp_path / "out.jsonl"
    followed = headrace(daemon.url, "job", "results", job, "-o", out, "--follow")
    assert (followed.exit_code, len(rows(out))) == (0, 3)
    assert job in headrace(daemon.url, "job", "ls").stdout
    assert json.loads(headrace(daemon.url, "job", "ls", "--json").stdout)["jobs"][0]["job"] == job
    assert "invalid_input" in headrace(daemon.url, "job", "show", job).stdout
    assert json.loads(headrace(daemon.url, "job", "show", job, "--json").stdout)["done"] == 2
    assert headrace(daemon.url, "job", "retry", job).exit_code == 0
    more = headrace(daemon.url, "job", "results", job, "-o", out, "--follow", "--resume")
    assert (more.exit_code, len(rows(out))) == (0, 4)
    assert headrace(daemon.url, "job", "cancel", job).exit_code == 0
    assert headrace(daemon.url, "job", "rm", job).exit_code == 0
    assert headrace(daemon.url, "job", "show", job).exit_code == 2


def test_results_go_on_behind_a_torn_line(daemon: DaemonThread, three: Path, tmp_path: Path) -> None:
    """`--resume` cuts a torn line off and adds the rest; a file of something else is refused."""
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    started = headrace(daemon.url, "job", "start", "-i", three, "--prompt", "{text}", "-o", whole, "--json")
    job = json.loads(started.stdout)["job"]
    for size in (0, 1, len(whole.read_bytes()) // 2, len(whole.read_bytes())):
        torn.write_bytes(whole.read_bytes()[:size])
        assert headrace(daemon.url, "job", "results", job, "-o", torn, "--resume").exit_code == 0
        assert torn.read_bytes() == whole.read_bytes()
    refused = headrace(daemon.url, "job", "results", job, "-o", torn)
    assert (refused.exit_code, "--overwrite" in refused.stderr) == (2, True)
    torn.write_bytes(whole.read_bytes() + b"more\n")
    refused = headrace(daemon.url, "job", "results", job, "-o", torn, "--resume")
    assert (refused.exit_code, "longer than the results" in refused.stderr) == (2, True)


@pytest.mark.parametrize("abruptly", [True, False])
def test_a_job_survives_its_daemon(slow: DaemonThread, tmp_path: Path, abruptly: bool) -> None:
    """Killed or drained in mid-job and started again: the command goes on by itself, and every item is done once."""
    pipe, out = tmp_path / "pipe", tmp_path / "out.jsonl"
    os.mkfifo(pipe)
    lines = [f'{{"text": "item {number}"}}\n' for number in range(1, 81)]
    trouble: list[BaseException] = []

    def feed_and_restart() -> None:
        try:
            with pipe.open("w") as inputs:  # while it is open the job cannot end
                inputs.writelines(lines[:40])
                inputs.flush()
                deadline = time.monotonic() + 30
                while not out.exists() or not out.stat().st_size:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                slow.stop(abruptly=abruptly)
                slow.start()
                inputs.writelines(lines[40:])
        except BaseException as error:
            trouble.append(error)

    thread = threading.Thread(target=feed_and_restart)
    thread.start()
    result = headrace(
        slow.url, "job", "start", "-i", pipe, "--prompt", "{text}", "-o", out, "--workers", "20", "--json"
    )
    thread.join()
    assert not trouble
    assert result.exit_code == 0, result.stderr
    done = [row["ordinal"] for row in rows(out) if row["state"] == "done"]
    assert sorted(done) == list(range(1, 81))
    said = result.stderr.splitlines()
    gone, back = (sum(words in line for line in said) for words in ("trying again", "the daemon is back"))
    # A daemon that drains ends its streams properly, and may be up again before anybody misses it.
    assert gone == back == 1 or (gone == back == 0 and not abruptly)
    assert sum("goes on" in line for line in said) <= 1  # the next daemon does so by itself


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[DaemonThread]:
    """A daemon whose calls take minutes, and whose store is gone with it."""
    daemon = DaemonThread(tmp_path / "data", speed=0.01, drain=0.05, store="memory")
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def test_a_run_its_daemon_forgot_is_told(forgetful: DaemonThread) -> None:
    """Kept in memory a run is gone with its daemon: whoever waits for it is told so, with exit code 1."""
    stopped = threading.Event()

    def restart() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not forgetful.live_runs():
            time.sleep(0.01)
        forgetful.stop(abruptly=True)
        forgetful.start()
        stopped.set()

    thread = threading.Thread(target=restart)
    thread.start()
    result = headrace(forgetful.url, "run", "x", "--max-tokens", "100000", "--timeout", "60")
    thread.join()
    assert stopped.is_set()
    assert result.exit_code == 1
    assert "no longer knows run" in result.stderr


# Wrong use


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run", "x", "--rpm", "5"], "--rpm: only with --embedded"),
        (["run", "x", "--embedded", "--detach", "--no-wait"], "--detach, --no-wait: only with a daemon"),
        (["run", "clerk", "x", "--embedded"], "agent 'clerk' is configured in a daemon"),
        (["run", "one", "two", "three"], "and not 3 words"),
        (["run", " "], "the task is empty"),
        (["run", "clerk"], "clerk is an agent, and there is no task for it"),
        (["run", "nobody", "x"], "no agent is called 'nobody'"),
        (["run", "clerk", "x", "--model", "m"], "an agent has its own"),
        (["run", "x", "--max-rounds", "0"], "--max-rounds: "),
        (["run", "x", "--dollars", "-1"], "--dollars: "),
        (["run", "x", "--tenant", "no spaces"], "tenant: must be 1 to 64 letters"),
        (["cancel"], "name the runs to cancel"),
        (["show", "nobody"], "there is no run nobody"),
        (["events", "nobody"], "there is no run nobody"),
        (["job", "show", "nobody"], "nobody"),
        (["job", "results", "nobody", "-o", "{out}"], "nobody"),
        (["job", "results", "nobody", "--resume"], "nobody"),
        (["ps", "--url", "nonsense"], "is no address of a daemon"),
        (["job", "start", "-i", "{in}", "--prompt", "{text}", "--tpm", "5", "--grace", "1"], "--tpm, --grace: only"),
        (["job", "start", "-i", "{in}", "--prompt", "{text}", "--embedded", "--agent", "clerk"], "--agent: only"),
        (["job", "start", "-i", "{in}", "--prompt", "{text}", "--agent", "clerk", "--model", "m"], "give one only"),
        (["job", "start", "-i", "{in}", "--prompt", "{text}", "--name", "a b"], "--name: must be"),
        (["job", "start", "-i", "{in}", "--prompt", "{text}", "--agent", "nobody", "-o", "{out}"], "no agent is"),
        (["job", "start", "-i", "{in}", "--prompt", "{other}", "-o", "{out}"], "the prompt names {other}"),
        (["job", "start", "-i", "nowhere.jsonl", "--prompt", "{text}"], "no such file"),
    ],
)
def test_wrong_use_is_one_message(
    daemon: DaemonThread, three: Path, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    """Whatever makes no sense is one sentence that names it, and exit code 2."""
    places = {"{in}": str(three), "{out}": str(tmp_path / "out.jsonl")}
    result = headrace(daemon.url, *(places.get(argument, argument) for argument in arguments))
    message = str(result.exception) if result.exit_code == 1 else result.stderr
    assert result.exit_code == 2 or type(result.exception).__name__ in ("WrongOption", "InvalidLimits")
    assert expected in message
    assert len(message.splitlines()) == 1


def test_without_a_daemon_each_command_names_the_way_out(tmp_path: Path, three: Path) -> None:
    """Exit code 3; `run` and `job start` name both ways out, the others the one."""
    daemon = DaemonThread(tmp_path)
    out = tmp_path / "out.jsonl"
    both = (["run", "some task"], ["job", "start", "-i", str(three), "--prompt", "{text}", "-o", str(out)])
    one = (["ps"], ["show", "r"], ["events", "r"], ["cancel", "r"], ["job", "ls"], ["job", "retry", "j"])
    for arguments in both + one:
        result = headrace(daemon.url, *arguments)
        assert result.exit_code == 3, arguments
        assert f"there is no daemon at {daemon.url} (connection refused)" in result.stderr
        assert "`headrace serve`" in result.stderr
        assert ("--embedded" in result.stderr) == (arguments in both)
    daemon.close()


def test_embedded_needs_no_daemon(tmp_path: Path) -> None:
    """`run --embedded` answers in this process, as a document too, with budget and exit code as before a daemon."""
    daemon = DaemonThread(tmp_path)
    result = headrace(daemon.url, "run", "--embedded", "--speed", "5000", "hello")
    assert (result.exit_code, result.stdout[:10]) == (0, 'On "hello"')
    document = headrace(
        daemon.url, "run", "--embedded", "--speed", "5000", "hello", "--json", "--max-tokens-total", "1"
    )
    assert document.exit_code == 1
    assert json.loads(document.stdout)["reason"] == "token_budget_exceeded"
    assert "raise --max-tokens-total" in document.stderr
    daemon.close()


def test_help_has_examples_that_parse(daemon: DaemonThread) -> None:
    """Every command says what it does and shows examples, each on a line of its own, and names the usual address."""
    commands = (["run"], ["ps"], ["show"], ["events"], ["cancel"], ["job", "start"], ["job", "results"], ["job", "ls"])
    for command in commands:
        text = headrace(daemon.url, *command, "--help").stdout
        examples = text.partition("Example")[2]
        assert f"headrace {' '.join(command)}" in examples
        assert all(line.count("headrace ") <= 2 for line in examples.splitlines())
        assert DEFAULT_URL in text
