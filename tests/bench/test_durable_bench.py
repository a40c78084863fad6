"""The benchmark of durable runs, small: what it measures and what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bench.costs_cli
from bench.cli import app
from bench.durable import Sizes, measure_durable
from bench.durable_agents import CALLS
from bench.durable_disk import file_system, look_at
from bench.durable_resume import measure_resume
from bench.durable_table import tables
from bench.processes import NotStarted

SMALL = Sizes(appenders=(1, 8), appends=40, alone=10, agents=(5,), runs=5, repeats=1, kills=1)


def test_appends_are_counted_as_events_and_as_appends(tmp_path: Path) -> None:
    """A batch of one event is one append, and batches of 1, 2 and 3 are two events each on the average."""
    lines: list[str] = []
    report = measure_durable(SMALL, folder=tmp_path, parts=["appends"], on_progress=lines.append)
    assert report.path is None
    assert report.resume is None
    assert report.appends is not None
    assert report.appends.plain_per_second > 0
    results = {(result.appenders, result.batches): result for result in report.appends.results}
    assert set(results) == {(1, (1,)), (1, (1, 2, 3)), (8, (1,)), (8, (1, 2, 3))}
    assert results[8, (1,)].events_per_second == results[8, (1,)].appends_per_second
    mixed = results[8, (1, 2, 3)]
    assert 1.9 < mixed.events_per_second / mixed.appends_per_second < 2.1
    assert len(lines) == 2
    assert list(tmp_path.iterdir()) == []


def test_agents_do_the_same_over_both_stores(tmp_path: Path) -> None:
    """Every agent makes all its calls, and its log has the 17 events of a run with three rounds of tools."""
    report = measure_durable(SMALL, folder=tmp_path, parts=["path"])
    assert report.path is not None
    (result,) = report.path
    assert (result.agents, result.calls, result.events) == (5, 5 * CALLS, 5 * 17)
    for cost in (result.bare, result.memory, result.durable):
        assert cost.wall_us > 0
        assert cost.cpu_us > 0
    assert result.wall_ratio == result.durable.wall_us / result.memory.wall_us
    assert list(tmp_path.iterdir()) == []


def test_killed_runs_are_all_driven_again(tmp_path: Path) -> None:
    """The second process finds as many runs as the first one started, and nothing is left behind."""
    report = measure_durable(SMALL, folder=tmp_path, parts=["resume"])
    assert report.resume is not None
    assert report.resume.runs == 5
    assert report.resume.resumed == report.resume.opened + report.resume.recovered + report.resume.driven
    assert report.resume.ratio == report.resume.resumed / report.resume.started
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_fails_is_an_error_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process said before it ended in vain is in the error."""
    monkeypatch.setattr("bench.durable_resume.Path", lambda own: Path(own) / "no such folder")
    with pytest.raises(NotStarted, match="no such file"):
        measure_resume(1, folder=tmp_path, repeats=1)


def test_a_process_ends_when_nobody_holds_its_input(tmp_path: Path) -> None:
    """Where the benchmark itself is killed, the process that waits to be killed by it goes as well."""
    command = [sys.executable, "-m", "bench.durable_resume", str(tmp_path / "store.sqlite"), "1", "start"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdin.close()
        assert process.wait(10) == 1


def test_the_file_system_is_the_one_that_the_folder_is_on(tmp_path: Path) -> None:
    """The nearest mount counts, and a sync takes some time."""
    assert file_system(Path("/proc/self")) == "proc"
    assert look_at(tmp_path).sync_us > 0


def test_json_is_one_object_with_the_fields_a_script_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--json` prints one object with the parts that were asked for, and the disk that all depends on."""
    monkeypatch.setattr(bench.costs_cli, "QUICK", SMALL)
    ran = CliRunner().invoke(app, ["durable", "--quick", "--json", "--part", "path", "--dir", str(tmp_path)])
    assert ran.exit_code == 0
    report = json.loads(ran.stdout)
    assert set(report) == {"disk", "appends", "path", "resume"}
    assert report["appends"] is None
    assert {"file_system", "sync_us"} == set(report["disk"])
    assert {"wall_ratio", "cpu_ratio", "agents"} <= set(report["path"][0])


def test_every_part_has_a_table(tmp_path: Path) -> None:
    """A report with three parts is three tables with a row for each case."""
    report = measure_durable(SMALL, folder=tmp_path)
    assert [table.row_count for table in tables(report)] == [4, 1, 1]


@pytest.mark.parametrize("arguments", [["--part", "everything"], ["--dir", "/no/such/folder"]])
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    """A part that there is not, or a folder that there is not, is refused with exit code 2."""
    ran = CliRunner().invoke(app, ["durable", *arguments])
    assert ran.exit_code == 2
