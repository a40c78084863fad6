"""The pool benchmark, small: what it measures, what it says, and what it refuses."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.cli import app
from bench.pool import PoolResult
from bench.pool_table import pool_table


def test_both_pools_are_measured_in_one_run() -> None:
    """A small job goes through a daemon and through worker processes, and every figure of it is there."""
    done = CliRunner().invoke(app, ["pool", "--runs", "6", "--calls", "2", "--repeats", "1", "--json"])
    assert done.exit_code == 0, done.output
    local, workers = json.loads(done.stdout)
    assert [local["pool"], workers["pool"]] == ["local", "workers"]
    assert (local["ratio"], local["overhead_ms"], local["added_ms"]) == (1.0, 0.0, 0.0)
    assert workers["runs_per_second"] > 0
    assert workers["overhead_ms"] == pytest.approx(1000 / workers["runs_per_second"] - 1000 / local["runs_per_second"])
    assert "repeat 1/1" in done.stderr


def test_the_table_has_a_row_for_each_pool() -> None:
    """What is more than the first pool is shown for the others only."""
    local = PoolResult("local", 400, 3, 200.0, 1.0, 0.0, 40.0, 0.0)
    workers = PoolResult("workers", 400, 3, 20.0, 0.1, 45.0, 110.0, 70.0)
    console = Console(width=80, record=True)
    console.print(pool_table([local, workers]))
    rows = [line.split() for line in console.export_text().splitlines()]
    assert ["local", "200", "40.0"] in rows
    assert ["workers", "20", "0.10", "45.00", "110.0", "70.0"] in rows


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--pools", "local,threads"], "there is no pool threads"), (["--pools", "ray"], "--cluster ADDRESS")],
)
def test_wrong_usage_is_refused(options: list[str], says: str) -> None:
    """What is no pool, and Ray without a cluster, is refused before anything is started."""
    done = CliRunner().invoke(app, ["pool", *options], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert says in done.stderr
