"""The real model server, for tests of any event loop: it outlives each of them."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trio

from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import LocalConfig, NotInstalled, find_weights


@contextmanager
def local_server(config: LocalConfig) -> Iterator[LocalBackend]:
    """A real model server, supervised by a trio loop in a thread of its own.

    Without its packages the tests that want it are skipped; where `CI` is set that is a failure.
    """
    try:
        find_weights(config)
    except NotInstalled as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(error.message)
    backend, ended = LocalBackend(config), threading.Event()
    told: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def supervise() -> None:
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            await nursery.start(backend.run)
            told.put(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))

    def run() -> None:
        try:
            trio.run(supervise)
        finally:
            ended.set()
            told.put(None)

    thread = threading.Thread(target=run, name="local model server")
    thread.start()
    stop = told.get()
    try:
        assert stop is not None, "the local model server did not start"
        yield backend
        assert not ended.is_set(), "the local model server ended before the tests did"
    finally:
        if stop is not None and not ended.is_set():
            stop()
        thread.join()
