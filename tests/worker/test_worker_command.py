"""`headrace worker` as a person tries it for the first time: what is wrong is one sentence, with an exit code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import msgspec
import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli.app import app
from orchestrator.views.workers import PollRequest
from tests.daemon.process import daemon

SIMULATED = '[backends.sim]\nkind = "simulated"\n[tenants.web]\n'
POOL = '[pool]\nkind = "workers"\n'

Worker = Callable[..., Result]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """The command, with nothing of this process's environment."""
    for name in ("HEADRACE_KEY", "HEADRACE_KEY_FILE", "HEADRACE_URL", "NO_SUCH_KEY"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str, **environ: str) -> Result:
        return CliRunner().invoke(app, ["worker", *words], env=environ)

    return call


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A daemon with a pool that asks for keys, and a tenant's key."""
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "headrace.toml").write_text(SIMULATED + POOL + '[daemon]\ndata_dir = "data"\n')
    keys = []
    for words in (["ops", "--admin"], ["web"]):
        made = CliRunner().invoke(app, ["keys", "add", *words, "--config", str(folder / "headrace.toml")])
        assert made.exit_code == 0, made.stderr
        keys.append(made.stdout.strip())
    with daemon(folder, SIMULATED + POOL + '[daemon]\ndata_dir = "data"\n') as (_, url):
        yield url, keys[1]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--daemon", "http://127.0.0.1:9", "--patience", "0"], 3, "there is no daemon at http://127.0.0.1:9"),
        (["--daemon", "http://127.0.0.1:9", "--patience", "0.3"], 3, "and was not there for 0.3 s"),
        (["--daemon", "nowhere"], 2, "'nowhere' is no address of a daemon"),
        (["--daemon", "http://u:secret@127.0.0.1:9"], 2, "an address with a password in it is not taken"),
        (["--runs", "0"], 2, "--runs"),
        (["--name", "a b"], 2, "--name: up to 64 letters"),
        (["--key-env", "NO_SUCH_KEY"], 2, "--key-env: the environment variable NO_SUCH_KEY is unset or empty"),
        (["--key-file", "/no/such/file"], 2, "--key-file: cannot read /no/such/file"),
        (["--key-file", "a", "--key-env", "b"], 2, "--key-file: give it or key_env, not both"),
    ],
)
def test_what_is_wrong_here_is_said_at_once(worker: Worker, words: list[str], code: int, said: str) -> None:
    """Each mistake names its option, and nothing claims to drive runs."""
    result = worker(*words)
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "drives up to" not in result.stderr
    assert "secret" not in result.stderr
    assert "Traceback" not in result.stderr


def test_its_address_and_key_are_where_other_commands_have_theirs(worker: Worker, tmp_path: Path) -> None:
    """HEADRACE_URL and HEADRACE_KEY hold where nothing is said; a file does where the variable is empty."""
    result = worker("--patience", "0", HEADRACE_URL="http://127.0.0.1:9")
    assert (result.exit_code, "no daemon at http://127.0.0.1:9" in result.stderr) == (3, True), result.stderr
    result = worker("--patience", "0", HEADRACE_KEY="no key")
    assert (result.exit_code, "HEADRACE_KEY holds something that is no key" in result.stderr) == (2, True)
    result = worker("--patience", "0", HEADRACE_KEY_FILE=str(tmp_path / "none"))
    assert (result.exit_code, "--key-file: cannot read" in result.stderr) == (2, True)


def test_a_daemon_that_asks_for_keys_says_which(worker: Worker, keyed: tuple[str, str]) -> None:
    """Without a key, with one that nobody has made, and with a tenant's: refused, and told what to do."""
    url, tenants = keyed
    for environ, said in (
        ({}, f"the daemon at {url} asks for a key, and none is set; put an admin's into HEADRACE_KEY"),
        ({"HEADRACE_KEY": "hr-nobodys"}, "does not take this key, which it may have revoked; put an admin's"),
        ({"HEADRACE_KEY": tenants}, "working for this daemon needs an admin's key; `headrace keys add TENANT --admin`"),
    ):
        result = worker("--daemon", url, **environ)
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
        assert "drives up to" not in result.stderr
        assert all(key not in result.stderr for key in environ.values())


def test_a_daemon_that_drives_its_runs_itself_says_what_its_file_needs(worker: Worker, tmp_path: Path) -> None:
    """With a local pool a worker has nothing to do, and ends."""
    with daemon(tmp_path, SIMULATED) as (_, url):
        result = worker("--daemon", url)
    assert result.exit_code == 2, result.stderr
    assert 'its file needs [pool] with kind = "workers"' in result.stderr
    assert "drives up to" not in result.stderr


def test_a_name_that_another_worker_has_is_refused(worker: Worker, tmp_path: Path) -> None:
    """The second of a name ends, and is told which option helps."""
    poll = PollRequest(worker="w", instance="first", room=0, seconds=0.0)
    with daemon(tmp_path, SIMULATED + POOL) as (_, url):
        headers = {"content-type": "application/json"}
        with urlopen(Request(f"{url}/api/workers/poll", msgspec.json.encode(poll), headers), timeout=10) as answer:
            assert answer.status == 200
        result = worker("--daemon", url, "--name", "w")
    assert result.exit_code == 2, result.stderr
    assert "a worker called 'w' is at work already: give this one another --name" in result.stderr
    assert "drives up to" not in result.stderr
