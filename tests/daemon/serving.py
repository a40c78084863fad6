"""A whole daemon in the test's own loop: real sockets, the simulated provider, a client as the command line has it."""

import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from msgspec import Struct

from orchestrator.client.client import Client, open_client
from orchestrator.config.decode import decode_text
from orchestrator.config.schema import Config
from orchestrator.daemon.daemon import Daemon

SECONDS = 30


class Serving(Struct, frozen=True):
    """A daemon that is up, where it is, and somebody who talks to it."""

    daemon: Daemon
    client: Client
    url: str


def config(folder: Path, text: str = "") -> Config:
    """A daemon's configuration with a fast simulated backend, unless `text` has backends of its own."""
    backends = "" if "[backends." in text else '[backends.sim]\nkind = "simulated"\nspeed = 200\n'
    daemon = f'[daemon]\nport = 0\ndata_dir = "{folder}"\n'
    if text.startswith("[daemon]\n"):
        text = text.removeprefix("[daemon]\n")
    elif text:
        daemon += "\n"
    return decode_text(daemon + text + "\n" + backends, "test")


@asynccontextmanager
async def serving(
    first: Config, *, load: Callable[[], Config] | None = None, hurry: bool = True
) -> AsyncGenerator[Serving, None]:
    """The daemon serves inside the block and has ended behind it; with `hurry` without waiting for what is live."""
    daemon = Daemon(first, load=load)
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            urls: list[str] = await nursery.start(daemon.run)
            async with open_client(urls[0]) as client:
                yield Serving(daemon, client, urls[0])
            daemon.hurry() if hurry else daemon.end()


async def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits for a condition that nobody announces."""
    with trio.fail_after(seconds):
        for _ in itertools.count():
            if condition():
                return
            await trio.sleep(0.01)
