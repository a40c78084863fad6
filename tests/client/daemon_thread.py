"""A whole daemon in a thread, so that commands run in the test's own; it keeps port and folder when started anew."""

import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import structlog
import trio
from typer.testing import CliRunner, Result

from orchestrator.cli.app import app
from orchestrator.config.decode import decode_text
from orchestrator.daemon.daemon import Daemon

SECONDS = 30

CONFIG = """
[daemon]
port = {port}
data_dir = "{folder}"
drain_seconds = {drain}

[backends.sim]
kind = "simulated"
speed = {speed}

[store]
kind = "{store}"

[agents.clerk]
system = "Be brief."
max_tokens = 300
"""


class DaemonThread:
    """Daemons, one after the other, on one port and one folder."""

    def __init__(
        self, folder: Path, *, speed: float = 500.0, drain: float = 5.0, store: str = "sqlite", config: str = CONFIG
    ) -> None:
        self.speed = speed
        self._drain = drain
        self._store = store
        self._folder = folder
        self._config = config
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))  # never listens, so nobody answers while no daemon is up
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread: threading.Thread | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._daemon: Daemon | None = None
        self._scope = trio.CancelScope()
        self._failure: BaseException | None = None

    def start(self) -> None:
        """Returns when it is up."""
        # a command that is tried beside it has the standard output to itself
        structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
        up = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(up,), daemon=True)
        self._thread.start()
        assert up.wait(SECONDS)
        if self._failure is not None:
            raise self._failure

    def stop(self, *, abruptly: bool = False) -> None:
        """Ends it as a signal would, or cuts everything off."""
        if self._thread is None:
            return
        assert self._token is not None
        end: Callable[[], Any] = self._scope.cancel if abruptly or self._daemon is None else self._daemon.hurry
        self._token.run_sync_soon(end)
        self._thread.join(SECONDS)
        structlog.reset_defaults()
        assert not self._thread.is_alive()
        self._thread = None

    def live_runs(self) -> int:
        """Runs that have not ended, asked over HTTP."""
        answer = httpx2.get(f"{self.url}/api/runs", params={"state": "running"}, trust_env=False)
        return len(answer.json()["runs"])

    def close(self) -> None:
        self.stop()
        self._reserved.close()

    def _run(self, up: threading.Event) -> None:
        try:
            trio.run(self._serve, up)
        except BaseException as error:
            self._failure = error
            up.set()

    async def _serve(self, up: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        text = self._config.format(
            port=self.port, folder=self._folder, speed=self.speed, drain=self._drain, store=self._store
        )
        self._daemon = Daemon(decode_text(text, "test"))
        with trio.CancelScope() as self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._daemon.run)
                up.set()


def headrace(url: str, *arguments: str | Path, input: str | None = None) -> Result:
    """A client's command, in this thread."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"HEADRACE_URL": url}, input=input)
