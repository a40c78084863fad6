"""A daemon with the real local model, in a thread of its own: it outlives the event loops of the tests."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from orchestrator.backends.local_config import LocalConfig, NotInstalled, find_weights
from orchestrator.daemon.daemon import Daemon
from tests.daemon.serving import config

CONFIG = '[backends.local]\nkind = "local"\nslots = 2\nconcurrency = 2\n\n[models.small]\nbackends = ["local"]\n'


@contextmanager
def local_daemon(folder: Path) -> Iterator[tuple[Daemon, str]]:
    """The daemon and its URL. Without the model's packages tests are skipped; where `CI` is set that is a failure."""
    try:
        find_weights(LocalConfig())
    except NotInstalled as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(error.message)
    daemon = Daemon(config(folder, CONFIG))
    told: queue.SimpleQueue[tuple[str, Callable[[], None]] | None] = queue.SimpleQueue()

    async def serve() -> None:
        token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            (url, *_) = await nursery.start(daemon.run)
            told.put((url, lambda: token.run_sync_soon(daemon.hurry)))

    def run() -> None:
        try:
            trio.run(serve)
        finally:
            told.put(None)

    thread = threading.Thread(target=run, name="daemon with a local model")
    thread.start()
    started = told.get()
    try:
        assert started is not None, "the daemon did not start"
        yield daemon, started[0]
    finally:
        if started is not None:
            started[1]()
        thread.join()
