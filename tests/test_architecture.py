"""ARCHITECTURE.md says what is so: its list of files is the tree, and its diagram is the table."""

import re
from pathlib import Path

from agents.lifecycle import mermaid

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
FOLDERS = ("agents", "orchestrator", "bench", "examples")


def listed() -> list[str]:
    """The files of "The folders": names in the first column, below a heading that may name their folder."""
    section = TEXT.partition("\n## The folders\n")[2].partition("\n## ")[0]
    files, folder = [], ""
    for line in section.splitlines():
        if line.startswith("### "):
            named = re.findall(r"`([^`]+/)`", line)
            folder = named[0] if len(named) == 1 else ""
        elif row := re.match(r"\| `([^`]+)` \|", line):
            files.append(folder + row[1])
    return files


def test_every_file_has_its_line_and_every_line_its_file() -> None:
    """The list names each module with anything in it exactly once, and nothing that is not there."""
    tree = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert set(listed()) - tree == set(), "listed, but not there"
    assert tree - set(listed()) == set(), "there, but not listed"
    assert len(listed()) == len(tree), "listed twice"


def test_the_diagram_is_the_table() -> None:
    """The run's state diagram is what the transition table renders, to the letter."""
    assert f"```mermaid\n{mermaid()}```\n" in TEXT
