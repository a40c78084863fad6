"""A job's results as a table for people, and the stages of a job in words."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog
from msgspec.structs import replace

from agents.messages import Usage
from orchestrator.cli.job_progress import stage_words
from orchestrator.cli.job_report import job_facts, report_job
from orchestrator.cli.job_table import MOST_ROWS, Row, results_table, take_in
from orchestrator.cli.render import console
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.errors import BadAnswer
from orchestrator.jobs.record import JobLine
from orchestrator.views.jobs import GatherRequest, JobView
from tests.client.daemon_thread import DaemonThread, headrace

VIEW = JobView(
    job="j",
    name="j",
    tenant="default",
    priority="batch",
    agent="plain",
    model="m",
    weight=1,
    workers=4,
    phase="done",
    created=0,
    ended=1,
    received=4,
    complete=True,
    upload_offset=0,
    done=1,
    failed=1,
    live=0,
    cancelled=0,
    usage=Usage(),
    micro_dollars=None,
    message="",
    failures={},
    errors=(),
    result_bytes=0,
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path / "data")
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def shown(table: object) -> list[list[str]]:
    out = console()
    with out.capture() as capture:
        out.print(table)
    return [line.split() for line in capture.get().splitlines()]


def line(ordinal: int, state: str = "done", **fields: object) -> bytes:
    reason = "final_answer" if state == "done" else "cancelled"
    whole = {"ordinal": ordinal, "origin": f"in:{ordinal}", "state": state, "reason": reason, **fields}
    return msgspec.json.encode(msgspec.convert(whole, JobLine))


def test_rows_are_in_the_order_of_inputs_and_none_is_left_out() -> None:
    """The last line of an item counts, whenever it came; an item without one has a row that says so."""
    rows: dict[int, Row] = {}
    for data in (line(3, "failed", error="lost"), line(1, "failed"), line(1, value="Paris", usage={"input": 2})):
        take_in(rows, data)
    head, *body = shown(results_table(VIEW, rows))
    assert head == ["ITEM", "INPUT", "STATE", "REASON", "TOKENS", "ANSWER"]
    assert [row[0] for row in body] == ["1", "2", "3", "4"]
    assert body[0] == ["1", "in:1", "done", "final_answer", *body[0][4:-1], "Paris"]
    assert body[1] == ["2", "not", "run"]
    assert body[2] == ["3", "in:3", "failed", "cancelled", "lost"]
    assert shown(results_table(replace(VIEW, phase="running"), rows))[2] == ["2", "open"]


def test_a_table_is_bounded_whatever_the_job() -> None:
    """Of a job of any size no more rows are held than are printed."""
    rows: dict[int, Row] = {}
    for ordinal in (1, MOST_ROWS, MOST_ROWS + 1):
        take_in(rows, line(ordinal))
    assert sorted(rows) == [1, MOST_ROWS]
    assert results_table(replace(VIEW, received=1_000_000), rows).row_count == MOST_ROWS
    assert results_table(replace(VIEW, received=0), {}).row_count == 0
    with pytest.raises(BadAnswer):
        take_in(rows, b"{}")


def test_a_daemons_results_are_shown_as_a_table(daemon: DaemonThread, tmp_path: Path) -> None:
    """A failed item has its row among the others, and options that a table cannot follow are refused."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": oops}\n{"text": "three"}\n')
    start = headrace(
        daemon.url, "job", "start", "-i", tmp_path / "in.jsonl", "--prompt", "{text}", "-o", tmp_path / "o", "--json"
    )
    job = json.loads(start.stdout)["job"]
    table = [row.split() for row in headrace(daemon.url, "job", "results", job, "--table").stdout.splitlines()[1:]]
    assert [(row[0], row[2], row[3]) for row in table] == [
        ("1", "done", "final_answer"),
        ("2", "failed", "invalid_input"),
        ("3", "done", "final_answer"),
    ]
    assert "--table" in str(headrace(daemon.url, "job", "results", job, "--table", "--follow").exception)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, ""),
        ({"stage": "planning"}, "planning"),
        ({"stage": "synthesis"}, "writing its answer"),
        ({"gather": GatherRequest(policy="quorum", count=3)}, "enough with 3 done"),
        ({"gather": GatherRequest(policy="first", count=3)}, "enough with 3 ended"),
        ({"gather": GatherRequest(policy="deadline", seconds=90)}, "closes after 1 min 30 s"),
    ],
)
def test_a_stage_is_told_in_words(fields: dict[str, object], words: str) -> None:
    """Whoever waits is told what the job is at, and what it waits for."""
    view = replace(VIEW, phase="running", **fields)
    assert stage_words(view) == words
    assert ["stage", *(words or "working").split()] in shown(job_facts(view, 2))


def test_the_answer_of_a_job_goes_to_stdout_where_results_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    """With its results in a file a job prints what its synthesis wrote, and the rest is told beside it."""
    view = replace(VIEW, answer="All of them.")
    report_job(view, ending=SignalEnd(), json=False, quiet=True, results_on_stdout=False)
    assert capsys.readouterr().out == "All of them.\n"
    report_job(view, ending=SignalEnd(), json=False, quiet=False, results_on_stdout=True)
    told = capsys.readouterr()
    assert told.out == ""
    assert "All of them." in told.err


def test_only_what_failed_is_tried_again_on_request(daemon: DaemonThread, tmp_path: Path) -> None:
    """`retry --failed` reaches the daemon as that: the item that failed gets another line, and no other does."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": oops}\n')
    start = headrace(
        daemon.url, "job", "start", "-i", tmp_path / "in.jsonl", "--prompt", "{text}", "-o", tmp_path / "o", "--json"
    )
    job = json.loads(start.stdout)["job"]
    assert headrace(daemon.url, "job", "retry", job, "--failed").exit_code == 0
    assert headrace(daemon.url, "job", "results", job, "-o", tmp_path / "all", "--follow").exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "all").read_text().splitlines()]
    assert sorted((line["ordinal"], line.get("attempt", 1)) for line in lines) == [(1, 1), (2, 1), (2, 2)]
    refused = headrace(daemon.url, "job", "retry", "nobody", "--failed")
    assert (refused.exit_code, "there is no job" in refused.stderr) == (2, True)
