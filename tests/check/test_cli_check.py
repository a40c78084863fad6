"""`headrace check` as a person sees it: what it prints, what it refuses, how it ends."""

import json
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import typer
from typer.testing import CliRunner, Result

from orchestrator.backends.simulated.backend import SimConfig, SimLatency, SimLimit, SimProvider
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.cli import check as command
from orchestrator.cli.check_subject import CheckOptions, known_backends, open_subject
from orchestrator.cli.signals import SignalEnd

CONFIG = """
[backends.api]
kind = "openai"
base_url = "{url}"
api_key_env = "CHECK_TEST_KEY"

[backends.pair]
kind = "openai"
base_url = "{url}"
[backends.pair.endpoints.one]
api_key_env = "CHECK_TEST_KEY"
[backends.pair.endpoints.two]
api_key_env = "CHECK_TEST_OTHER"

[backends.sim]
kind = "simulated"
speed = 1000

[models.public]
backends = ["api", "sim"]
name = "private"
price = {{ input = 1.0, output = 2.0 }}
"""


@pytest.fixture(autouse=True)
def no_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is configured where the tests run plays no part."""
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def check(*arguments: str | Path) -> Result:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command.check)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def server(config: SimConfig) -> Iterator[str]:
    """A simulated provider over HTTP, in a loop of its own; its base URL."""
    told: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            url = await nursery.start(serve_simulated, SimProvider(config))
            token = trio.lowlevel.current_trio_token()
            told.put((url, partial(token.run_sync_soon, nursery.cancel_scope.cancel)))

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    url, stop = told.get(timeout=10)
    try:
        yield url
    finally:
        stop()
        thread.join()


FAST = SimLatency(first_token=0.02, input_rate=1e6, output_rate=1000.0, spread=0.0)


def test_a_server_without_a_file() -> None:
    """The only model that a server lists is checked; figures, limits and whole tables to paste are printed."""
    limits = (SimLimit(kind="requests", amount=60), SimLimit(kind="total_tokens", amount=90_000))
    with server(SimConfig(latency=FAST, models=("small",), limits=limits)) as url:
        result = check("--upstream", url, "--price-input", "1", "--price-output", "2")
    assert result.exit_code == 0, result.output
    assert f"{url}, model small: at most 9 requests" in result.stderr
    assert "requests  10 in" in result.stdout
    assert "$0.00" in result.stdout
    for line in ('kind = "openai"', f'base_url = "{url}"', "rpm = 60", "tpm = 90000", '[models."small"]'):
        assert f"  {line}\n" in result.stdout


def test_what_is_printed_is_a_configuration(tmp_path: Path) -> None:
    """The tables that a check prints load, and the check of the backend that they name succeeds."""
    with server(SimConfig(latency=FAST, models=("small",), prefix_cache=9)) as url:
        lines = json.loads(check("--upstream", url, "--json", "-q").stdout)["config"]
        file = tmp_path / "headrace.toml"
        file.write_text("\n".join(lines))
        result = check("upstream")
    assert "reports_cached = true" in lines[3]
    assert result.exit_code == 0, result.output
    assert "upstream, model small: at most 10 requests" in result.stderr


def test_json_is_one_object(tmp_path: Path) -> None:
    """A program reads the verdict, findings, limits, tokens and requests from standard output."""
    (tmp_path / "headrace.toml").write_text(CONFIG.format(url="http://127.0.0.1:9/v1"))
    result = check("sim", "--model", "other", "--json", "--quiet")
    found = json.loads(result.stdout)
    assert (found["verdict"], found["requests"], result.stderr) == ("usable", 9, "")
    assert {"name", "state", "says", "first_token", "tokens_per_second"} <= set(found["findings"][0])
    assert found["usage"]["input"] > 1000
    assert found["cost_dollars"] is None


@pytest.mark.parametrize("model", ["small", ""])
def test_a_wrong_key(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused key ends the check at once with exit code 3, whether or not the models had to be asked for."""
    monkeypatch.setenv("CHECK_TEST_KEY", "k-wrong-0123456789")
    with server(SimConfig(latency=FAST, api_keys=("k-right",), models=("small",))) as url:
        result = check("--upstream", url, "--api-key-env", "CHECK_TEST_KEY", "--model", model)
    assert result.exit_code == 3
    assert "It cannot be used: " in result.stdout
    assert "401" in result.stdout
    assert "requests  1 in" in result.stdout
    assert "k-wrong" not in result.output


def test_a_dead_port_as_json() -> None:
    """A server that is not there is a verdict too."""
    result = check("--upstream", "http://127.0.0.1:9/v1", "--json", "-q")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdict"], found["findings"]) == (3, "unusable", [])
    assert "nothing listens there" in found["message"]


def test_several_models_have_to_be_chosen_from() -> None:
    """Nothing is spent on a guess among models: the message names them."""
    with server(SimConfig(latency=FAST, models=("small", "large"))) as url:
        result = check("--upstream", url)
    assert result.exit_code == 2
    assert result.stderr.endswith("has 2 models: small, large\n")


def test_a_configured_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend of the file is asked for its own name of the model, at the file's price, whatever others lack."""
    monkeypatch.setenv("CHECK_TEST_KEY", "k-1")
    monkeypatch.delenv("CHECK_TEST_OTHER", raising=False)
    with server(SimConfig(latency=FAST, api_keys=("k-1",), models=("private",))) as url:
        file = tmp_path / "other.toml"
        file.write_text(CONFIG.format(url=url))
        result = check("api", "--config", file, "--json", "-q")
        found = json.loads(result.stdout)
        assert (result.exit_code, found["model"], found["requests"]) == (0, "private", 9)
        usage = found["usage"]
        assert found["cost_dollars"] == pytest.approx(usage["input"] * 1e-6 + usage["output"] * 2e-6, abs=1e-6)
        assert not any("base_url" in line for line in found["config"])


def test_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One endpoint of several whose key is wrong costs exit code 1; the other one alone is usable."""
    monkeypatch.setenv("CHECK_TEST_KEY", "k-1")
    monkeypatch.setenv("CHECK_TEST_OTHER", "k-2")
    with server(SimConfig(latency=FAST, api_keys=("k-1",))) as url:
        file = tmp_path / "headrace.toml"
        file.write_text(CONFIG.format(url=url))
        both = check("pair", "--model", "m")
        one = check("pair", "--model", "m", "--endpoint", "one")
        two = check("pair", "--model", "m", "--endpoint", "two")
    assert [both.exit_code, one.exit_code, two.exit_code] == [1, 0, 3]
    assert "answers: pair.two" in both.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "BACKEND: name either a backend of the configuration file, or a server with --upstream"),
        (["sim", "--upstream", "local"], "BACKEND: name either"),
        (["smi"], "BACKEND: there is no backend 'smi'; did you mean 'sim'?"),
        (["sim", "--endpoint", "x"], "--endpoint: there is no endpoint 'x'"),
        (["sim", "--api-key-env", "X"], "--api-key-env: goes with --upstream"),
        (["api"], "the environment variable CHECK_TEST_KEY is unset or empty"),
        (["--upstream", "http://127.0.0.1:1/v1", "--api-key-env", "CHECK_TEST_KEY"], "--api-key-env: the environment"),
        (["--upstream", "http://u:p@127.0.0.1/v1"], "--upstream: takes no user"),
        (["--upstream", "127.0.0.1:1"], "--upstream: must be a URL"),
        (["--upstream", "local", "--endpoint", "x"], "--config, --endpoint: go with a backend"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong use is one message that says what would be right, exit code 2, and no request."""
    monkeypatch.delenv("CHECK_TEST_KEY", raising=False)
    (tmp_path / "headrace.toml").write_text(CONFIG.format(url="http://127.0.0.1:9/v1"))
    result = check(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("headrace: ")
    assert message in result.stderr
    assert result.stdout == ""


def test_no_file_at_all() -> None:
    """Without a file the message says where one was looked for."""
    result = check("api")
    assert result.exit_code == 2
    assert "headrace.toml" in result.stderr


def test_names_are_completed(tmp_path: Path) -> None:
    """Backends of the file complete the argument; a broken file or none completes nothing."""
    assert known_backends("") == []
    (tmp_path / "headrace.toml").write_text(CONFIG.format(url="http://127.0.0.1:9/v1"))
    assert known_backends("") == ["api", "pair", "sim"]
    assert known_backends("s") == ["sim"]
    (tmp_path / "headrace.toml").write_text("[backends")
    assert known_backends("") == []


async def test_an_interrupt_reports_what_is_known(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal during a request ends it, prints what was found by then, and gives the signal's exit code."""
    ending = SignalEnd()
    running = command._Command(CheckOptions(upstream="simulated"), quiet=False, json=False)

    async def interrupt() -> None:
        while ending.target is None:
            await trio.testing.wait_all_tasks_blocked()
        ending.received = signal.SIGINT
        ending.target.end("SIGINT")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(interrupt)
        code = await running.run(ending)
    out, err = capsys.readouterr()
    assert code == 130
    assert "The check was interrupted." in out
    assert err.endswith("headrace: interrupted; requests sent so far: 1\n")


async def test_the_subject_is_closed_again() -> None:
    """Nothing of a backend is left when its block ends."""
    async with open_subject(CheckOptions(upstream="simulated", model="m"), print) as found:
        assert (found.subject.model, found.table) == ("m", ('kind = "simulated"',))
