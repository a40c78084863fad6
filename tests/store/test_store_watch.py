"""What holds for watchers, in every store."""

from contextlib import aclosing

import trio

from orchestrator.store.base import Record, Store
from orchestrator.store.errors import Conflict, UnknownSession
from tests.store.stores import batch, begin


async def collect(store: Store, session: str, after: int, until: int, into: list[Record]) -> None:
    """Watches until a number has come; a watcher that misses it fails, and does not wait for ever."""
    with trio.fail_after(30):
        async with aclosing(store.watch(session, after)) as records:
            async for record in records:
                into.append(record)
                if record.number == until:
                    return


async def test_a_watcher_sees_what_was_and_what_comes(store: Store) -> None:
    """A watcher gets what is there behind its number, and then each record as it comes."""
    await begin(store, "s", "a", "b")
    seen: list[Record] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, store, "s", 1, 5, seen)
        while not seen:
            await trio.lowlevel.checkpoint()
        await store.append(batch("s", 2, "c"), 1)
        await store.append_external("s", "k", (b"d", b"e"))
    assert [(one.number, one.data) for one in seen] == [(2, b"b"), (3, b"c"), (4, b"d"), (5, b"e")]


async def test_watchers_miss_nothing(store: Store) -> None:
    """Watchers that come at any time, while several write, see each record once and in order."""
    await begin(store, "s", "a")
    total = 1 + 30 * 2 + 30
    seen: list[list[Record]] = [[] for _ in range(8)]

    async def watcher(number: int) -> None:
        for _ in range(number * 7):
            await trio.lowlevel.checkpoint()
        await collect(store, "s", number, total, seen[number])

    async def executor() -> None:
        after = 1
        for _ in range(30):
            while True:
                try:
                    after = await store.append(batch("s", after, "x", "y"), 1)
                    break
                except Conflict as conflict:
                    after = conflict.last

    async def outsider() -> None:
        for number in range(30):
            await store.append_external("s", f"k{number}", (b"o",))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(watcher, number)
            nursery.start_soon(executor)
            nursery.start_soon(outsider)
    log = await store.read("s")
    for number, records in enumerate(seen):
        assert records == log[number:]


async def test_a_watcher_of_a_long_log(store: Store) -> None:
    """A watcher reads a log of many pages from its beginning, and goes on from there."""
    await begin(store, "s", *map(str, range(3_500)))
    seen: list[Record] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, store, "s", 0, 3_501, seen)
        await store.append_external("s", "k", (b"last",))
    assert [one.number for one in seen] == list(range(1, 3_502))


async def test_a_watcher_of_what_is_removed(store: Store) -> None:
    """A watcher of a session that is pruned hears that it is gone, and does not wait for ever."""
    view = await begin(store, "s", "a")
    await store.release("s", view.generation)
    seen: list[Record] = []
    gone: list[str] = []

    async def watcher() -> None:
        try:
            await collect(store, "s", 0, 99, seen)
        except UnknownSession as error:
            gone.append(str(error))

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watcher)
            while not seen:
                await trio.lowlevel.checkpoint()
            await store.prune(view.updated + 1_000)
    assert gone == ["there is no session s"]


async def test_a_watcher_that_leaves(store: Store) -> None:
    """A watcher that is cancelled while it waits leaves nothing behind, and the others go on."""
    await begin(store, "s", "a")
    seen: list[Record] = []
    stays: list[Record] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, store, "s", 0, 3, stays)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(collect, store, "s", 0, 99, seen)
                while not seen:
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await store.append(batch("s", 1, "b", "c"), 1)
    assert [one.number for one in stays] == [1, 2, 3]
    assert [one.number for one in seen] == [1]


async def test_sessions_do_not_wake_each_other(store: Store) -> None:
    """A watcher sees only its own session's records."""
    await begin(store, "s", "a")
    await begin(store, "t", "z")
    seen: list[Record] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect, store, "s", 0, 2, seen)
        for number in range(5):
            await store.append_external("t", f"k{number}", (b"z",))
        await store.append_external("s", "k", (b"b",))
    assert [one.data for one in seen] == [b"a", b"b"]
