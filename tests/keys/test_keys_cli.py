"""`headrace keys`, and how commands carry a key to a daemon."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from orchestrator.cli.app import app
from orchestrator.key_file import read_keys
from tests.client.daemon_thread import DaemonThread


def headrace(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, no configuration and no key from outside."""
    monkeypatch.chdir(tmp_path)
    for name in ("HEADRACE_CONFIG", "HEADRACE_KEY", "HEADRACE_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path / "data")
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def add(folder: Path, *arguments: object) -> str:
    made = headrace("keys", "add", *arguments, "--data-dir", folder)
    assert made.exit_code == 0, made.stderr
    return made.stdout.strip()


def test_a_key_is_printed_once_and_kept_as_a_digest(here: Path) -> None:
    """On stdout stands the key and nothing else, so that a script can take it; no list and no file shows it again."""
    made = headrace("keys", "add", "acme", "--name", "web app")
    key = made.stdout.strip()
    assert (made.exit_code, made.stdout.count("\n")) == (0, 1)
    assert "not shown again" in made.stderr
    assert "It is the first" in made.stderr
    listed = headrace("keys", "ls")
    assert key.split("-")[1] in listed.stdout
    assert "web app" in listed.stdout
    secret = key.split("-")[2]
    assert secret not in listed.stdout + listed.stderr + made.stderr
    assert secret not in (here / "state" / "headrace" / "keys.json").read_text()
    assert "It is the first" not in headrace("keys", "add", "acme").stderr


def test_a_program_gets_all_of_it_as_json(here: Path) -> None:
    """`--json` has the key, what it may and until when; the list has all but the key."""
    made = headrace("keys", "add", "ops", "--admin", "--priority", "batch", "--expires", "2d", "--json")
    view = json.loads(made.stdout)
    assert (view["tenant"], view["role"], view["highest_priority"], view["state"]) == ("ops", "admin", "batch", "valid")
    assert view["expires"] - view["created"] == 2 * 86_400
    assert view.pop("key").startswith(f"hr-{view['id']}-")
    assert json.loads(headrace("keys", "ls", "--json").stdout) == [view]


def test_a_revoked_key_stays_in_the_list(here: Path) -> None:
    """It is shown as what it is, and revoking it twice is no error."""
    key = add(here / "data", "acme")
    for _ in range(2):
        ended = headrace("keys", "revoke", key.split("-")[1], "--data-dir", here / "data")
        assert (ended.exit_code, "is revoked" in ended.stdout) == (0, True)
    assert json.loads(headrace("keys", "ls", "--json", "--data-dir", here / "data").stdout)[0]["state"] == "revoked"


def test_the_folder_is_the_daemons(here: Path) -> None:
    """Where the configuration says where data lies, keys are there; where there is no file, in the usual place."""
    (here / "headrace.toml").write_text('[daemon]\ndata_dir = "elsewhere"\n[backends.sim]\nkind = "simulated"\n')
    assert headrace("keys", "add", "acme").exit_code == 0
    assert len(read_keys(here / "elsewhere")) == 1
    (here / "headrace.toml").unlink()
    assert "there are no keys in" in headrace("keys", "ls").stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "a b"), "tenant: must be"),
        (("add", "acme", "--expires", "0d"), "--expires: a number with"),
        (("add", "acme", "--expires", "soon"), "--expires: a number with"),
        (("add", "acme", "--expires", "999999w"), "at most 100 years"),
        (("revoke", "0123456789ab"), "there is no such key '0123456789ab'"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(arguments: tuple[str, ...], words: str, here: Path) -> None:
    """It names what was wrong, and no key is made."""
    result = headrace("keys", *arguments)
    assert result.exit_code != 0
    assert words in f"{result.stderr}{result.exception}"
    assert not read_keys(here / "state" / "headrace")


def test_commands_send_the_key_from_the_environment(
    daemon: DaemonThread, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one they say what to do; with one, from variable or file, they work; a revoked one is told apart."""
    key = add(here / "data", "acme")
    daemon.close()
    daemon.start()
    refused = headrace("ps", "--url", daemon.url)
    assert refused.exit_code == 2
    assert "asks for a key, and none is set; put yours into HEADRACE_KEY" in refused.stderr
    monkeypatch.setenv("HEADRACE_KEY", key)
    done = headrace("run", "say hello", "--url", daemon.url, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["tenant"] == "acme"
    monkeypatch.delenv("HEADRACE_KEY")
    (here / "key").write_text(f"{key}\n")
    monkeypatch.setenv("HEADRACE_KEY_FILE", str(here / "key"))
    assert headrace("ps", "--all", "--url", daemon.url).exit_code == 0
    headrace("keys", "revoke", key.split("-")[1], "--data-dir", here / "data")
    daemon.close()
    daemon.start()
    ended = headrace("ps", "--url", daemon.url)
    assert "does not take this key" in ended.stderr
    assert key not in ended.stderr


def test_a_key_that_cannot_be_sent_is_told_before_anything_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there, or a value with a line break in it, is named, and the value is not shown."""
    monkeypatch.setenv("HEADRACE_KEY_FILE", str(here / "nothing"))
    assert "cannot read" in headrace("ps", "--url", "http://127.0.0.1:1").stderr
    monkeypatch.setenv("HEADRACE_KEY", "hr-secret\nhr-other")
    refused = headrace("ps", "--url", "http://127.0.0.1:1")
    assert "is no key" in refused.stderr
    assert "hr-secret" not in refused.stderr
