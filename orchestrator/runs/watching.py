"""A run's events for whoever watches it, however far it has come.

A watcher goes through the stored events by their number and waits only when it has read them all. So it misses and
repeats nothing, whenever it joins, and one that is slow costs neither the run nor other watchers anything.

One that listens as well is told what the model says while it says it, numbered 0, since that is in no log.
"""

from collections.abc import AsyncGenerator, Callable

import msgspec
import trio
from msgspec import Struct

from orchestrator.runs.output import Listener
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import RunRow, Store


class _Type(Struct):
    type: str
    run: str


_type_of = msgspec.json.Decoder(_Type)

WATCH_PAGE = 100

PACE = 0.05
"""Seconds from one look at what a model has said to the next."""


async def watch_run(
    store: Store,
    row: RunRow,
    record: Callable[[], RunRecord | None],
    after: int,
    *,
    follow: bool,
    listener: Listener | None = None,
) -> AsyncGenerator[tuple[int, bytes], None]:
    """The run's events behind `after`, to its closing one; without `follow`, to the last there is.

    It ends as well where this process stops driving the run and its log has no more.
    """
    number = max(after, row.after)
    while True:
        driven = record()
        bell = None if driven is None or driven.over else driven.bell()
        records = await store.read(row.session, number, WATCH_PAGE)
        for one in records:
            kind = _type_of.decode(one.data)
            if kind.type == "run_created" and kind.run != row.run:
                return
            number = one.number
            yield number, one.data
            if kind.type == "run_ended" and kind.run == row.run:
                return
        if records:
            continue
        if bell is None or not follow:
            return
        while listener is not None and not bell.is_set():
            await listener.wait()
            for piece in listener.take():
                yield 0, msgspec.json.encode(piece)
            await trio.sleep(PACE)
        await bell.wait()
