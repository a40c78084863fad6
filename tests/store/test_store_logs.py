"""What holds for the logs of every store."""

import random
import uuid

import pytest
import trio

from orchestrator.store.base import Store
from orchestrator.store.errors import Conflict, Fenced, UnknownSession
from tests.store.stores import ME, OTHER, batch, begin, texts


async def test_numbers_from_one_without_gaps(store: Store) -> None:
    """Records are numbered from 1 in the order in which they are appended, over batches."""
    view = await begin(store, "s", "a", "b")
    assert view.last == 2
    assert await store.append(batch("s", 2, "c"), 1) == 3
    assert [(one.number, one.data) for one in await store.read("s")] == [(1, b"a"), (2, b"b"), (3, b"c")]


async def test_reading_in_pages(store: Store) -> None:
    """A read yields the records behind a number, at most so many, and nothing behind the last."""
    await begin(store, "s", *map(str, range(10)))
    assert [one.number for one in await store.read("s", 3, 4)] == [4, 5, 6, 7]
    assert await store.read("s", 10) == []


async def test_any_bytes_come_back(store: Store) -> None:
    """Records are bytes and nothing else: zeros, what is no UTF-8, and nothing at all come back as they went in."""
    data = (b"", b"\x00\xff\xfe", "ä\u2028".encode(), bytes(range(256)))
    await begin(store, "s", "first")
    one = batch("s", 1)
    await store.append(type(one)(session="s", id="x", after=1, records=data), 1)
    assert tuple(record.data for record in await store.read("s", 1)) == data


@pytest.mark.parametrize("size", [131_071, 131_072, 131_073, 3_000_000])
async def test_large_records(store: Store, size: int) -> None:
    """A record of any size comes back whole and in its place."""
    large = "é" * (size // 2) + "x" * (size % 2)
    await begin(store, "s", "a", large, "c")
    assert await texts(store, "s") == ["a", large, "c"]


async def test_conflict_names_the_last_event(store: Store) -> None:
    """A batch behind another event than the last is refused, appends nothing, and learns where the log has got to."""
    await begin(store, "s", "a", "b")
    for after in (0, 1, 3):
        with pytest.raises(Conflict) as refused:
            await store.append(batch("s", after, "x"), 1)
        assert refused.value.last == 2
    assert await texts(store, "s") == ["a", "b"]


async def test_the_same_batch_twice(store: Store) -> None:
    """A batch that is sent again is in the log once, and its sender gets its own last number both times."""
    await begin(store, "s", "a")
    again = batch("s", 1, "b", "c")
    assert await store.append(again, 1) == 3
    assert await store.append_external("s", "k", (b"d",)) == 4
    assert await store.append(again, 1) == 3
    assert await texts(store, "s") == ["a", "b", "c", "d"]


async def test_the_same_batch_twice_at_once(store: Store) -> None:
    """Sent again before the first answer came, it is in the log once all the same."""
    await begin(store, "s", "a")
    again = batch("s", 1, "b", "c")
    numbers: list[int] = []

    async def send() -> None:
        numbers.append(await store.append(again, 1))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(send)
    assert numbers == [3] * 5
    assert await texts(store, "s") == ["a", "b", "c"]


async def test_a_stored_batch_is_success_whatever_else(store: Store) -> None:
    """A batch id that is in the log is success whatever generation and number come with it, and however long ago."""
    await begin(store, "s", "a")
    for number in range(1, 40):
        await store.append(batch("s", number, "x", id=f"b{number}"), 1)
    await store.beat(ME)
    await store.take("s", ME)
    assert await store.append(batch("s", 1, "x", id="b1"), 1) == 2
    assert await store.append(batch("s", 40, "x", id="b1"), 2) == 2
    assert await store.append(batch("s", 77, "x", id="b39"), 9) == 40
    assert len(await texts(store, "s")) == 40


async def test_ids_are_a_sessions_own(store: Store) -> None:
    """The same batch id in two sessions is two batches."""
    for session in ("s", "t"):
        await begin(store, session, "a")
        assert await store.append(batch(session, 1, "b", id="same"), 1) == 2


async def test_unknown_sessions(store: Store) -> None:
    """Nothing is read from, appended to, or watched in a session that there is not."""
    await store.beat(ME)
    with pytest.raises(UnknownSession):
        await store.read("s")
    with pytest.raises(UnknownSession):
        await store.append(batch("s", 0, "x"), 1)
    with pytest.raises(UnknownSession):
        await store.append_external("s", "k", (b"x",))
    with pytest.raises(UnknownSession):
        await store.session("s")
    with pytest.raises(UnknownSession):
        await store.take("s", ME)
    with pytest.raises(UnknownSession):
        await store.watch("s").__anext__()
    assert await store.sessions() == []


async def test_from_outside(store: Store) -> None:
    """What comes from outside goes behind whatever is there; its executor meets a conflict, reads on, and goes on."""
    await begin(store, "s", "a")
    assert await store.append_external("s", "k", (b"stop", b"now")) == 3
    mine = batch("s", 1, "b")
    with pytest.raises(Conflict) as refused:
        await store.append(mine, 1)
    assert [one.data for one in await store.read("s", 1)] == [b"stop", b"now"]
    assert await store.append(batch("s", refused.value.last, "b", id=mine.id), 1) == 4


async def test_from_outside_twice(store: Store) -> None:
    """The same key again changes nothing and gives the same number; another key is another record."""
    await begin(store, "s", "a")
    assert [await store.append_external("s", "k", (b"x",)) for _ in range(3)] == [2, 2, 2]
    assert await store.append_external("s", "l", (b"x",)) == 3
    assert await texts(store, "s") == ["a", "x", "x"]


async def test_from_outside_races_an_executor(store: Store) -> None:
    """While outsiders append as fast as they can, the executor's batches all get in, in order, each once and whole."""
    await begin(store, "s", "a")
    done = trio.Event()

    async def outsider(name: str) -> None:
        for count in range(25):
            await store.append_external("s", f"{name}{count}", (f"{name} {count}".encode(),))

    async def executor() -> None:
        after = 1
        for count in range(25):
            one = batch("s", after, f"mine {count}", f"mine {count}+")
            while True:
                try:
                    after = await store.append(one, 1)
                    break
                except Conflict:
                    newcomers = await store.read("s", after)
                    after = newcomers[-1].number
                    one = batch("s", after, f"mine {count}", f"mine {count}+", id=one.id)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(executor)
        for name in ("x", "y", "z"):
            nursery.start_soon(outsider, name)
    found = await texts(store, "s")
    assert done.is_set()
    assert len(found) == 1 + 2 * 25 + 3 * 25
    mine = [text for text in found if text.startswith("mine")]
    assert mine == [f"mine {count}{end}" for count in range(25) for end in ("", "+")]
    for text in mine[::2]:
        assert found[found.index(text) + 1] == text + "+"
    for name in ("x", "y", "z"):
        assert [text for text in found if text.startswith(name)] == [f"{name} {count}" for count in range(25)]


async def test_one_bad_batch_does_not_fail_its_group(store: Store) -> None:
    """Of many batches at once, those that are refused are refused alone, each with its own reason."""
    for number in range(40):
        await begin(store, f"s{number}", "a")
    outcomes: dict[int, object] = {}

    async def send(number: int) -> None:
        one = batch(f"s{number}" if number % 10 != 3 else "nobody", 1 if number % 10 != 5 else 7, "b")
        try:
            outcomes[number] = await store.append(one, 1 if number % 10 != 7 else 0)
        except (Conflict, Fenced, UnknownSession) as refused:
            outcomes[number] = type(refused)

    async with trio.open_nursery() as nursery:
        for number in range(40):
            nursery.start_soon(send, number)
    wrong = {3: UnknownSession, 5: Conflict, 7: Fenced}
    assert outcomes == {number: wrong.get(number % 10, 2) for number in range(40)}
    for number in range(40):
        assert await texts(store, f"s{number}") == (["a"] if number % 10 in wrong else ["a", "b"])


async def test_a_hundred_thousand_events(store: Store) -> None:
    """A session of 100,000 events is read whole, from the middle, and gone on with."""
    await begin(store, "s", "0")
    last = 1
    while last < 100_000:
        size = min(5_000, 100_000 - last)
        last = await store.append(batch("s", last, *(f"{last + n}" for n in range(size))), 1)
    assert await texts(store, "s") == [str(number) for number in range(100_000)]
    assert [one.number for one in await store.read("s", 77_777, 2)] == [77_778, 77_779]
    assert (await store.session("s")).last == 100_000
    assert await store.append(batch("s", 100_000, "x"), 1) == 100_001


async def test_many_sessions_at_once(store: Store) -> None:
    """Hundreds of executors' tasks append at once, each to its own session, and each finds its own order kept."""
    await store.beat(ME)

    async def drive(name: str) -> None:
        after = (await store.take(name, ME, batch=batch(name, 0, "0"))).last
        for number in range(1, 6):
            after = await store.append(batch(name, after, f"{number}"), 1)

    async with trio.open_nursery() as nursery:
        for number in range(300):
            nursery.start_soon(drive, f"s{number}")
    for number in random.Random(5).sample(range(300), 20):
        assert await texts(store, f"s{number}") == ["0", "1", "2", "3", "4", "5"]


async def test_cancelled_appends_leave_the_store_whole(store: Store) -> None:
    """An append that is cancelled at any moment is in the log whole or not at all, and the store goes on."""
    await begin(store, "s", "a")
    after = 1
    for wait in range(12):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.append, batch("s", after, "x", "y"), 1)
                for _ in range(wait):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        # The next move queues behind the one that was left.
        after = await store.append_external("s", f"k{wait}", (b"-",))
    found = "".join((await texts(store, "s"))[1:])
    assert set(found.replace("xy", "")) == {"-"}
    assert found.count("-") == 12


async def test_taken_over_while_appending(store: Store) -> None:
    """Of an executor that is taken over in the middle of its appends, none gets in behind the other's first."""
    await begin(store, "s", "a")
    await store.beat(OTHER)
    refused = 0

    async def old() -> None:
        nonlocal refused
        after = 1
        while True:
            try:
                after = await store.append(batch("s", after, "old"), 1)
            except (Fenced, Conflict):
                refused += 1
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(old)
        while (await store.session("s")).last < 4:
            await trio.lowlevel.checkpoint()
        await store.beat(ME, 0)
        view = await store.take("s", OTHER)
        await store.append(batch("s", view.last, "new", id=uuid.uuid4().hex), view.generation)
    found = await texts(store, "s")
    assert refused == 1
    assert found == ["a"] + ["old"] * (len(found) - 2) + ["new"]
