"""A worker process as a Ray actor: `orchestrator.worker.worker` in a thread of it.

The actor's methods are for whoever places it and answer while the worker works. An actor whose worker has ended, for
whatever reason, ends as well and gives its name back, so that Ray does not start it again and again: that is left to
the daemon, which has it placed anew as long as it wants it. Where the process or its node is lost, Ray starts the actor
again, which is a new worker: each process has a mark of its own in its name, and so nobody takes the second for the
first while that may still be at work.
"""

import secrets
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import trio

from agents.errors import HeadraceError
from orchestrator.pools.placement import WorkerSettings
from orchestrator.worker.config import WorkerConfig
from orchestrator.worker.worker import Worker


class RayWorker:
    """The actor. `settings` are a `WorkerSettings` as JSON; its constructor returns when the worker's thread begins."""

    def __init__(self, name: str, settings: bytes) -> None:
        import ray

        myself: Any = ray.get_runtime_context().current_actor
        self._settings = settings
        self._worker = WorkerThread(
            f"{name}.{secrets.token_hex(3)}",
            msgspec.json.decode(settings, type=WorkerSettings),
            ended=lambda: ray.kill(myself, no_restart=True),
        )
        self._worker.start()

    def made_for(self) -> bytes:
        """Its settings, as it was given them."""
        return self._settings

    def leave(self) -> None:
        """Lets go of all runs in good order, and ends the actor."""
        self._worker.leave()
        self._worker.join()


class WorkerThread(threading.Thread):
    """The worker's loop in a thread of its own. Calls `ended` when it has ended."""

    def __init__(self, name: str, settings: WorkerSettings, *, ended: Callable[[], object]) -> None:
        super().__init__(name="headrace-worker", daemon=True)
        self._worker = name
        self._settings = settings
        self._ended = ended
        self._lock = threading.Lock()
        self._leave: Callable[[], object] | None = None
        self._leaving = False

    def leave(self) -> None:
        """Asks the worker to let go of its runs and end. From any thread."""
        with self._lock:
            self._leaving = True
            if self._leave is not None:
                with suppress(trio.RunFinishedError):
                    self._leave()

    def run(self) -> None:
        """Until the worker has ended, for whatever reason."""
        try:
            trio.run(self._work)
        except HeadraceError as error:
            self._say(error.message)
        except BaseException:
            self._say(traceback.format_exc())
        finally:
            self._ended()

    async def _work(self) -> None:
        config = WorkerConfig(
            daemons=self._settings.daemons,
            name=self._worker,
            runs=self._settings.runs,
            patience=self._settings.patience,
            key_env=self._settings.key_env,
            key_file=self._settings.key_file,
            tell=self._say,
        )
        worker = Worker(config)
        token = trio.lowlevel.current_trio_token()
        with self._lock:
            self._leave = lambda: token.run_sync_soon(worker.end)
            if self._leaving:
                worker.end()
        await worker.run()

    def _say(self, line: str) -> None:
        """Into the log that Ray keeps of each actor."""
        sys.stderr.write(f"{self._worker}: {line}\n")
        sys.stderr.flush()
