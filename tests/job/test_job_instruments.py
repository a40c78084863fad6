"""What an embedded job shows of itself: a file of metrics, log lines, and retries above the progress bar."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner, Result

from agents.port import Flow, Priority
from orchestrator.cli.app import app
from orchestrator.cli.progress import LiveDisplay, Snapshot
from orchestrator.job_log import TERSE_BURST, open_log
from orchestrator.metrics_file import MetricsError, MetricsFile, check_metrics_path
from orchestrator.transitions import Transition, hooks_by_kind


@pytest.fixture(autouse=True)
def structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'"item {number}"\n' for number in range(10)))
    return path


def start(path: Path, *more: str) -> Result:
    out = str(path.with_name("out.jsonl"))
    command = ["job", "start", "--embedded", "--speed", "5000", "-i", str(path), "-o", out, "--prompt", "Say {text}"]
    return CliRunner().invoke(app, [*command, *more])


def values(path: Path) -> dict[str, float]:
    """All samples of an exposition by name and labels, read by Prometheus' own parser."""
    return {
        sample.name + "".join(f",{name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_metrics_count_calls_runs_and_cost(ten: Path) -> None:
    """After a job the file parses and agrees with the summary: calls, tokens, cost, runs, limits, turns."""
    file = ten.with_name("job.prom")
    result = start(ten, "--metrics", str(file), "--json", "--rpm", "1000", "--price-input", "1", "--price-output", "2")
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    found = values(file)
    who = ",backend=simulated"
    assert found[f"headrace_calls_total{who},outcome=ok,priority=batch,tenant=default"] == 10
    assert found[f"headrace_tokens_total{who},tenant=default,type=output"] == summary["tokens"]["output"]
    cost = found[f"headrace_cost_dollars_total{who},tenant=default"]
    assert cost == pytest.approx(summary["cost_dollars"], abs=1e-5)
    assert found["headrace_runs_finished_total,reason=final_answer,state=completed"] == 10
    assert found["headrace_runs,state=waiting_model"] == 0
    assert found[f"headrace_limit_used_ratio{who},endpoint=simulated,limit=requests/min"] == pytest.approx(0.01)
    assert found["headrace_owner_loop_seconds_count"] > 0
    assert sorted(path.name for path in ten.parent.iterdir()) == ["in.jsonl", "job.prom", "out.jsonl"]


def test_metrics_need_a_place_for_a_file(ten: Path) -> None:
    """A missing folder and a device are refused before anything starts, and the device is left alone."""
    result = start(ten, "--metrics", str(ten.with_name("no") / "job.prom"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "job.prom: no such folder" in result.stderr
    assert not ten.with_name("out.jsonl").exists()
    with pytest.raises(MetricsError, match="no regular file"):
        check_metrics_path(Path("/dev/null"))


async def test_the_file_is_replaced_whole_and_again(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    """The text changes every few seconds, behind a link too, and a reader who has the old file open keeps it."""
    (tmp_path / "real").write_bytes(b"old")
    link = tmp_path / "job.prom"
    link.symlink_to("real")
    file = MetricsFile(link, lambda: b"at %.0f" % (trio.current_time() - began), print)
    began = trio.current_time()
    with link.open("rb") as reader:
        file.begin()
        assert (reader.read(), link.read_bytes()) == (b"old", b"at 0")
    with trio.move_on_after(12):
        await file.run(every=5)
    assert link.read_bytes() == b"at 10"
    assert link.is_symlink()


def test_a_write_that_fails_is_told_once(tmp_path: Path) -> None:
    """If the folder goes while a job works, one message says so and the work goes on."""
    folder = tmp_path / "metrics"
    folder.mkdir()
    told: list[str] = []
    file = MetricsFile(folder / "job.prom", lambda: b"", told.append)
    file.begin()
    (folder / "job.prom").unlink()
    folder.rmdir()
    file.write()
    file.write()
    assert told == [f"{folder}/job.prom: the metrics cannot be written: no such file or directory"]


def test_verbose_logs_every_step(ten: Path) -> None:
    """With --verbose each call's queueing, start, first token and end are lines on standard error."""
    logged = start(ten, "-v", "--quiet").stderr
    for step in ("queued", "started", "first_token", "finished"):
        assert logged.count(f"call {step} ") == 10
    assert "item 3" not in logged  # no prompt, no answer


def test_json_logs_are_objects_and_nothing_else(ten: Path) -> None:
    """With --log-json every line on standard error is an object, as results and table go elsewhere."""
    lines = [json.loads(line) for line in start(ten, "--log-json", "-v").stderr.splitlines()]
    assert sum(line["event"] == "call finished" for line in lines) == 10
    assert start(ten, "--overwrite", "--log-json").stderr == ""  # nothing went wrong


def retrying(at: float, run: str) -> Transition:
    return Transition(
        "retrying", at, "api", Flow("t", "job", run), Priority.BATCH, "api", 1, "connect_timeout", seconds=2.0
    )


def test_few_retries_are_told_and_the_rest_counted() -> None:
    """A person reads a line for each of the first retries of a kind, and how many there were after them."""
    said: list[str] = []
    hook = open_log(said.append, verbose=False, json=False)
    for number in range(100):
        hook(retrying(number / 1000, str(number)))
    assert len(said) == TERSE_BURST
    assert said[0] == "headrace: api: connect timeout, tried again in 2.0 s (item 0, attempt 1)"
    hook(retrying(60.0, "100"))
    assert said[-1].endswith(f"(item 100, attempt 1); {100 - TERSE_BURST} more not shown")
    assert hooks_by_kind([hook])["finished"] == ()  # a failed item is the report's business


def test_a_line_stands_above_the_bar() -> None:
    """On a terminal a line is written whole, above a bar that is wiped before and drawn again after it."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=40, legacy_windows=False)
    taken = Snapshot(
        done=1, failed=0, live=1, total=4, exact=True, waiting=0, in_flight=1, tokens=9, cost=None, seconds=1.0
    )
    with LiveDisplay(console, "job") as display:
        display.show(taken)
        drawn = len(screen.getvalue())
        display.say("a line that is longer than the forty columns there are")
        after = screen.getvalue()[drawn:]
    before, line, rest = after.partition("a line that is longer than the forty columns there are\n")
    assert line
    assert "\x1b[2K" in before
    assert "1 of 4 done" in rest
