"""The store in SQLite against the one in memory: whatever is done to both, in whatever order, they answer alike."""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.store import sqlite_heads
from orchestrator.store.base import Batch, RunQuery, RunRow, SessionView, Store
from orchestrator.store.errors import StoreError
from orchestrator.store.memory import MemoryStore
from orchestrator.store.sqlite import open_sqlite
from tests.store.stores import row

NAMES = ("s", "t", "u")
HOLDERS = ("one", "two")
Move = Callable[[Store], Awaitable[object]]


class Clock:
    now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def some_batch(random: random.Random, session: str) -> Batch:
    after = random.randrange(6)
    runs: tuple[RunRow, ...] = ()
    if random.random() < 0.4:
        state = random.choice(["running", "completed"])
        name = random.choice(["r1", "r2", "r3"])
        runs = (row(name, session, after=random.randrange(6), state=state, open=state == "running"),)
    records = tuple(random.randbytes(random.choice([0, 5, 140_000])) for _ in range(random.randrange(4)))
    return Batch(session=session, id=f"b{random.randrange(12)}", after=after, records=records, runs=runs)


def some_move(random: random.Random, clock: Clock) -> Move:
    session, holder = random.choice(NAMES), random.choice(HOLDERS)
    batch = some_batch(random, session)
    match random.randrange(12):
        case 0 | 1:
            seconds = random.choice([0.0, 5.0, 30.0])
            return lambda store: store.beat(holder, seconds)
        case 2:
            return lambda store: store.drop(holder)
        case 3 | 4 | 5:
            with_it = batch if random.random() < 0.7 else None
            return lambda store: store.take(session, holder, tenant=holder, batch=with_it)
        case 6:
            generation = random.randrange(4)
            return lambda store: store.release(session, generation)
        case 7 | 8 | 9:
            generation = random.randrange(1, 6)
            return lambda store: store.append(batch, generation)
        case 10:
            return lambda store: store.append_external(session, batch.id, batch.records)
        case _:
            if random.random() < 0.3:
                before = clock.now - random.choice([1.0, 20.0])
                return lambda store: store.prune(before)
            clock.now += random.choice([0.5, 4.0, 31.0])
            return lambda store: store.run("r1")


async def outcome(store: Store, move: Move) -> object:
    try:
        found = await move(store)
    except StoreError as error:
        return type(error), str(error)
    return replace(found, number=0) if isinstance(found, RunRow) else found


async def everything(store: Store) -> list[object]:
    found: list[object] = []
    for view in await store.sessions():
        assert isinstance(view, SessionView)
        found += [view, await store.read(view.session)]
    for query in (RunQuery(), RunQuery(open=True), RunQuery(session="s"), RunQuery(states=frozenset({"completed"}))):
        page = await store.runs(query)
        found += [page.total, [replace(one, number=0) for one in page.rows]]
    return [*found, await store.states()]


@pytest.mark.parametrize("room", [sqlite_heads.ROOM, 2])
@pytest.mark.parametrize("seed", range(4))
async def test_they_answer_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, room: int) -> None:
    """After hundreds of moves, right and wrong ones, both have answered alike and hold the same, whatever is cached."""
    monkeypatch.setattr(sqlite_heads, "ROOM", room)
    random_ = random.Random(seed)
    clock = Clock()
    memory = MemoryStore(clock)
    async with open_sqlite(tmp_path / "store.db", wall=clock) as sqlite:
        refused = 0
        for _ in range(250):
            move = some_move(random_, clock)
            expected = await outcome(memory, move)
            assert await outcome(sqlite, move) == expected
            refused += isinstance(expected, tuple)
            if random_.random() < 0.1:
                assert await everything(sqlite) == await everything(memory)
        assert await everything(sqlite) == await everything(memory)
        assert 25 < refused < 225
