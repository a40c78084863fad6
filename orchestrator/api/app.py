"""The ASGI application: all routes, behind the guard, with an answer for everything that can happen."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import trio
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agents.errors import HeadraceError
from orchestrator.api import (
    anthropic,
    approvals,
    calls,
    explain,
    health,
    jobs,
    openai,
    openapi,
    page,
    queue,
    runs,
    sessions,
    upkeep,
    workers,
)
from orchestrator.api.errors import NotFound, log_unexpected
from orchestrator.api.gateway_errors import failure, in_gateway
from orchestrator.api.gateway_headers import stamped
from orchestrator.api.guard import check_request
from orchestrator.api.identity import attach_client
from orchestrator.api.operations import OperationRoute
from orchestrator.api.services import Services
from orchestrator.api.surface import HttpConfig, Surface, attach
from orchestrator.api.unread import DropUnread

METRICS: Final = "/metrics"
OPEN: Final = frozenset({"/healthz", "/readyz"}) | page.PATHS
"""What asks for no key: a supervisor has none, and neither has a browser that has just got the page. They learn nothing
of anybody.
"""


def make_app(services: Services, config: HttpConfig | None = None, *, closing: trio.Event | None = None) -> ASGIApp:
    """The surface over these services. Streams end when `closing` is set; give the same event to `serve_http`."""
    surface = Surface(config or HttpConfig(), trio.Event() if closing is None else closing)
    return _Front(surface, all_routes(services), services)


def all_routes(services: Services) -> list[OperationRoute]:
    """Every route of the surface."""
    # looked through in this order: what is asked most often stands first
    rooms = (openai, anthropic, workers, health, queue, explain, calls, runs, approvals, jobs, sessions, upkeep, page)
    routes = _operations(chain.from_iterable(room.routes(services) for room in rooms))
    routes += _operations(openapi.routes([route.operation for route in routes]))
    methods: dict[str, set[str]] = {}
    for route in routes:
        methods.setdefault(route.path, set()).update(route.methods or ())
    for route in routes:
        route.allowed = frozenset(methods[route.path])
    return routes


def _operations(routes: Iterable[BaseRoute]) -> list[OperationRoute]:
    found: list[OperationRoute] = []
    for route in routes:
        if not isinstance(route, OperationRoute):
            raise TypeError(f"{route!r} declares no operation")
        found.append(route)
    return found


class _Front:
    """What every request meets first."""

    def __init__(self, surface: Surface, routes: Sequence[BaseRoute], services: Services) -> None:
        self._surface = surface
        self._identify = services.identify
        self._answered = services.answered
        self._open = OPEN | {METRICS} if services.open_metrics else OPEN
        self._router = Router(routes, redirect_slashes=False, default=_not_found)
        self._answer = DropUnread(self._checked)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        if scope["type"] == "http":
            await self._answer(scope, receive, self._counting(scope["path"], send))

    def _counting(self, path: str, send: Send) -> Send:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._answered(path, message["status"])
            await send(message)

        return counting

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        attach(scope, self._surface)
        if in_gateway(scope["path"]):
            send = stamped(scope, send)
        try:
            check_request(scope, self._surface.config)
            if scope["path"] not in self._open:
                attach_client(scope, self._identify(Headers(scope=scope)))
            await self._router(scope, receive, noting)
        except HeadraceError as error:
            await failure(scope, error)(scope, receive, noting)
        except Exception as error:
            if begun:
                # the answer stays without its end, which the client sees
                log_unexpected(error, path=scope["path"])
            else:
                await failure(scope, error)(scope, receive, noting)


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    error = NotFound(f"there is nothing at {scope['path'][:200]}; what there is says /api/openapi.json")
    await failure(scope, error)(scope, receive, send)
