"""A model server of our own: llama.cpp on real weights in a child process, started, watched and stopped.

The adapter is the OpenAI one, pointed at the server's address. The server picks a free port at each start and gets a
fresh key, so a connection asks for the current address whenever it finds itself behind.

While the server is down, calls fail at once as `Unavailable` without work done; the owner's retry policy brings them
back. One process is the whole backend: a second one on the same machine would compete for the same cores, so there is
nothing to gain from several endpoints.
"""

import random
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from agents.errors import Unavailable
from agents.messages import ModelReply, ModelRequest
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.backends.local import server as local_server
from orchestrator.backends.local.config import LocalConfig, find_weights, server_settings
from orchestrator.backends.local.process import Launch, ServerFailed, run_server
from orchestrator.backends.local.restarts import Restarts
from orchestrator.backends.local.tail import Tail
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.openai.config import NativeDialect
from orchestrator.backends.secret import Secret

# By its path and without its folder on sys.path: neither the working directory nor the siblings' names matter.
SERVER_COMMAND = (sys.executable, "-P", str(Path(local_server.__file__)))

_DIALECTS: Final[tuple[NativeDialect, ...]] = ("chat",)
"""llama.cpp has responses and messages too, but leaves out members that the SDKs put answers together by (indices of
outputs and contents, an empty list to begin with) and calls an answer cut short complete. Translated from chat they
are whole. Embeddings would need a server started for nothing else.
"""


class LocalBackend:
    """One supervised llama.cpp server. Serves calls while `run` runs.

    `on_change` is told, with the backend itself, whenever the server came up or went down; it must not raise.
    `command` and `weights` stand in for the real ones in tests.
    """

    def __init__(
        self,
        config: LocalConfig | None = None,
        *,
        command: tuple[str, ...] = SERVER_COMMAND,
        weights: Path | None = None,
        rng: random.Random | None = None,
        on_change: "Callable[[LocalBackend], None]" = lambda _: None,
    ) -> None:
        self.config = config or LocalConfig()
        self._command = command
        self._weights = weights
        self._restarts = Restarts(self.config.restart, rng or random.Random())
        self._on_change = on_change
        self._server: OpenAIBackend | None = None
        self._pid: int | None = None
        self._down = "the local model server is not started"

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def slots(self) -> int:
        """How many calls the server works on at once; more wait inside it, where nobody can order them."""
        return self.config.slots

    @property
    def kv_tokens(self) -> int:
        """The KV cache in tokens. Keep tokens in flight at or below 1.35 times this."""
        return self.config.kv_tokens

    @property
    def crashes(self) -> int:
        """How many times the server has crashed so far."""
        return self._restarts.total

    @property
    def pid(self) -> int | None:
        """The running server's process; None while there is none that answers."""
        return self._pid

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="openai", reports_cached=True, dialects=frozenset(_DIALECTS))

    def connect(self) -> Connection:
        """A connection of its own for one slot; it follows the server through restarts."""
        return _LocalConnection(self)

    def server(self) -> OpenAIBackend:
        """The adapter onto the running server; raises `Unavailable` while there is none."""
        if self._server is None:
            raise Unavailable(f"{self._down}.", worked=False)
        return self._server

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Starts the server, reports `started` once it answers, restarts it after crashes, stops it when cancelled.

        Raises `NotInstalled` if there is nothing to start, and `ServerFailed` if the first start fails or the restart
        policy gives up. By the time this returns or raises, no process is left.
        """
        weights = self._weights or find_weights(self.config)
        try:
            await self._supervise(weights, task_status)
        finally:
            self._went_down("the local model server is stopped")

    async def _supervise(self, weights: Path, task_status: trio.TaskStatus[None]) -> None:
        policy = self.config.restart
        started = False
        while True:
            tail = Tail()
            key = secrets.token_urlsafe(24)

            def ready(address: str, pid: int, key: str = key) -> None:
                nonlocal started
                self._came_up(self._adapter(address, key), pid)
                if not started:
                    started = True
                    task_status.started()

            end = await run_server(self._launch(weights, key), tail, ready)
            if not started:
                raise ServerFailed(f"The local model server {end}. It last said:\n{tail.last(8)}")
            delay = self._restarts.crashed(trio.current_time())
            if delay is None:
                limit = f"{policy.give_up_after} crashes in {policy.window:g} s"
                raise ServerFailed(f"The local model server {end}: {limit}, giving up. It last said:\n{tail.last(8)}")
            self._went_down(f"the local model server {end} and is being restarted")
            await trio.sleep(delay)

    def _came_up(self, server: OpenAIBackend, pid: int) -> None:
        self._server, self._pid = server, pid
        self._on_change(self)

    def _went_down(self, why: str) -> None:
        self._server = self._pid = None
        self._down = why
        self._on_change(self)

    def _adapter(self, address: str, key: str) -> OpenAIBackend:
        return OpenAIBackend(
            OpenAIConfig(
                name=self.name,
                base_url=f"{address}/v1",
                api_key=Secret(key),
                # llama.cpp closes after each streamed answer although it promised to keep the connection: a call that
                # reused it would now and then write into a closed socket. Asked to close, it does so by the book.
                headers={"Connection": "close"},
                reports_cached=True,
                dialects=_DIALECTS,
            )
        )

    def _launch(self, weights: Path, key: str) -> Launch:
        config = self.config
        return Launch(
            command=self._command,
            settings=server_settings(config, weights, key),
            # OpenMP's threads spin while they wait unless told otherwise.
            environment={"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": str(config.threads)},
            start_timeout=config.start_timeout,
            stop_grace=config.stop_grace,
        )

    def __repr__(self) -> str:
        state = "up" if self._server is not None else self._down
        return (
            f"<LocalBackend {self.name} slots={self.slots} kv_tokens={self.kv_tokens} crashes={self.crashes} {state}>"
        )


class _LocalConnection:
    """A connection to whichever server runs now."""

    def __init__(self, backend: LocalBackend) -> None:
        self._backend = backend
        self._server: OpenAIBackend | None = None
        self._inner: Connection | None = None

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        server = self._backend.server()
        if self._inner is None or self._server is not server:
            await self.aclose()
            self._server = server
            self._inner = server.connect()
        return await self._inner.send(request, progress)

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()
        self._inner = self._server = None
