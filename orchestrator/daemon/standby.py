"""What a daemon does while another one leads their store: it lives, says that it can't serve, and waits.

Its sockets are open all the time. Until it leads, `/healthz` says that it lives, `/readyz` who leads, and everything
else is answered with 503 in the shape that its client expects, so that a proxy goes to the one that leads. Then the
same sockets are served by the whole surface: a connection that comes in between waits in the backlog and is answered.
One that was accepted before and has not asked yet is closed, as whenever a server ends.

A daemon that has lost the lease has nothing to save: what it drove is another's, and nothing that it writes is taken.
It ends, and whoever started it starts it again, to stand by.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Protocol, runtime_checkable

import structlog
import trio
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agents.errors import HeadraceError
from orchestrator.api.errors import RETRY_AFTER_AT_MOST
from orchestrator.api.gateway_errors import failure
from orchestrator.api.guard import check_request
from orchestrator.api.server import serve_http
from orchestrator.api.surface import HttpConfig
from orchestrator.api.unread import DropUnread
from orchestrator.store.errors import StoreError

AT_ONCE_SECONDS: Final = 0.5
"""A daemon that leads by then was never standing by, and answers nobody as if it were."""

_log = structlog.get_logger("headrace")


class Leader(Protocol):
    """Who leads: `seconds` are left of its lease."""

    @property
    def holder(self) -> str: ...

    @property
    def seconds(self) -> float: ...


@runtime_checkable
class Leading(Protocol):
    """A store that one daemon at a time may use."""

    lost: trio.Event

    async def lead(self, task_status: trio.TaskStatus[None]) -> None:
        """Starts when this daemon leads; ends when it has lost the lease, with `lost` set."""
        ...

    async def leader(self) -> Leader: ...


class LeaseLost(HeadraceError):
    """This daemon may not lead any more, and has ended."""


class StandingBy(HeadraceError):
    """Another daemon leads."""

    kind: ClassVar[str] = "draining"

    def __init__(self, leader: Leader | None) -> None:
        self.retry_after = RETRY_AFTER_AT_MOST / 4 if leader is None else leader.seconds
        whose = "nobody leads yet" if leader is None or leader.seconds <= 0 else f"daemon {leader.holder} leads"
        super().__init__(f"this daemon stands by: {whose}")


async def stand_by(
    nursery: trio.Nursery,
    store: Leading,
    http: HttpConfig,
    listeners: Sequence[trio.SocketListener],
    *,
    ending: trio.Event,
) -> bool:
    """Waits until this daemon leads, answering on copies of the listeners meanwhile; False if it was told to end first.

    The lease is kept in `nursery`: cancel that when nothing writes any more, and the lease is given back.
    """
    closing = trio.Event()
    async with trio.open_nursery() as meanwhile:
        meanwhile.start_soon(_answer, store, http, listeners, closing)
        leads = await _lead_unless(ending, nursery, store)
        closing.set()
    return leads


async def until_lost(store: Leading) -> None:
    """Raises `LeaseLost` when this daemon may not lead any more; for a nursery around all that it does."""
    await store.lost.wait()
    raise LeaseLost("this daemon has lost the lease on its store and ends; started again it stands by")


async def _lead_unless(ending: trio.Event, nursery: trio.Nursery, store: Leading) -> bool:
    leads = False
    async with trio.open_nursery() as waiting:
        waiting.start_soon(_cancel_when, ending, waiting.cancel_scope)
        await nursery.start(store.lead)
        leads = True
        waiting.cancel_scope.cancel()
    return leads


async def _answer(
    store: Leading, http: HttpConfig, listeners: Sequence[trio.SocketListener], closing: trio.Event
) -> None:
    with trio.move_on_after(AT_ONCE_SECONDS):
        await closing.wait()
        return
    _log.info("another daemon leads; this one stands by", leader=await _who(store))
    copies = [trio.SocketListener(listener.socket.dup()) for listener in listeners]
    serve = partial(serve_http, DropUnread(standby_app(store, http)), http, closing=closing, listeners=copies)
    await serve()


def standby_app(store: Leading, http: HttpConfig) -> ASGIApp:
    """The application that answers meanwhile."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            check_request(scope, http)
            if scope["path"] == "/healthz":
                await PlainTextResponse("alive\n")(scope, receive, send)
                return
            raise StandingBy(await _leader(store))
        except HeadraceError as error:
            if scope["path"] == "/readyz" and isinstance(error, StandingBy):
                await PlainTextResponse(f"{error.message}\n", 503)(scope, receive, send)
            else:
                await failure(scope, error)(scope, receive, send)

    return app


async def _leader(store: Leading) -> Leader | None:
    try:
        return await store.leader()
    except StoreError:
        return None


async def _who(store: Leading) -> str:
    leader = await _leader(store)
    return "" if leader is None else leader.holder


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
