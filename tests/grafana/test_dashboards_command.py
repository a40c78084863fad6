"""`headrace dashboards`: writes what is shipped, and never what somebody changed."""

from pathlib import Path

from typer.testing import CliRunner, Result

from orchestrator.cli.app import app
from orchestrator.dashboards.shipped import shipped


def dashboards(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["dashboards", *map(str, arguments)])


def written(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_written(tmp_path: Path) -> None:
    """All files are written into a folder that was not there, each is named, and what comes next is said."""
    folder = tmp_path / "new" / "monitoring"
    result = dashboards(folder)
    assert result.exit_code == 0, result.output
    assert written(folder) == dict(shipped())
    assert sorted(result.stdout.splitlines()) == sorted(str(folder / path) for path in shipped())
    assert f"prometheus --config.file={folder}/prometheus.yml" in result.stderr


def test_what_is_the_same_stays(tmp_path: Path) -> None:
    """A second time writes nothing, and says so."""
    dashboards(tmp_path)
    result = dashboards(tmp_path)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"{len(shipped())} files were there already" in result.stderr


def test_what_was_changed_is_kept(tmp_path: Path) -> None:
    """With one changed file nothing is written at all, and the file is named."""
    (tmp_path / "alerts.yml").write_text("groups: []\n")
    result = dashboards(tmp_path)
    assert result.exit_code == 2
    assert "alerts.yml; --force replaces" in result.stderr
    assert written(tmp_path) == {"alerts.yml": "groups: []\n"}


def test_force_replaces_it(tmp_path: Path) -> None:
    """With --force the changed file is replaced; others that are not ours stay."""
    (tmp_path / "alerts.yml").write_text("groups: []\n")
    (tmp_path / "mine.yml").write_text("mine")
    assert dashboards(tmp_path, "--force").exit_code == 0
    assert written(tmp_path) == {**shipped(), "mine.yml": "mine"}


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    """A folder that is a file is one sentence, not a traceback."""
    (tmp_path / "taken").write_text("")
    result = dashboards(tmp_path / "taken")
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
    assert "taken" in result.stderr
