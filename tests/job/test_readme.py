"""README.md keeps its promises: its program runs and prints what stands below it, its options and files exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator.cli.app import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_program_prints_what_stands_below_it(tmp_path: Path) -> None:
    """The one Python block runs from any folder, and its output is the block that follows."""
    match = re.search(r"```python\n(.*?)```\s+```\n(.*?)```", TEXT, re.DOTALL)
    assert match is not None
    program, printed = match.groups()
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == sorted(printed.splitlines())


def test_its_options_are_there() -> None:
    """Every option it names belongs to one of the commands."""
    helps = [
        CliRunner().invoke(app, [*command, "--help"]).stdout for command in (["job", "start"], ["simulate"], ["demo"])
    ]
    for option in set(re.findall(r"--[a-z][a-z-]+", TEXT)):
        assert any(f"{option} " in text for text in helps), option


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#:]+)[^)]*\)", TEXT))))
def test_its_links_lead_somewhere(target: str) -> None:
    """Every file it points to exists."""
    assert (ROOT / target).exists()


def test_its_make_targets_are_there() -> None:
    """Every `make` word it names is a target."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z]+)", TEXT))
    assert named
    assert named <= targets
