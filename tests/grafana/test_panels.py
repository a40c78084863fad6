"""The dashboards against Grafana's own types, which needs Node.js."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

CHECK: Final = Path(__file__).parents[2] / "grafana" / "panels" / "check"
DASHBOARDS: Final = sorted((CHECK.parents[1] / "dashboards").glob("*.json"))
PARTS: Final = ("package.json", ".npmrc", "check.mjs", "dashboard.ts")

Json = dict[str, Any]


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The check with its packages, in a folder of its own."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        if os.environ.get("CI"):
            pytest.fail(f"{' and '.join(missing)} must be there: apt install nodejs npm")
        pytest.skip(f"{' and '.join(missing)} not installed (Debian: apt install nodejs npm)")
    folder = tmp_path_factory.mktemp("check")
    for name in PARTS:
        shutil.copy(CHECK / name, folder / name)
    said = subprocess.run(
        ["npm", "install", "--silent", "--ignore-scripts"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return folder


def check(folder: Path, *files: Path) -> tuple[int, list[str], str]:
    """The exit code, the lines that name a file, and what went to stderr."""
    ran = subprocess.run(
        ["node", "check.mjs", *map(str, files)], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return ran.returncode, [line for line in ran.stdout.splitlines() if not line.startswith(" ")], ran.stderr


def test_all_dashboards_are_what_grafana_knows(checker: Path) -> None:
    """No dashboard has a type, a key or a word that Grafana's schema does not allow."""
    assert check(checker, *DASHBOARDS) == (0, ["5 dashboards checked: all as Grafana has them"], "")


def _first(board: Json, kind: str) -> Json:
    found: Json = next(panel for panel in board["panels"] if panel["type"] == kind)
    return found


def _custom(board: Json) -> Json:
    custom: Json = _first(board, "timeseries")["fieldConfig"]["defaults"]["custom"]
    return custom


FAULTS: Final[dict[str, tuple[Callable[[Json], Any], str]]] = {
    "a type": (lambda board: board.update(refresh=10), "string"),
    "an unknown key": (lambda board: board.update(refersh="10s"), "refersh"),
    "a version that is missing": (lambda board: board.pop("schemaVersion"), "schemaVersion"),
    "a panel's unknown key": (lambda board: _first(board, "stat").update(titel="x"), "titel"),
    "an option's unknown key": (
        lambda board: _first(board, "stat")["options"].update(colourMode="value"),
        "colourMode",
    ),
    "an option's word": (lambda board: _first(board, "stat")["options"].update(colorMode="loud"), "loud"),
    "another kind's option": (lambda board: _first(board, "table")["options"].update(graphMode="area"), "graphMode"),
    "a drawing style": (lambda board: _custom(board).update(drawStyle="wiggly"), "wiggly"),
    "a line's type": (lambda board: _custom(board).update(lineWidth="1"), "number"),
    "a line's unknown key": (lambda board: _custom(board).update(lineWitdh=1), "lineWitdh"),
    "lines where there are none": (
        lambda board: _first(board, "stat")["fieldConfig"]["defaults"].update(custom={"lineWidth": 1}),
        "never",
    ),
    "a unit": (lambda board: _first(board, "timeseries")["fieldConfig"]["defaults"].update(unit=3), "string"),
    "a threshold": (
        lambda board: _first(board, "stat")["fieldConfig"]["defaults"]["thresholds"].update(mode="relative"),
        "relative",
    ),
    "a query's unknown key": (lambda board: _first(board, "stat")["targets"][0].update(legend="x"), "legend"),
    "a query's format": (lambda board: _first(board, "stat")["targets"][0].update(format="graph"), "graph"),
    "a place": (lambda board: _first(board, "table")["gridPos"].update(w="wide"), "number"),
    "a kind of panel": (lambda board: _first(board, "table").update(type="tabel"), "tabel"),
    "a variable's type": (lambda board: board["templating"]["list"][1].update(type="kwery"), "kwery"),
    "an annotation's query": (lambda board: board["annotations"]["list"][0].update(expr="up"), "expr"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(checker: Path, tmp_path: Path, fault: str) -> None:
    """Each of these mistakes in an otherwise good dashboard is found, and said in its own words with its line."""
    plant, word = FAULTS[fault]
    board = json.loads((DASHBOARDS[0].parent / "overview.json").read_text(encoding="utf-8"))
    plant(board)
    planted = tmp_path / "planted.json"
    planted.write_text(json.dumps(board, indent=2), encoding="utf-8")
    code, said, _ = check(checker, planted)
    # of a panel of an unknown kind nothing else fits either
    assert code == 1
    assert len(said) == 1 or fault == "a kind of panel", said
    assert re.match(rf"{re.escape(str(planted))}:\d+[: ]", said[0]), said
    assert word in said[0], said


def test_a_fault_is_told_with_its_panel_and_line(checker: Path, tmp_path: Path) -> None:
    """Of a fault within a panel its reader gets the line of the file, and the panel's title."""
    text = (DASHBOARDS[0].parent / "overview.json").read_text(encoding="utf-8")
    planted = tmp_path / "planted.json"
    planted.write_text(
        text.replace('"title": "Waiting calls"', '"title": "Waiting calls", "titel": 1'), encoding="utf-8"
    )
    line = text[: text.index('"title": "Waiting calls"')].count("\n") + 1
    _, said, _ = check(checker, planted)
    assert said[0].startswith(f'{planted}:{line} (panel "Waiting calls'), said


def test_a_file_that_is_no_json_is_named(checker: Path, tmp_path: Path) -> None:
    """What is not JSON is a fault of its file; a file that is not there, or none at all, is a wrong call."""
    bad = tmp_path / "bad.json"
    bad.write_text("{", encoding="utf-8")
    code, said, _ = check(checker, bad, *DASHBOARDS)
    assert (code, len(said)) == (1, 1)
    assert said[0].startswith(f"{bad}: not JSON: ")
    assert check(checker, tmp_path / "none.json")[0] == 2
    assert check(checker)[0] == 2
