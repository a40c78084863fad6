"""The commands of sessions before a surface: what they send, what they print, and with which exit code."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from agents.amounts import Limits
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.runs import AgentChoice
from tests.client.daemon_thread import DaemonThread, headrace
from tests.client.kept_thread import KeptThread


@pytest.fixture
def served() -> Iterator[KeptThread]:
    with structlog.testing.capture_logs():
        thread = KeptThread()
        yield thread
        thread.close()


def test_a_run_is_told_something(served: KeptThread) -> None:
    """Words, or what comes from a pipe, reach the live run; one that has ended, or is none, refuses them."""
    told = headrace(served.url, "tell", "live", "Only long ones")
    assert (told.exit_code, told.stdout) == (0, "live was told\n")
    piped = headrace(served.url, "tell", "live", "-", "--json", input="from\na pipe")
    assert json.loads(piped.stdout)["run"] == "live"
    assert served.runs.said == [("live", "Only long ones"), ("live", "from\na pipe")]
    over = headrace(served.url, "tell", "over", "x")
    assert (over.exit_code, over.stdout, "run over has ended" in over.stderr) == (2, "", True)
    assert "there is no run q" in headrace(served.url, "tell", "q", "x").stderr


def test_a_run_is_granted_more(served: KeptThread) -> None:
    """Several limits go in one request, and what was granted is said as it was understood."""
    granted = headrace(served.url, "grant", "live", "rounds=10", "dollars=0.5,timeout=2h")
    assert (granted.exit_code, granted.stdout) == (0, "live was granted rounds=10, dollars=0.5, timeout=7200\n")
    assert served.runs.said == [("live", Limits(rounds=10, micro_dollars=500_000, timeout=7200.0))]
    assert headrace(served.url, "grant", "over", "rounds=10").exit_code == 2


def test_sessions_are_listed_and_shown(served: KeptThread) -> None:
    """A row for each, a page at a time; one session with its runs; the same as one JSON document."""
    served.sessions.logs |= {f"s{number}": [] for number in range(5)}
    every = headrace(served.url, "sessions")
    assert (every.exit_code, len(every.stdout.splitlines()), every.stderr) == (0, 7, "")
    few = headrace(served.url, "sessions", "-n", "2")
    assert (len(few.stdout.splitlines()), "-n 0 shows all" in few.stderr) == (3, True)
    document = json.loads(headrace(served.url, "sessions", "-n", "0", "--json").stdout)
    assert [view["session"] for view in document["sessions"]] == ["letters", "s0", "s1", "s2", "s3", "s4"]
    assert "there are no sessions" in headrace(served.url, "sessions", "--tenant", "nobody").stderr
    one = headrace(served.url, "sessions", "letters")
    assert all(words in one.stdout for words in ("letters", "nobody, taken 1 time", "over"))
    assert "the latest 1 of 3 runs" in one.stderr
    assert json.loads(headrace(served.url, "sessions", "letters", "--json").stdout)["total"] == 3
    missing = headrace(served.url, "sessions", "nowhere")
    assert (missing.exit_code, "there is no session nowhere" in missing.stderr) == (2, True)


def test_a_session_goes_out_and_comes_in_again(served: KeptThread, tmp_path: Path) -> None:
    """What was exported, by the session's name or a run's, is imported elsewhere event for event, and only once."""
    path = tmp_path / "letters.jsonl"
    out = headrace(served.url, "export", "letters", "-o", path)
    assert (out.exit_code, out.stdout, "letters: 2 events in" in out.stderr) == (0, "", True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0]["session"] == "letters"
    assert [line["number"] for line in lines[1:]] == [1, 2]
    again = headrace(served.url, "export", "over", "-o", path)
    assert (again.exit_code, "--overwrite" in again.stderr) == (2, True)
    assert headrace(served.url, "export", "over", "-o", path, "--overwrite").exit_code == 0
    there = headrace(served.url, "import", path)
    assert (there.exit_code, "there is a session letters already" in there.stderr) == (2, True)
    log = served.sessions.logs.pop("letters")
    taken = headrace(served.url, "import", path, "--tenant", "web")
    assert (taken.exit_code, taken.stdout) == (0, "letters of tenant web: 2 events, 1 run\n")
    assert served.sessions.logs["letters"] == log
    served.sessions.logs.clear()
    report = json.loads(headrace(served.url, "import", path, "--json").stdout)
    assert (report["tenant"], report["runs"]) == ("default", ["over"])
    nothing = headrace(served.url, "import", tmp_path / "missing")
    assert (nothing.exit_code, "no such file" in nothing.stderr) == (2, True)


def test_an_export_without_a_file_goes_to_standard_output(
    served: KeptThread, capfd: pytest.CaptureFixture[str]
) -> None:
    """The lines alone are on standard output, for whatever stands behind the pipe."""
    assert headrace(served.url, "export", "letters").exit_code == 0
    header, *events = capfd.readouterr().out.splitlines()
    assert (json.loads(header)["events"], len(events)) == (2, 2)


def test_pruning_says_what_it_removes(served: KeptThread) -> None:
    """The span is counted back from now; a dry run says so, and the report is JSON where a program asks."""
    dry = headrace(served.url, "prune", "--older-than", "30d", "--dry-run")
    assert dry.stdout.startswith("1 session, 2 runs, 3,456 events, 7 calls of the ledger would be removed")
    real = headrace(served.url, "prune", "--older-than", "30d", "--json")
    assert json.loads(real.stdout)["events"] == 3456
    (first, dry_run), (second, not_dry) = served.sessions.pruned
    assert (dry_run, not_dry) == (True, False)
    assert first <= second <= time.time() - 30 * 86_400 < first + 60


def test_a_session_is_gone_on_with(served: KeptThread) -> None:
    """Words, an agent, the wish to go on and what is granted arrive as the request says; a busy session is refused."""
    grant = ("--grant", "rounds=10", "--grant", "dollars=0.5")
    for arguments in (
        ("And of Sweden?",),
        ("clerk", "And of Sweden?", *grant),
        ("--continue",),
        ("--continue", *grant),
    ):
        result = headrace(served.url, "run", "--session", "rivers", *arguments, "--detach")
        assert (result.exit_code, len(result.stdout.strip())) == (0, 16), result.stderr
    more = Limits(rounds=10, micro_dollars=500_000)
    assert [(asked.session, asked.task, asked.who, asked.grant) for asked in served.runs.started] == [
        ("rivers", "And of Sweden?", AgentChoice(), Limits()),
        ("rivers", "And of Sweden?", AgentChoice(agent="clerk"), more),
        ("rivers", "", AgentChoice(), Limits()),
        ("rivers", "", AgentChoice(), more),
    ]
    busy = headrace(served.url, "run", "--session", "busy", "x y", "--detach")
    assert (busy.exit_code, "run live of session busy is open" in busy.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], "there is no task: say what to do"),
        (["run", "--session", "s"], "or --continue to go on where the session stopped"),
        (["run", "--continue"], "--continue: name the session with --session"),
        (["run", "x y", "--grant", "rounds=3"], "--grant: name the session with --session"),
        (["run", "--session", "s", "--continue", "x"], "takes no task"),
        (["run", "--session", "s", "x y", "--grant", "round=3"], "--grant: one of rounds=N"),
        (["run", "--session", "s", "x y", "--embedded"], "--session: only with a daemon"),
        (["tell", "live", " "], "the message is empty"),
        (["tell", "live", "-"], "standard input is empty; it was to be the message"),
        (["grant", "live", "rounds"], "LIMIT: one of rounds=N"),
        (["prune", "--older-than", "30"], "--older-than: a number with"),
        (["export", "nothing"], "there is no session and no run nothing"),
    ],
)
def test_wrong_use_of_sessions_is_one_message(served: KeptThread, arguments: list[str], expected: str) -> None:
    """Whatever makes no sense is one sentence that names it, and exit code 2."""
    result = headrace(served.url, *arguments)
    message = str(result.exception) if result.exit_code == 1 else result.stderr
    assert result.exit_code == 2 or type(result.exception).__name__ == "WrongOption"
    assert expected in message
    assert len(message.splitlines()) == 1


COMMANDS = (
    ["tell", "r", "x"],
    ["grant", "r", "rounds=3"],
    ["sessions"],
    ["export", "s"],
    ["prune", "--older-than", "5d"],
)


def test_without_a_daemon_they_name_the_way_out(tmp_path: Path) -> None:
    """Exit code 3, the address, and how a daemon is started; no file is left of an export."""
    daemon = DaemonThread(tmp_path)
    (tmp_path / "log").write_text("{}")
    for arguments in (*COMMANDS, ["import", str(tmp_path / "log")], ["export", "s", "-o", str(tmp_path / "out")]):
        result = headrace(daemon.url, *arguments)
        assert result.exit_code == 3, arguments
        assert f"there is no daemon at {daemon.url} (connection refused)" in result.stderr
        assert "`headrace serve`" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    daemon.close()


def test_their_help_has_examples() -> None:
    """Every command says what it does, shows examples, all of them of itself, and names the usual address."""
    for command in ("tell", "grant", "sessions", "export", "import", "prune"):
        text = headrace(DEFAULT_URL, command, "--help").stdout
        examples = [line for line in text.partition("Example")[2].splitlines() if "headrace" in line]
        assert examples
        assert all(line.strip().startswith(f"headrace {command}") for line in examples)
        assert DEFAULT_URL in text
