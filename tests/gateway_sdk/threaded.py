"""A daemon in a thread of its own, for whatever blocks or outlives the event loop of one test."""

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from orchestrator.config.schema import Config
from orchestrator.daemon.daemon import Daemon


@contextmanager
def daemon_in_thread(config: Config) -> Iterator[tuple[Daemon, str]]:
    """The daemon and its URL, for as long as the block."""
    daemon = Daemon(config)
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

    thread = threading.Thread(target=run, name="daemon")
    thread.start()
    started = told.get()
    try:
        assert started is not None, "the daemon did not start"
        yield daemon, started[0]
    finally:
        if started is not None:
            started[1]()
        thread.join()
