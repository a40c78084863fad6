"""What holds for executors and the leases of sessions, in every store."""

import pytest
import trio

from orchestrator.store.base import Store
from orchestrator.store.errors import Conflict, DuplicateSession, Fenced, SessionBusy, StoreError
from tests.store.stores import ME, OTHER, batch, begin, row, texts


async def test_taking_raises_the_generation(store: Store) -> None:
    """Each taking raises the generation by one, also by whoever holds the session already; the view says who does."""
    view = await begin(store, "s", "a")
    assert (view.generation, view.holder, view.last, view.tenant) == (1, ME, 1, "blue")
    assert (await store.take("s", ME)).generation == 2


async def test_a_living_executors_session_is_busy(store: Store) -> None:
    """Nobody else gets a session that a living executor holds, and the refusal names it."""
    await begin(store, "s", "a")
    await store.beat(OTHER)
    with pytest.raises(SessionBusy, match=ME):
        await store.take("s", OTHER)
    with pytest.raises(SessionBusy):
        await store.take("s", OTHER, batch=batch("s", 1, "b"))
    assert await texts(store, "s") == ["a"]
    assert await store.append(batch("s", 1, "b"), 1) == 2


async def test_executors_that_are_dead_take_nothing(store: Store) -> None:
    """An executor that never announced itself, or whose time is over, gets no session."""
    await begin(store, "s", "a", holder=ME)
    await store.drop(ME)
    with pytest.raises(StoreError):
        await store.take("s", OTHER)
    await store.beat(OTHER, 0)
    with pytest.raises(StoreError):
        await store.take("s", OTHER)
    assert (await store.session("s")).generation == 1


@pytest.mark.parametrize("how", ["expired", "dropped", "released"])
async def test_a_session_is_free_again(store: Store, how: str) -> None:
    """A session is free when its holder's time is over, when its holder is gone, and when it was let go of."""
    await begin(store, "s", "a")
    await store.beat(OTHER)
    match how:
        case "expired":
            await store.beat(ME, 0)
        case "dropped":
            await store.drop(ME)
        case "released":
            await store.release("s", 1)
    view = await store.take("s", OTHER)
    assert (view.generation, view.holder) == (2, OTHER)


async def test_an_old_generation_is_fenced(store: Store) -> None:
    """Who was taken over appends nothing any more, and hears `Fenced` also where its number is wrong as well."""
    await begin(store, "s", "a")
    await store.beat(OTHER)
    await store.drop(ME)
    await store.take("s", OTHER, batch=batch("s", 1, "b"))
    for after in (1, 2):
        with pytest.raises(Fenced):
            await store.append(batch("s", after, "x"), 1)
    with pytest.raises(Fenced):
        await store.append(batch("s", 2, "x"), 3)
    assert await texts(store, "s") == ["a", "b"]


async def test_an_old_generation_releases_nothing(store: Store) -> None:
    """Letting go of a lease that is another's by now changes nothing; of a session that there is not, neither."""
    await begin(store, "s", "a")
    await store.take("s", ME)
    await store.release("s", 1)
    await store.release("nobody", 1)
    await store.beat(OTHER)
    with pytest.raises(SessionBusy):
        await store.take("s", OTHER)


async def test_a_beat_keeps_all_sessions(store: Store) -> None:
    """One beat keeps every session of its executor."""
    for number in range(50):
        await begin(store, f"s{number}", "a")
    await store.beat(ME)
    await store.beat(OTHER)
    for number in range(0, 50, 7):
        with pytest.raises(SessionBusy):
            await store.take(f"s{number}", OTHER)


async def test_executors_race_for_a_lease(store: Store) -> None:
    """Of many executors that take a free session at once exactly one gets it, and only it can append."""
    await begin(store, "s", "a")
    names = [f"racer-{number}" for number in range(12)]
    for name in names:
        await store.beat(name)
    await store.drop(ME)
    won: list[tuple[str, int]] = []

    async def race(name: str) -> None:
        try:
            view = await store.take("s", name)
        except SessionBusy:
            return
        won.append((view.holder, view.generation))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(race, name)
    ((winner, generation),) = won
    assert winner in names
    assert generation == 2
    assert await store.append(batch("s", 1, "b"), 2) == 2


async def test_a_batch_with_the_lease(store: Store) -> None:
    """A batch that comes with a taking is appended with it or not at all, and then the lease is not taken either."""
    await begin(store, "s", "a")
    with pytest.raises(Conflict):
        await store.take("s", ME, batch=batch("s", 0, "x"))
    assert (await store.session("s")).generation == 1
    view = await store.take("s", ME, batch=batch("s", 1, "b", "c"))
    assert (view.generation, view.last) == (2, 3)
    assert await texts(store, "s") == ["a", "b", "c"]


async def test_a_taking_that_is_sent_again(store: Store) -> None:
    """A taking whose answer got lost is sent again: its batch is in the log once, and the lease is had."""
    await store.beat(ME)
    one = batch("s", 0, "a", runs=(row("s"),))
    for generation in (1, 2):
        view = await store.take("s", ME, tenant="blue", batch=one)
        assert (view.generation, view.last, view.tenant) == (generation, 1, "blue")
    assert await texts(store, "s") == ["a"]


async def test_a_session_is_made_once(store: Store) -> None:
    """Of many that make the same session and run at once one succeeds; the others hear that there is one."""
    await store.beat(ME)
    outcomes: list[str] = []

    async def make() -> None:
        try:
            await store.take("s", ME, tenant="blue", batch=batch("s", 0, "a", runs=(row("s"),)))
            outcomes.append("made")
        except DuplicateSession:
            outcomes.append("duplicate")

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(make)
    assert sorted(outcomes) == ["duplicate"] * 7 + ["made"]
    assert await texts(store, "s") == ["a"]


async def test_a_run_of_the_same_name_in_another_session(store: Store) -> None:
    """A run's name is its own over all sessions: the second one of it leaves no session behind."""
    await begin(store, "s", "a", run=True)
    with pytest.raises(DuplicateSession, match="run s"):
        await store.take("t", ME, batch=batch("t", 0, "a", runs=(row("s", "t"),)))
    assert [view.session for view in await store.sessions()] == ["s"]
    with pytest.raises(DuplicateSession):
        await store.append(batch("s", 1, "b", runs=(row("s", "s", after=1),)), 1)
    assert await texts(store, "s") == ["a"]


async def test_what_is_refused_can_be_done_later(store: Store) -> None:
    """A session whose making was refused is as if nobody had tried."""
    await begin(store, "s", "a", run=True)
    with pytest.raises(DuplicateSession):
        await store.take("t", ME, batch=batch("t", 0, "a", runs=(row("s", "t"),)))
    view = await store.take("t", ME, tenant="red", batch=batch("t", 0, "a", runs=(row("t"),)))
    assert (view.generation, view.tenant) == (1, "red")
