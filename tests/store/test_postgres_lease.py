"""Of several daemons on one database one leads: the others wait, take over, and find the old one fenced."""

import math
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from orchestrator.store.base import Batch
from orchestrator.store.errors import NotActive, SessionBusy
from orchestrator.store.postgres import open_postgres
from orchestrator.store.postgres_store import PostgresStore
from tests.store import postgres_candidate
from tests.store.postgres_server import fresh_schema, shared_server

SESSION = postgres_candidate.SESSION
ROOT = Path(__file__).parents[2]


@pytest.fixture
def schema() -> Iterator[str]:
    with fresh_schema() as name:
        yield name


def store_of(schema: str, holder: str, lease: float = 30.0) -> AbstractAsyncContextManager[PostgresStore]:
    return open_postgres(shared_server().dsn, holder=holder, schema=schema, lease=lease)


@asynccontextmanager
async def candidate(schema: str, holder: str, lease: float) -> AsyncIterator[trio.Process]:
    """A process that leads. It is killed at the end."""
    command = [sys.executable, "-m", postgres_candidate.__name__, shared_server().dsn, schema, holder, str(lease)]
    process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    try:
        assert await line_of(process) == "leads"
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.aclose()
        await process.stdout.aclose()


async def line_of(process: trio.Process) -> str:
    """The next line that the process says."""
    assert process.stdout is not None
    said = b""
    with trio.fail_after(20):
        while not said.endswith(b"\n"):
            more = await process.stdout.receive_some(1)
            assert more, "the process has ended"
            said += more
    return said.decode().strip()


async def test_the_one_that_stands_by_follows_at_once_when_the_first_goes(schema: str) -> None:
    """A daemon that ends gives its lease back, and the one that waits for it leads at once, not when it runs out."""
    with trio.fail_after(10):
        async with store_of(schema, "one") as one, store_of(schema, "two") as two, trio.open_nursery() as nursery:
            first = await nursery.start(_scoped, one)
            led = trio.Event()
            nursery.start_soon(_announce, two, led)
            await _until_waiting(two)
            assert not led.is_set()
            assert (await two.leader()).holder == "one"
            first.cancel()
            await led.wait()
            assert not one.lost.is_set()
            nursery.cancel_scope.cancel()


async def test_a_killed_daemon_is_followed_within_its_lease(schema: str) -> None:
    """When a leader is killed, the next leads within the lease's time, and takes its sessions without waiting more."""
    lease = 1.5
    async with candidate(schema, "one", lease) as process, store_of(schema, "two", lease) as two:
        await two.beat("two")
        with pytest.raises(SessionBusy):
            await two.take(SESSION, "two")
        process.send_signal(signal.SIGKILL)
        killed = trio.current_time()
        async with trio.open_nursery() as nursery:
            await nursery.start(two.lead)
            assert trio.current_time() - killed < lease + 5
            # the executor's own lease of 30 seconds is gone with the daemon
            assert (await two.take(SESSION, "two")).generation == 2
            nursery.cancel_scope.cancel()


async def test_a_daemon_that_wakes_too_late_appends_nothing(schema: str) -> None:
    """A leader that hung while another took over is refused, although nobody has taken its session."""
    async with candidate(schema, "one", 1.0) as one, store_of(schema, "two", 1.0) as two:
        assert one.stdin is not None
        await one.stdin.send_all(b"before\n")
        assert await line_of(one) == "2"
        one.send_signal(signal.SIGSTOP)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(two.lead)
                one.send_signal(signal.SIGCONT)
                await one.stdin.send_all(b"too late\n")
                assert await line_of(one) == "not_active"
                assert [record.data for record in await two.read(SESSION)] == [b"{}", b"before"]
                nursery.cancel_scope.cancel()
        finally:
            one.send_signal(signal.SIGCONT)


async def test_everything_of_a_fenced_store_is_refused(schema: str) -> None:
    """Neither appends nor take-overs, beats or work of the ledger of a store that has lost the lease reach the tables,
    and it knows that it has lost.
    """
    async with store_of(schema, "one") as one, store_of(schema, "two") as two, trio.open_nursery() as nursery:
        await nursery.start(one.lead)
        await one.beat("one")
        batch = Batch(session=SESSION, id="a", after=0, records=(b"a",))
        view = await one.take(SESSION, "one", batch=batch)
        await two.submit(lambda link: link.execute("UPDATE daemon SET until = '-infinity'"))
        await nursery.start(two.lead)
        failed: list[Exception] = []
        one.post(lambda link: link.execute("DELETE FROM records"), failed.append)
        with pytest.raises(NotActive, match="daemon two leads"):
            await one.append(Batch(session=SESSION, id="b", after=1, records=(b"b",)), view.generation)
        for attempt in (
            lambda: one.beat("one"),
            lambda: one.take(SESSION, "one"),
            lambda: one.append_external(SESSION, "k", (b"k",)),
            lambda: one.put_blob(b"blob"),
            lambda: one.prune(math.inf),
        ):
            with pytest.raises(NotActive):
                await attempt()
        assert one.lost.is_set()
        assert [type(error) for error in failed] == [NotActive]
        assert [record.data for record in await two.read(SESSION)] == [b"a"]
        nursery.cancel_scope.cancel()


async def test_of_ten_candidates_one_leads_at_a_time(schema: str) -> None:
    """Ten candidates lead one after the other, never two at once."""
    leading = most = 0
    order: list[str] = []

    async def lead(store: PostgresStore) -> None:
        nonlocal leading, most
        async with trio.open_nursery() as nursery:
            await nursery.start(store.lead)
            leading += 1
            most = max(most, leading)
            order.append(store.holder)
            await trio.lowlevel.checkpoint()
            leading -= 1
            nursery.cancel_scope.cancel()

    with trio.fail_after(20):
        async with _many(schema, 10) as stores, trio.open_nursery() as nursery:
            for store in stores:
                nursery.start_soon(lead, store)
    assert sorted(order) == [f"candidate {n}" for n in range(10)]
    assert most == 1


async def _scoped(store: PostgresStore, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(store.lead)
            task_status.started(scope)


async def _announce(store: PostgresStore, led: trio.Event) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(store.lead)
        led.set()


async def _until_waiting(store: PostgresStore) -> None:
    """Until the candidate has seen that another one leads, and listens."""
    while True:
        if len(store._bells) and not store._readers._limiter.borrowed_tokens:
            return
        await trio.sleep(0.001)


@asynccontextmanager
async def _many(schema: str, number: int) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(store_of(schema, f"candidate {n}")) for n in range(number)]
