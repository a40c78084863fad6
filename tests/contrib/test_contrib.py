"""What the files in `contrib/` name exists, and what they say agrees with the program."""

import http.server
import json
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from orchestrator.cli.app import app
from orchestrator.cli.exits import USAGE
from orchestrator.config.schema import DaemonTable

ROOT = Path(__file__).parents[2]
CONTRIB = ROOT / "contrib"


def unit() -> dict[str, list[str]]:
    """The unit's settings; a key may be given several times."""
    found: dict[str, list[str]] = {}
    for line in (CONTRIB / "headrace.service").read_text().splitlines():
        if line and line[0] not in "#[":
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions with their arguments, continued lines put together."""
    text = re.sub(r"^#.*\n", "", (CONTRIB / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines) if word]


def instruction(name: str) -> str:
    """The last instruction of that name: it is the one that holds."""
    return [rest for word, rest in instructions() if word == name][-1]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """What the command line makes of these arguments; raises where it would refuse them."""
    group = typer.main.get_command(app)
    command = group.commands[arguments[0]]  # type: ignore[attr-defined]
    options: dict[str, Any] = command.make_context(arguments[0], arguments[1:]).params
    return options


def test_the_units_command_is_one() -> None:
    """`ExecStart` is a command of this program with options that it has."""
    program, *arguments = shlex.split(unit()["ExecStart"][0])
    assert Path(program).name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    options = parsed([argument.replace("%S", "/var/lib") for argument in arguments])
    assert options["config"] == Path("/etc/headrace/headrace.toml")
    assert options["data_dir"] == Path("/var/lib") / unit()["StateDirectory"][0]


def test_the_unit_leaves_time_to_drain() -> None:
    """The signals are those that the daemon acts on, and it is killed only after a drain can have ended."""
    settings = unit()
    assert settings["KillSignal"] == ["SIGTERM"]
    assert settings["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert int(settings["TimeoutStopSec"][0]) > DaemonTable().drain_seconds
    assert settings["RestartPreventExitStatus"] == [str(USAGE)]


def test_the_images_command_is_one() -> None:
    """`ENTRYPOINT` and `CMD` are a command of this program with options that it has."""
    assert json.loads(instruction("ENTRYPOINT")) == ["headrace"]
    options = parsed(json.loads(instruction("CMD")))
    assert str(options["data_dir"]) == instruction("VOLUME") == instruction("WORKDIR")
    assert instruction("STOPSIGNAL") == "SIGTERM"
    assert instruction("USER") != "root"


def test_what_the_image_copies_is_there() -> None:
    """Each file that is copied exists and is not ignored; the whole package is among them."""
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and not rest.startswith("--")]
    names = {name for group in copied for name in group}
    ignored = (CONTRIB / "Containerfile.dockerignore").read_text().split()
    for name in names:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(packages["packages"]) <= names


@contextmanager
def answering(status: int) -> Iterator[tuple[int, list[str]]]:
    """A server whose every answer has this status: its port, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_port, paths
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False)])
def test_the_images_health_check(status: int, healthy: bool) -> None:
    """It asks the default port for `/readyz`, and is healthy exactly where that says 200."""
    _, _, command = instruction("HEALTHCHECK").partition("CMD ")
    program, flag, code = json.loads(command)
    default = str(DaemonTable().port)
    assert (program, flag, code.count(default)) == ("python", "-c", 1)
    with answering(status) as (port, paths):
        ended = subprocess.run([sys.executable, flag, code.replace(default, str(port))], timeout=20, check=False)
    assert (ended.returncode == 0, paths) == (healthy, ["/readyz"])


def test_the_readme_names_what_is_there() -> None:
    """Every file and command of ours in the README exists, and an engine is told to wait for a drain."""
    text = (CONTRIB / "README.md").read_text()
    for name in re.findall(r"contrib/([\w.]+)", text):
        assert (CONTRIB / name).exists(), name
    for command in re.findall(r"bin/headrace (\w+)", text):
        assert parsed([command]) is not None
    (seconds,) = re.findall(r"docker run .*--stop-timeout (\d+)", text)
    assert int(seconds) > DaemonTable().drain_seconds
