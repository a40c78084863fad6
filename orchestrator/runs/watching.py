"""A run's events for whoever watches it, however far it has come.

A watcher goes through the stored events by their number and waits only when it has read them all. So it misses and
repeats nothing, whenever it joins, and one that is slow costs neither the run nor other watchers anything.
"""

from collections.abc import AsyncGenerator, Callable

import msgspec
from msgspec import Struct

from orchestrator.runs.record import RunRecord
from orchestrator.store.base import RunRow, Store


class _Type(Struct):
    type: str
    run: str


_type_of = msgspec.json.Decoder(_Type)

WATCH_PAGE = 100


async def watch_run(
    store: Store, row: RunRow, record: Callable[[], RunRecord | None], after: int, *, follow: bool
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
        await bell.wait()
