"""The dashboards against Grafana's own schema package, which needs Node.js."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PANELS = Path(__file__).parents[2] / "grafana" / "panels"
DASHBOARD = PANELS.parent / "dashboards" / "overview.json"


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The check with its packages, in a folder of its own."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        if os.environ.get("CI"):
            pytest.fail(f"{' and '.join(missing)} must be there: apt install nodejs npm")
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: apt install nodejs npm)")
    folder = tmp_path_factory.mktemp("panels")
    for name in ("package.json", ".npmrc", "check.mjs"):
        shutil.copy(PANELS / name, folder / name)
    subprocess.run(["npm", "install", "--silent"], cwd=folder, check=True, timeout=180)
    return folder


def check(folder: Path, *files: Path) -> tuple[int, str]:
    result = subprocess.run(
        ["node", "check.mjs", *map(str, files)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return result.returncode, result.stdout + result.stderr


def test_all_dashboards_are_what_grafana_knows(checker: Path) -> None:
    """No dashboard has a type, a key or a word that Grafana's schema does not allow."""
    code, said = check(checker, *sorted(DASHBOARD.parent.glob("*.json")))
    assert (code, said.splitlines()[-1:]) == (0, ["5 dashboards held against @grafana/schema: nothing found"]), said


def _first(dashboard: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(panel for panel in dashboard["panels"] if panel["type"] == kind)
    return found


FAULTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a type": lambda board: board.update(refresh=10),
    "an unknown key": lambda board: board.update(refersh="10s"),
    "a panel's unknown key": lambda board: _first(board, "stat").update(titel="x"),
    "an option's unknown key": lambda board: _first(board, "stat")["options"].update(colourMode="value"),
    "an option's word": lambda board: _first(board, "stat")["options"].update(colorMode="loud"),
    "a drawing style": lambda board: _first(board, "timeseries")["fieldConfig"]["defaults"]["custom"].update(
        drawStyle="wiggly"
    ),
    "a unit": lambda board: _first(board, "timeseries")["fieldConfig"]["defaults"].update(unit=3),
    "a place": lambda board: _first(board, "table")["gridPos"].update(w="wide"),
    "a kind of panel": lambda board: _first(board, "table").update(type="tabel"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(checker: Path, tmp_path: Path, fault: str) -> None:
    """Each of these mistakes in an otherwise good dashboard is found, and nothing else."""
    board = json.loads(DASHBOARD.read_text())
    FAULTS[fault](board)
    planted = tmp_path / "planted.json"
    planted.write_text(json.dumps(board))
    code, said = check(checker, planted)
    assert code == 1, said
    assert said.splitlines()[-1].endswith("1 problems"), said


def test_a_file_that_is_no_json_is_named(checker: Path, tmp_path: Path) -> None:
    """What cannot be read ends with 2 and a sentence."""
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    code, said = check(checker, bad)
    assert code == 2
    assert "check:" in said
