"""Every example runs without a model server, and its own assertions hold."""

import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
OTHERS = {"experiment_cells"}
"""What a file beside it is run with, by a test of its own."""
EXAMPLES = sorted(path for path in (*FOLDER.glob("*.py"), *FOLDER.glob("patterns/[!_]*.py")) if path.stem not in OTHERS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_says_something(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as a script, it asserts its own output and prints some."""
    monkeypatch.setattr("sys.argv", [str(path)])
    monkeypatch.syspath_prepend(str(path.parent))  # as Python does for a script
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
