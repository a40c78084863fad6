"""The simulated provider over HTTP: what `headrace simulate` runs, and what client paths are tested against.

Speaks `POST /v1/chat/completions` (streamed and whole), `GET /v1/models` and `GET /healthz`. A client that disconnects
aborts its call: it no longer counts as in flight, and what it had produced counts. Faults show as they do on a real
wire: refused and reset connections, streams cut by FIN or RST, comments, error objects in a stream of status 200.
"""

import hmac
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import trio

from agents.messages import Delta
from orchestrator.backends.sim_config import SimConfig
from orchestrator.backends.sim_errors import Hangup, SimError
from orchestrator.backends.sim_http import BadRequest, HttpConnection, HttpRequest
from orchestrator.backends.sim_provider import Answer, SimProvider
from orchestrator.backends.sim_wire import (
    DONE,
    HEARTBEAT,
    ChatRequest,
    Headers,
    Writer,
    decode,
    error_body,
    event,
    limit_headers,
    models_body,
    retry_headers,
)
from orchestrator.policy.feedback import Reading

_JSON: Headers = [("content-type", "application/json")]
_SSE: Headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]


async def run_simulator(config: SimConfig, host: str, port: int, on_listening: Callable[[str], None]) -> None:
    """Serves a provider of its own until cancelled; its clock starts at 0. `on_listening` is told the base URL."""
    start = trio.current_time()
    provider = SimProvider(config, clock=lambda: trio.current_time() - start)
    async with trio.open_nursery() as nursery:
        on_listening(await nursery.start(partial(serve_simulated, provider, host=host, port=port)))


async def serve_simulated(
    provider: SimProvider,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    task_status: "trio.TaskStatus[str]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves the provider until cancelled. `task_status` is given the base URL (`http://host:port/v1`).

    Listens except during outages, in which nobody does and every connection is cut.
    """
    server = _Server(provider)
    outages = provider.faults.outages()
    listeners = await trio.open_tcp_listeners(port, host=host)
    port = listeners[0].socket.getsockname()[1]
    task_status.started(f"http://{f'[{host}]' if ':' in host else host}:{port}/v1")
    while True:
        now = provider.now()
        outage = next(((start, end) for start, end in outages if now < end), (math.inf, math.inf))
        with trio.move_on_after(max(0.0, outage[0] - now)):
            await trio.serve_listeners(server.handle, listeners)
        for listener in listeners:
            await listener.aclose()
        await trio.sleep(max(0.0, outage[1] - provider.now()))
        listeners = await trio.open_tcp_listeners(port, host=host)


class _Server:
    """Routes requests to one provider."""

    def __init__(self, provider: SimProvider) -> None:
        self._provider = provider
        self._numbers = count(1)

    async def handle(self, stream: trio.SocketStream) -> None:
        http = HttpConnection(stream)
        if self._provider.refuses_connection():
            await http.reset()
            return
        try:
            await self._converse(http)
        except Hangup as hangup:
            if hangup.reset:
                await http.reset()
                return
        except trio.BrokenResourceError:
            http.gone = True
        await http.aclose()

    async def _converse(self, http: HttpConnection) -> None:
        """Answers requests until the connection ends."""
        while True:
            try:
                request = await http.receive()
            except BadRequest as bad:
                await self._refuse(http, SimError(bad.status, str(bad)), [("connection", "close")])
                return
            if request is None:
                return
            await self._answer_watched(http, request)
            if not http.next_cycle():
                return

    async def _answer_watched(self, http: HttpConnection, request: HttpRequest) -> None:
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(http.watch, nursery.cancel_scope)
            try:
                await self._answer(http, request)
            except (Hangup, trio.BrokenResourceError) as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _answer(self, http: HttpConnection, request: HttpRequest) -> None:
        try:
            await self._route(http, request)
        except SimError as error:
            await self._refuse(http, error)

    async def _route(self, http: HttpConnection, request: HttpRequest) -> None:
        route = (request.method, request.path)
        if route == ("GET", "/healthz"):
            await http.respond(200, _JSON, b'{"status":"ok"}')
            return
        self._check_key(request)
        if route == ("GET", "/v1/models"):
            await http.respond(200, _JSON, models_body(self._provider.config.models or ("simulated",)))
        elif route == ("POST", "/v1/chat/completions"):
            await self._chat(http, request)
        else:
            raise SimError(404, f"no such resource: {request.method} {request.path}", code="unknown_url")

    def _check_key(self, request: HttpRequest) -> None:
        keys = self._provider.config.api_keys
        given = request.headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")
        if keys and not any(hmac.compare_digest(given, key.encode()) for key in keys):
            self._provider.statistics().refused["key"] += 1
            raise SimError(401, "no valid API key was given", code="invalid_api_key")

    async def _chat(self, http: HttpConnection, request: HttpRequest) -> None:
        try:
            chat = decode(request.body)
            asked = chat.request()
        except SimError as error:
            self._provider.count_invalid(error)
            raise
        sink = _Sink(http, chat, Writer(next(self._numbers), chat.model))
        await sink.finish(await self._provider.serve(asked, sink))

    async def _refuse(self, http: HttpConnection, error: SimError, headers: Sequence[tuple[str, str]] = ()) -> None:
        if http.answered:  # only an error inside a stream comes after the head
            await http.data(event(error_body(error)) + DONE)
            await http.end()
            return
        found: Headers = [*_JSON, *headers]
        if error.readings is not None:
            found += limit_headers(error.readings)
        if error.retry_after is not None:
            found += retry_headers(error.retry_after)
        await http.respond(error.status, found, error_body(error))


class _Sink:
    """Writes one answer: as it comes for a streamed request, at the end for one that wants it whole."""

    def __init__(self, http: HttpConnection, chat: ChatRequest, writer: Writer) -> None:
        self._http = http
        self._chat = chat
        self._writer = writer
        self._headers: Headers = []

    async def headers(self, readings: Sequence[Reading]) -> None:
        self._headers = limit_headers(readings)
        if self._chat.stream:
            await self._http.begin(200, _SSE + self._headers)
            await self._http.data(self._writer.chunk({"role": "assistant", "content": ""}))

    async def alive(self) -> None:
        if self._chat.stream:
            await self._http.data(HEARTBEAT)

    async def deltas(self, deltas: tuple[Delta, ...]) -> None:
        if self._chat.stream:
            await self._http.data(self._writer.deltas(deltas))

    async def finish(self, answer: Answer) -> None:
        reply = answer.reply
        if not self._chat.stream:
            body = self._writer.whole(reply, usage=answer.usage_reports > 0)
            await self._http.respond(200, _JSON + self._headers, body)
            return
        tail = self._writer.chunk({}, reply.finish_reason)
        if self._chat.usage_asked:
            tail += self._writer.usage(reply.usage) * answer.usage_reports
        await self._http.data(tail + DONE)
        await self._http.end()
