"""The load benchmark, small: what it measures and what it says."""

import json

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.load import measure


def test_every_size_is_measured_and_growth_is_last_against_first() -> None:
    """Each size has a rate, a ratio and a memory of its own, and growth compares the ratios of the ends."""
    lines: list[str] = []
    report = measure([(10, 2), (40, 8)], calls=80, repeats=1, on_progress=lines.append)
    assert [(result.agents, result.tenants) for result in report.results] == [(10, 2), (40, 8)]
    for result in report.results:
        assert result.calls_per_second > 0
        assert result.ratio > 0
        assert 500 < result.bytes_per_agent < 100_000
    assert report.growth == report.results[1].ratio / report.results[0].ratio
    assert len(lines) == 2


def test_json_is_one_object_with_the_fields_a_script_reads() -> None:
    """`--json` prints `results`, a list of sizes, and `growth`, and nothing else on standard output."""
    ran = CliRunner().invoke(app, ["load", "--size", "10x2", "--calls", "100", "--repeats", "1", "--json"])
    assert ran.exit_code == 0
    report = json.loads(ran.stdout)
    assert set(report) == {"results", "growth"}
    assert {"agents", "tenants", "calls_per_second", "ratio", "bytes_per_agent"} <= set(report["results"][0])


@pytest.mark.parametrize("size", ["many", "10", "0x0", "2x10", "1000000x1"])
def test_a_size_that_makes_no_sense_is_refused(size: str) -> None:
    """A size that is not AGENTSxTENANTS, with no more tenants than agents, is refused with exit code 2 and says why."""
    ran = CliRunner().invoke(app, ["load", "--size", size])
    assert ran.exit_code == 2
    assert "agents" in ran.stderr.lower()
