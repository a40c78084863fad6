"""A daemon that stands by lives, says who leads, and hands its sockets over without losing a connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import trio
from msgspec import Struct
from starlette.responses import PlainTextResponse

from orchestrator.api.server import closing_listeners, listen, serve_http
from orchestrator.api.surface import HttpConfig
from orchestrator.daemon import standby
from orchestrator.daemon.standby import LeaseLost, stand_by, until_lost
from orchestrator.store.errors import StoreAway

HTTP = HttpConfig(port=0, grace_seconds=1.0)


class Other(Struct, frozen=True):
    holder: str = "one"
    seconds: float = 12.0


class FakeStore:
    """A store whose lease is somebody else's until `free` is set."""

    def __init__(self) -> None:
        self.free = trio.Event()
        self.lost = trio.Event()
        self.leads = False
        self.away = False

    async def lead(self, task_status: trio.TaskStatus[None]) -> None:
        await self.free.wait()
        self.leads = True
        try:
            task_status.started()
            await self.lost.wait()
        finally:
            self.leads = False

    async def leader(self) -> Other:
        if self.away:
            raise StoreAway("it is away")
        return Other()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "AT_ONCE_SECONDS", 0.0)


async def get(port: int, path: str, *, method: str = "GET") -> tuple[int, str]:
    """The status and the whole text of an answer; 0 where the connection was closed without one."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    answer = ""
    async with stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
            answer = b"".join([piece async for piece in stream]).decode()
    return int(answer.split()[1]) if answer else 0, answer


@asynccontextmanager
async def standing_by(store: FakeStore, ending: trio.Event) -> AsyncIterator[tuple[int, list[bool], trio.Event]]:
    """A daemon that waits for its lease: its port, what `stand_by` has said, and when; then it serves `whole`."""
    said: list[bool] = []
    done = trio.Event()
    with closing_listeners(await listen(HTTP)) as listeners, trio.fail_after(10):
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:

            async def daemon() -> None:
                said.append(await stand_by(nursery, store, HTTP, listeners, ending=ending))
                done.set()
                if said == [True]:
                    await serve_http(PlainTextResponse("whole"), HTTP, closing=trio.Event(), listeners=listeners)

            nursery.start_soon(daemon)
            yield port, said, done
            nursery.cancel_scope.cancel()


async def test_it_lives_and_says_who_leads() -> None:
    """While another daemon leads, `/healthz` is well, `/readyz` names the other one, and all else is 503."""
    async with standing_by(FakeStore(), trio.Event()) as (port, said, _):
        status, answer = await get(port, "/healthz")
        assert (status, answer.endswith("alive\n")) == (200, True)
        status, answer = await get(port, "/readyz")
        assert (status, answer.endswith("this daemon stands by: daemon one leads\n")) == (503, True)
        for path in ("/api/runs", "/v1/messages", "/v1/chat/completions", "/nowhere"):
            status, answer = await get(port, path, method="POST")
            assert status == 503
            assert "daemon one leads" in answer
            assert "retry-after: 12" in answer
        assert said == []


async def test_a_store_that_is_away_makes_no_difference() -> None:
    """Where nobody can say who leads, it still answers."""
    store = FakeStore()
    store.away = True
    async with standing_by(store, trio.Event()) as (port, _, _):
        assert (await get(port, "/healthz"))[0] == 200
        assert (await get(port, "/readyz"))[0] == 503


async def test_sockets_are_handed_over_while_they_are_open() -> None:
    """Clients that connect all the time while the daemon begins to lead are refused by none, and answered by one or the
    other; at most those are not that were connected and had not asked yet.
    """
    store = FakeStore()
    async with standing_by(store, trio.Event()) as (port, _, done), trio.open_nursery() as nursery:
        statuses: list[int] = []

        async def ask() -> None:
            while True:
                statuses.append((await get(port, "/readyz"))[0])

        nursery.start_soon(ask)
        nursery.start_soon(ask)
        while len(statuses) < 10:  # noqa: ASYNC110  until they have asked
            await trio.sleep(0.001)
        store.free.set()
        await done.wait()
        while statuses[-1] != 200:  # noqa: ASYNC110  until the whole surface has answered
            await trio.sleep(0.001)
        answered = [status for status in statuses if status]
        assert answered == sorted(answered, reverse=True)
        assert len(statuses) - len(answered) <= 2
        nursery.cancel_scope.cancel()


async def test_one_that_is_told_to_end_stops_waiting() -> None:
    """A daemon that ends while it stands by never leads."""
    store, ending = FakeStore(), trio.Event()
    async with standing_by(store, ending) as (port, said, done):
        assert (await get(port, "/healthz"))[0] == 200
        ending.set()
        await done.wait()
        assert said == [False]
        assert not store.leads


async def test_one_that_leads_at_once_never_stood_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody else leads, no request is refused while the daemon starts."""
    monkeypatch.setattr(standby, "AT_ONCE_SECONDS", 60.0)
    store = FakeStore()
    store.free.set()
    async with standing_by(store, trio.Event()) as (port, said, _):
        assert (await get(port, "/readyz"))[0] == 200
        assert said == [True]


async def test_a_lost_lease_ends_all() -> None:
    """Losing the lease is an error in the nursery around everything."""
    store = FakeStore()
    with pytest.RaisesGroup(pytest.RaisesExc(LeaseLost, match="started again it stands by")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_lost, store)
            store.lost.set()
