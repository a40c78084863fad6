"""What holds for the index of runs, blobs and pruning, in every store."""

import hashlib

import pytest
import trio
from msgspec.structs import replace

from orchestrator.store.base import Pruned, RunQuery, Store
from orchestrator.store.errors import Conflict
from tests.store.stores import ME, batch, begin, row, texts

FUTURE = 4_000_000_000.0


async def test_a_runs_row(store: Store) -> None:
    """A row comes back as it was written, with the number that the store gave it; an unknown run has none."""
    await begin(store, "s", "a", run=True)
    found = await store.run("s")
    assert found is not None
    assert found == replace(row("s"), number=found.number)
    assert found.number > 0
    assert await store.run("t") is None


async def test_a_row_changes_with_its_batch(store: Store) -> None:
    """What a run's row says changes in the move that appends what it tells of; its number stays."""
    await begin(store, "s", "a", run=True)
    before = await store.run("s")
    assert before is not None
    ended = row("s", state="completed", open=False, head=b"over")
    await store.append(batch("s", 1, "b", runs=(ended,)), 1)
    assert await store.run("s") == replace(ended, number=before.number)
    assert await store.states() == {"completed": 1}


async def test_a_refused_batch_changes_no_row(store: Store) -> None:
    """A batch that is refused leaves the index as it was, and one that is sent again writes no older row."""
    await begin(store, "s", "a", run=True)
    first = batch("s", 1, "b", runs=(row("s", state="waiting"),))
    await store.append(first, 1)
    await store.append(batch("s", 2, "c", runs=(row("s", state="completed", open=False),)), 1)
    await store.append(first, 1)
    found = await store.run("s")
    assert found is not None
    assert found.state == "completed"
    with pytest.raises(Conflict):
        await store.append(batch("s", 1, "x", runs=(row("s", state="failed"),)), 1)
    assert await store.states() == {"completed": 1}


async def test_runs_of_one_session(store: Store) -> None:
    """A session has many runs, each with its own place in the log."""
    await begin(store, "s", "a", run=True)
    over = row("s", state="completed", open=False)
    await store.append(batch("s", 1, "b", runs=(over,)), 1)
    await store.append(batch("s", 2, "c", runs=(row("s.2", "s", after=2),)), 1)
    found = await store.runs(RunQuery(session="s"))
    assert [(one.run, one.after, one.open) for one in found.rows] == [("s.2", 2, True), ("s", 0, False)]
    assert found.total == 2


async def test_pages_newest_first(store: Store) -> None:
    """Pages go from the newest to the oldest, and a page's last number leads to the next."""
    await store.beat(ME)
    for number in range(25):
        name = f"r{number}"
        await store.take(name, ME, batch=batch(name, 0, "a", runs=(row(name),)))
    names: list[str] = []
    before = 0
    while (page := await store.runs(RunQuery(before=before, size=10))).rows:
        assert page.total == 25
        names += [one.run for one in page.rows]
        before = page.rows[-1].number
    assert names == [f"r{number}" for number in reversed(range(25))]


async def test_filters(store: Store) -> None:
    """Each filter narrows what matches, together they narrow it further, and the total counts what matches."""
    await store.beat(ME)
    states = ("running", "waiting", "completed")
    for number in range(24):
        name = f"r{number}"
        state = states[number % 3]
        one = row(
            name,
            tenant="blue" if number % 2 else "red",
            job=f"j{number % 4}" if number % 4 else "",
            state=state,
            open=state != "completed",
        )
        await store.take(name, ME, batch=batch(name, 0, "a", runs=(one,)))

    async def names(**filters: object) -> set[int]:
        found = await store.runs(RunQuery(**filters))  # type: ignore[arg-type]
        assert found.total == len(found.rows)
        return {int(one.run[1:]) for one in found.rows}

    every = set(range(24))
    assert await names() == every
    assert await names(tenant="blue") == {n for n in every if n % 2}
    assert await names(job="j1") == {n for n in every if n % 4 == 1}
    assert await names(states=frozenset({"running", "waiting"})) == {n for n in every if n % 3 < 2}
    assert await names(open=True) == {n for n in every if n % 3 < 2}
    assert await names(open=False) == {n for n in every if n % 3 == 2}
    assert await names(tenant="red", open=False) == {n for n in every if n % 2 == 0 and n % 3 == 2}
    assert await names(session="r7") == {7}
    assert await names(tenant="green") == set()
    assert await store.states("red") == {"running": 4, "waiting": 4, "completed": 4}
    assert await store.states() == {"running": 8, "waiting": 8, "completed": 8}
    assert await store.states("green") == {}


async def test_sessions_by_name(store: Store) -> None:
    """Sessions are listed in the order of their names, in pages, for one tenant or all."""
    await store.beat(ME)
    for number, name in enumerate(["b", "a", "ä", "Z", "c"]):
        await store.take(name, ME, tenant="blue" if number % 2 else "red", batch=batch(name, 0, *("x" * (number + 1))))
    assert [one.session for one in await store.sessions()] == ["Z", "a", "b", "c", "ä"]
    assert [one.session for one in await store.sessions(after="a", size=2)] == ["b", "c"]
    assert [(one.session, one.last) for one in await store.sessions(tenant="blue")] == [("Z", 4), ("a", 2)]
    for one in await store.sessions():
        assert one == await store.session(one.session)
        assert one.updated >= one.created > 1_000_000_000


async def test_a_session_shows_when_it_was_touched(store: Store) -> None:
    """Every append moves the time of a session's last change on, and never the time at which it was made."""
    first = await begin(store, "s", "a")
    await store.append(batch("s", 1, "b"), 1)
    then = await store.session("s")
    assert then.created == first.created
    assert then.updated >= first.updated
    assert then.last == 2


async def test_blobs(store: Store) -> None:
    """A blob is found by its SHA-256 and kept once; an unknown digest is None."""
    data = bytes(range(256)) * 5_000
    digest = await store.put_blob(data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert await store.put_blob(data) == digest
    assert await store.get_blob(digest) == data
    assert await store.get_blob("0" * 64) is None
    assert await store.get_blob(await store.put_blob(b"")) == b""


async def test_pruning(store: Store) -> None:
    """Pruning takes sessions that nobody touched since, with their runs and events, and counts what it took."""
    for name in ("old", "other"):
        view = await begin(store, name, "a", "b", run=True)
        await store.append(batch(name, 2, "c", runs=(row(name, open=False, state="completed"),)), 1)
        await store.release(name, view.generation)
    assert await store.prune(1_000_000.0) == Pruned(0, 0, 0, 0)
    assert await store.prune(FUTURE) == Pruned(2, 2, 6, 0)
    assert await store.sessions() == []
    assert await store.run("old") is None
    assert await store.states() == {}
    assert await store.prune(FUTURE) == Pruned(0, 0, 0, 0)


async def test_pruning_many(store: Store) -> None:
    """Hundreds of sessions go at once, and only those that are to go."""
    await store.beat(ME)

    async def make(number: int) -> None:
        name = f"s{number}"
        rows = (row(name, open=number % 10 == 0),)
        view = await store.take(name, ME, batch=batch(name, 0, "a", "b", runs=rows))
        await store.release(name, view.generation)

    async with trio.open_nursery() as nursery:
        for number in range(330):
            nursery.start_soon(make, number)
    assert await store.prune(FUTURE) == Pruned(297, 297, 594, 0)
    assert (await store.runs(RunQuery())).total == 33
    assert {view.session for view in await store.sessions()} == {f"s{number}" for number in range(0, 330, 10)}


async def test_pruning_spares_what_lives(store: Store) -> None:
    """A session with an open run stays, and so does one that a living executor holds."""
    open_run = await begin(store, "open", "a", run=True)
    await store.release("open", open_run.generation)
    await begin(store, "held", "a")
    await begin(store, "gone", "a", holder="executor-3")
    await store.drop("executor-3")
    assert (await store.prune(FUTURE)).sessions == 1
    assert [one.session for one in await store.sessions()] == ["held", "open"]
    assert await store.append(batch("held", 1, "b"), 1) == 2


async def test_pruning_takes_blobs_that_nobody_names(store: Store) -> None:
    """Blobs go with the last session that names them; those that another one names stay."""
    only = await store.put_blob(b"only the old one's")
    both = await store.put_blob(b"of both")
    large = "x" * 300_000
    for name, said in (("old", f"{only} {both}"), ("kept", f"{both}")):
        view = await begin(store, name, said, large, run=name == "kept")
        await store.release(name, view.generation)
    lonely = await store.put_blob(b"nobody's")
    assert (await store.prune(FUTURE)).sessions == 1
    assert await store.get_blob(only) is None
    assert await store.get_blob(lonely) is None
    assert await store.get_blob(both) == b"of both"
    assert (await texts(store, "kept"))[1] == large


async def test_a_name_is_free_after_pruning(store: Store) -> None:
    """A session and a run of a name that was pruned can be made again, and begin at 1; numbers of runs go on."""
    view = await begin(store, "s", "a", "b", "c")
    await store.append(batch("s", 3, "d", id="same", runs=(row("r", "s", after=3, open=False),)), 1)
    old = await store.run("r")
    await store.release("s", view.generation)
    await store.prune(FUTURE)
    again = await begin(store, "s", "z")
    assert (again.last, again.generation) == (1, 1)
    assert await store.append(batch("s", 1, "y", id="same", runs=(row("r", "s", after=1),)), 1) == 2
    assert await texts(store, "s") == ["z", "y"]
    new = await store.run("r")
    assert old is not None
    assert new is not None
    assert new.number > old.number
