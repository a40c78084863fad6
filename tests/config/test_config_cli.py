"""`headrace init` and `headrace config check`."""

import json
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from orchestrator.cli.config import app as config_app
from orchestrator.cli.init import init
from orchestrator.config.decode import decode_text
from orchestrator.config.environment import require_all
from orchestrator.config.problems import ConfigError
from orchestrator.config.template import template

app = typer.Typer(rich_markup_mode=None)
app.add_typer(config_app, name="config")
app.command("init")(init)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, and no configuration from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    return tmp_path


def test_init_writes_what_check_accepts(here: Path) -> None:
    """The file that init writes is valid as it is, without keys, tools or weights."""
    written = run("init")
    assert written.exit_code == 0
    assert (here / "headrace.toml").read_text() == template()
    checked = run("config", "check")
    assert checked.exit_code == 0, checked.stderr
    for words in ("can be served at http://127.0.0.1:8700", "600 requests/min", "writer", "small (default)"):
        assert words in checked.stdout
    assert checked.stderr == ""


def test_everything_the_template_mentions_exists(here: Path) -> None:
    """With all its examples in force the template decodes: no comment promises a key that there is not."""
    lines = [_uncommented(line) for line in template().splitlines()]
    config = decode_text("\n".join(lines), "template.toml")
    assert set(config.backends) == {"simulated", "openai", "anthropic", "local"}
    assert set(config.tenants) == {"default", "research"}
    assert config.agents["writer"].tools == ("word_count",)


def _uncommented(line: str) -> str:
    """An example put in force: a comment that is a line of TOML."""
    text = line.removeprefix("# ")
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return line
    return text


def test_init_never_overwrites_unless_told(here: Path) -> None:
    """A file that is there stays as it is, a folder gets one inside, and --force replaces the whole file."""
    file = here / "headrace.toml"
    file.write_text("mine")
    refused = run("init")
    assert refused.exit_code == 2
    assert "is there already" in refused.stderr
    assert file.read_text() == "mine"
    assert run("init", here, "--force").exit_code == 0
    assert file.read_text() == template()
    assert sorted(path.name for path in here.iterdir()) == ["headrace.toml"]
    assert run("init", here / "nowhere" / "x.toml").exit_code == 2


def test_check_tells_everything_that_is_wrong(here: Path) -> None:
    """All problems are told on standard error, and as JSON where that is asked for; the exit code is 2."""
    (here / "bad.toml").write_text('[backends.a]\nkind = "openai"\nrmp = 3\n[daemon]\nport = -1\n')
    told = run("config", "check", "bad.toml")
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr.startswith("headrace: bad.toml: 2 problems\n  backends.a.rmp: unknown key; did you mean rpm?")
    answer = run("config", "check", "bad.toml", "--json")
    assert answer.exit_code == 2
    report = json.loads(answer.stdout)
    assert report["valid"] is False
    assert [problem["path"] for problem in report["problems"]] == ["backends.a.rmp", "daemon.port"]


def test_check_looks_for_keys_tools_and_weights_unless_told_not_to(here: Path) -> None:
    """What is not in the file is looked for as well, all of it; --file-only looks at the file alone."""
    (here / "headrace.toml").write_text(
        '[backends.a]\nkind = "openai"\n[backends.b]\nkind = "local"\nweights = "nowhere.gguf"\n'
        '[models.m]\nbackends = ["a", "b"]\n[tools.t]\nfunction = "nowhere_at_all:f"\n'
    )
    told = run("config", "check")
    assert told.exit_code == 2
    assert "backends.a.api_key_env" in told.stderr
    assert "tools.t.function" in told.stderr
    alone = run("config", "check", "--file-only", "--json")
    assert alone.exit_code == 0
    report = json.loads(alone.stdout)
    assert (report["valid"], report["default_model"]) == (True, "m")
    assert report["notes"] == ["tool t belongs to no agent"]


def test_missing_weights_are_told_before_anything_starts() -> None:
    """A local model whose file is not there is told at its backend."""
    config = decode_text('[backends.b]\nkind = "local"\nweights = "/nowhere.gguf"\n', "test.toml")
    with pytest.raises(ConfigError, match=r"^the configuration: backends\.b: "):
        require_all(config, {})


def test_check_shows_no_secrets(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither keys nor headers are in what check prints."""
    monkeypatch.setenv("KEY", "hunter22")
    (here / "headrace.toml").write_text(
        '[backends.a]\nkind = "openai"\napi_key_env = "KEY"\nheaders = { x-token = "hunter33" }\n'
    )
    for answer in (run("config", "check"), run("config", "check", "--json")):
        assert answer.exit_code == 0, answer.stderr
        assert "hunter" not in answer.output


def test_notes_say_what_is_probably_not_meant(here: Path) -> None:
    """A backend that serves nothing and a missing default model are allowed, and pointed out."""
    (here / "headrace.toml").write_text(
        '[backends.a]\nkind = "simulated"\n[backends.b]\nkind = "simulated"\n'
        '[models.m]\nbackends = ["a"]\n[models.n]\nbackends = ["a"]\n'
    )
    told = run("config", "check")
    assert told.exit_code == 0
    assert told.stderr.splitlines() == [
        "note: backend b serves no model",
        "note: there is no default model: whoever names none is refused; set daemon.default_model",
    ]
