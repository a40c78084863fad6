"""A debate from its job file to its transcript: the shipped review, before a whole daemon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.client.daemon_thread import CONFIG, DaemonThread, headrace

EXAMPLES = Path(__file__).parents[2] / "examples"
REVIEW = EXAMPLES / "review_a_change.toml"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonThread]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    agents = (EXAMPLES / "review_daemon.toml").read_text().partition("[agents.author]")
    config = CONFIG.replace("speed = {speed}", 'speed = {speed}\nscript = "review_a_change:script"')
    daemon = DaemonThread(tmp_path / "data", config=config + agents[1] + agents[2])
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def test_the_review_converges_and_is_read_as_a_transcript(daemon: DaemonThread, tmp_path: Path) -> None:
    """The command prints the last proposal, and the daemon has every round of it to be read by people."""
    result = headrace(daemon.url, "job", "start", REVIEW, "-o", tmp_path / "out.jsonl")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "Merge, with `found` as a local list, and `if page > answer['pages']`.",
    ), result.output
    job = json.loads(headrace(daemon.url, "job", "ls", "--json").stdout)["jobs"][0]["job"]
    said = headrace(daemon.url, "job", "results", job, "--transcript").stdout.splitlines()
    assert said[0] == "1. author"
    assert "   reopens C2: with one page, page is 2 when compared: it never ends" in said
    assert "ended as converged after 8 rounds, 3 claims" in said
    assert len(headrace(daemon.url, "job", "results", job, "--table").stdout.splitlines()) == 9
    shown = headrace(daemon.url, "job", "show", job).stdout
    assert "author, correctness, interfaces; at most 24 rounds" in shown
    assert f"headrace job results {job} --transcript" in shown
    both = headrace(daemon.url, "job", "results", job, "--transcript", "--table")
    assert "--transcript" in str(both.exception)


def test_a_dry_run_of_the_review_counts_its_rounds(daemon: DaemonThread) -> None:
    """All rounds that the file allows, whoever speaks in them."""
    told = json.loads(headrace(daemon.url, "job", "start", REVIEW, "--dry-run", "--json").stdout)
    assert (told["calls"], told["output_tokens"]) == (24, 24 * 600)


def test_what_is_no_debate_has_no_transcript(daemon: DaemonThread, tmp_path: Path) -> None:
    """Inputs are for other jobs, and so is a transcript not for them."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n')
    start = ("job", "start", "-i", tmp_path / "in.jsonl", "-o", tmp_path / "out", "--json")
    job = json.loads(headrace(daemon.url, *start, "--prompt", "{text}").stdout)["job"]
    assert "is no debate" in str(headrace(daemon.url, "job", "results", job, "--transcript").output) + str(
        headrace(daemon.url, "job", "results", job, "--transcript").exception
    )
    refused = headrace(daemon.url, "job", "start", REVIEW, "-i", tmp_path / "in.jsonl")
    assert "--input: a debate is about its prompt" in f"{refused.output}{refused.exception}"
