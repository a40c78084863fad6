"""What the surface can do, each operation declared once: its route, its checks and its documentation.

    class RunsQuery(Struct, frozen=True, forbid_unknown_fields=True):
        tenant: str = ""
        observed: frozenset[Observed] = frozenset()      # ?observed=done&observed=failed, or ?observed=done,failed
        size: Annotated[int, Meta(ge=1, le=1000, description="runs on a page")] = 100

    def routes(services: Services) -> list[Route]:
        async def start(request: Request, body: RunRequest) -> RunView:
            return await services.runs.start(body)

        async def page(request: Request, query: RunsQuery) -> RunPage:
            return await services.runs.page(tenant=query.tenant, observed=query.observed, size=query.size)

        async def events(request: Request) -> EventStream:
            run, after = request.path_params["run"], last_event_id(request)
            await services.runs.view(run)                            # an unknown run is a 404, not an event
            return EventStream(to_events(services.runs.events(run, after)))

        return [
            Operation("POST", "/api/runs", start, "Start a run", body=RunRequest, answer=RunView, status=201,
                      errors=(404, 409, 429, 503)).route(),
            Operation("GET", "/api/runs", page, "List runs", query=RunsQuery, answer=RunPage).route(),
            Operation("GET", "/api/runs/{run}/events", events, "Follow a run", events={"message": RunEvent},
                      errors=(404,)).route(),
        ]

A handler gets the request, and by name `body` and `query` where they are declared. It returns a struct (encoded as JSON
with the operation's status), a starlette `Response`, or a `Stream`. It raises errors of the taxonomy: `errors.py` knows
their status.

`waits=True` is for a handler that waits for something (a long poll, a model call): it is cancelled when the client
leaves. Every other handler runs to its end. `upload` gives a handler its body as it comes, an async generator of bytes,
instead of a decoded one. The answers of `lines` are JSON Lines of `answer`.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from agents.errors import HeadraceError
from orchestrator.api.bodies import body_chunks, check_length, decode_body, decode_query, read_body
from orchestrator.api.errors import MethodNotAllowed
from orchestrator.api.gateway_errors import failure
from orchestrator.api.leaving import ClientLeft, until_left
from orchestrator.api.surface import surface_of

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
_NOT_REGISTERED: Final = {529: "Overloaded"}

Handler = Callable[..., Awaitable[Struct | ASGIApp]]


class Operation(Struct, frozen=True):
    """One operation: where it is, who handles it, what goes in and what comes out.

    `document` describes a JSON body that the handler gets as bytes and reads itself; others than its members may be in
    it. `answer` is the type of the JSON answer (of each line, with `lines`); `media_type` that of an answer which is
    neither, `media_types` those of one that is any of several. `events` gives the type of each server-sent event by
    name. `errors` are the statuses that are worth documenting; 400 is documented wherever there is a body or a query.
    `problems` gives the media types of failures that are no `ErrorAnswer`.
    """

    method: Method
    path: str
    handler: Handler
    summary: str
    body: type[Struct] | None = None
    document: type[Struct] | None = None
    upload: str = ""
    query: type[Struct] | None = None
    answer: Any = None
    status: int = 200
    media_type: str = ""
    media_types: tuple[str, ...] = ()
    events: Mapping[str, Any] = {}
    lines: bool = False
    waits: bool = False
    errors: tuple[int, ...] = ()
    problems: Mapping[int, str] = {}

    def route(self) -> "OperationRoute":
        """The route to it."""
        return OperationRoute(self)


class OperationRoute(Route):
    """A route that knows its operation. `allowed` are all methods of its path; the application sets it."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.allowed: frozenset[str] = frozenset({operation.method})
        name = getattr(operation.handler, "__name__", operation.path)
        super().__init__(operation.path, _Endpoint(operation), methods=[operation.method], name=name)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.methods is not None and scope["method"] not in self.methods:
            allowed = ", ".join(sorted(self.allowed))
            error = MethodNotAllowed(f"{scope['path']} does not know {scope['method']}; it knows: {allowed}")
            await failure(scope, error, {"allow": allowed})(scope, receive, send)
            return
        await self.app(scope, receive, send)


class _Endpoint:
    """The ASGI application behind one operation."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            answer = await self._handle(request, receive)
        except ClientLeft:
            return
        except HeadraceError as error:
            answer = failure(scope, error)
        await self._as_app(answer)(scope, receive, send)

    async def _handle(self, request: Request, receive: Receive) -> "Struct | ASGIApp":
        operation, config = self._operation, surface_of(request.scope).config
        given: dict[str, Any] = {}
        if operation.query is not None:
            given["query"] = decode_query(operation.query, request.query_params)
        if operation.upload:
            async with aclosing(body_chunks(receive, seconds=config.body_seconds)) as body:
                return await operation.handler(request, body=body, **given)
        if operation.body is not None or operation.document is not None:
            check_length(request.headers, config.body_bytes)
            raw = await read_body(receive, bound=config.body_bytes, seconds=config.body_seconds)
            given["body"] = raw if operation.body is None else decode_body(operation.body, raw)
        work = partial(operation.handler, request, **given)
        return await until_left(receive, work) if operation.waits else await work()

    def _as_app(self, answer: "Struct | ASGIApp") -> ASGIApp:
        if isinstance(answer, Struct):
            return json_answer(answer, self._operation.status)
        return answer


def json_answer(answer: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(answer), status, dict(headers or {}), media_type="application/json")


def phrase(status: int) -> str:
    """What a status is called."""
    return _NOT_REGISTERED.get(status) or HTTPStatus(status).phrase
