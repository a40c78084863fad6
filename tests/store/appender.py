"""A process that appends to a store and says after each acknowledgement which one it was: a test traces its calls.

`python appender.py FILE HOW`: `one` appends one by one, `many` ten at once, `loose` one by one without syncing, which
is what the test has to notice.
"""

import os
import sqlite3
import sys
from functools import partial
from pathlib import Path

import trio

from orchestrator.store import sqlite as sqlite_store
from orchestrator.store.errors import StoreError
from orchestrator.store.sqlite import SqliteStore, open_sqlite
from tests.store.stores import ME, batch

APPENDS = 12


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


async def drive(store: SqliteStore, name: str, count: int) -> None:
    view = await store.take(name, ME, batch=batch(name, 0, "0"))
    say(f"acknowledged {name} 1")
    for after in range(1, count):
        try:
            await store.append(batch(name, after, "x" * 500), view.generation)
        except StoreError as error:
            say(f"refused {name} {after + 1}: {type(error).__name__}")
            return
        say(f"acknowledged {name} {after + 1}")


async def main(path: Path, how: str) -> None:
    if how == "loose":
        prepare = sqlite_store.prepare

        def loosely(connection: sqlite3.Connection, *rest: object) -> None:
            prepare(connection, *rest)  # type: ignore[arg-type]
            connection.execute("PRAGMA synchronous = OFF")

        sqlite_store.prepare = loosely
    async with open_sqlite(path) as store:
        await store.beat(ME)
        say("open")
        if how == "many":
            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(drive, store, f"s{number}", 4)
        else:
            await drive(store, "s0", APPENDS)
        say("done")


if __name__ == "__main__":
    trio.run(partial(main, Path(sys.argv[1]), sys.argv[2]))
