"""The simulated provider over HTTP: what `headrace simulate` runs, and what client paths are tested against.

A client that disconnects aborts its call: it no longer counts as in flight, and what it had produced counts. Faults
show as they do on a real wire: refused and reset connections, streams cut by FIN or RST, comments, error objects in a
stream of status 200. What it speaks stands in `routes`.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import count

import trio

from orchestrator.backends.simulated.config import SimConfig
from orchestrator.backends.simulated.errors import Hangup, SimError
from orchestrator.backends.simulated.http import BadRequest, HttpConnection, HttpRequest
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.routes import Exchange


def anthropic_base(url: str) -> str:
    """The base URL for Anthropic's clients, who put `/v1` after it themselves, where OpenAI's is `url`."""
    return url.removesuffix("/v1")


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
    """Answers the requests of all connections from one provider."""

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
                exchange = self._exchange(http, bad.request)
                await exchange.refuse(SimError(bad.status, str(bad)), [("connection", "close")])
                return
            if request is None:
                return
            await self._answer_watched(http, request)
            if not http.next_cycle():
                return

    def _exchange(self, http: HttpConnection, request: HttpRequest) -> Exchange:
        return Exchange(self._provider, http, request, next(self._numbers))

    async def _answer_watched(self, http: HttpConnection, request: HttpRequest) -> None:
        failure: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(http.watch, nursery.cancel_scope)
            try:
                await self._exchange(http, request).answer()
            except (Hangup, trio.BrokenResourceError) as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
