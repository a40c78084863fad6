"""A daemon's process as far as the lease is concerned: it leads, and appends when it is told to on its input.

`postgres_candidate.py DSN SCHEMA HOLDER LEASE`. It says `leads` once it does. Then it answers each line on its input,
the id of a batch, with the number of the session's last event, or with the kind of the error.
"""

import sys

import trio

from orchestrator.store.base import Batch
from orchestrator.store.errors import StoreError
from orchestrator.store.postgres import open_postgres

SESSION = "shared"


async def main(dsn: str, schema: str, holder: str, lease: float) -> None:
    async with open_postgres(dsn, holder=holder, schema=schema, lease=lease) as store, trio.open_nursery() as nursery:
        await nursery.start(store.lead)
        await store.beat(holder)
        view = await store.take(SESSION, holder, batch=Batch(session=SESSION, id=holder, after=0, records=(b"{}",)))
        print("leads", flush=True)
        while line := (await trio.to_thread.run_sync(sys.stdin.readline)).strip():
            batch = Batch(session=SESSION, id=line, after=view.last, records=(line.encode(),))
            try:
                print(await store.append(batch, view.generation), flush=True)
            except StoreError as error:
                print(error.kind, flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    _, *words, seconds = sys.argv
    trio.run(main, *words, float(seconds))
