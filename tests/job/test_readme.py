"""README.md keeps its promises: its program runs and prints what stands below it, its options and files exist."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bench.cli import app as bench
from orchestrator.cli.app import app
from orchestrator.config.decode import decode_text

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_program_prints_what_stands_below_it(tmp_path: Path) -> None:
    """The Python block with its output right below runs from any folder, and prints that."""
    block = r"((?:(?!```).)*)```"
    match = re.search(rf"```python\n{block}\s+```\n{block}", TEXT, re.DOTALL)
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


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands below one, with their words."""
    children = getattr(command, "commands", None)
    if children is None:
        yield " ".join(path), command
        return
    for name, child in children.items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands(typer.main.get_command(app)))
BENCHES = dict(commands(typer.main.get_command(bench)))


def test_its_options_are_there() -> None:
    """Every option it names belongs to one of the commands."""
    known = {
        option
        for command in (typer.main.get_command(app), *(COMMANDS | BENCHES).values())
        for parameter in command.params
        for option in parameter.opts
    }
    named = set(re.findall(r"--[a-z][a-z-]+", TEXT))
    assert named
    assert named <= known | {"--help"}


def test_its_commands_are_there() -> None:
    """Every `headrace` command line it shows begins with a command that there is."""
    lines = re.findall(r"(?:\$ |`)headrace ([a-z][^`\n]*)", TEXT)
    assert lines
    for line in lines:
        assert any(f"{line} ".startswith(f"{name} ") or f"{name} ".startswith(f"{line} ") for name in COMMANDS), line


def test_its_configuration_is_one() -> None:
    """The file it shows is taken whole, and its names are there afterwards."""
    whole = [text for text in re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL) if "[backends." in text]
    config = decode_text(whole[0], "README.md")
    assert (list(config.backends), list(config.agents), list(config.tenants)) == (
        ["openai", "spare"],
        ["clerk"],
        ["shop", "archive"],
    )


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
