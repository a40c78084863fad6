"""A surface to test: services over a real owner, a driver without a wire, a server on a real one."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import trio
from starlette.types import ASGIApp, Message

from agents.messages import Delta, ModelReply, ModelRequest, Usage
from agents.messages import Message as Words
from agents.money import PriceList
from agents.owner_port import OwnerPort
from agents.port import Flow, Priority
from orchestrator.api.app import make_app
from orchestrator.api.identity import Identity
from orchestrator.api.server import serve_http
from orchestrator.api.services import Services
from orchestrator.api.surface import HttpConfig
from orchestrator.backends.base import Capabilities, Connection, Progress
from orchestrator.budgets import TenantBudgets
from orchestrator.catalogue import Catalogue, Target
from orchestrator.keys import KeyRing
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.views.queue import CapabilitiesView, QueueView

PATIENCE = 10.0
"""Seconds after which a test that waits for something has failed; never reached when it passes."""

CATALOGUE = Catalogue(models={"small": (Target("test", "small"),)}, default_model="small")


async def queue_view() -> QueueView:
    return QueueView(now=1.0, uptime=1.0, version="test", draining=False, backends=(), runs={}, jobs=0)


def capabilities() -> CapabilitiesView:
    return CapabilitiesView(
        version="test",
        survives_restart=False,
        cancels=True,
        streams=True,
        models=("small",),
        default_model="small",
        agents=(),
        tenants=(),
    )


class OwnerCalls:
    """Implements `Calls` over one owner, and keeps the flows and priorities that were asked for."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.asked: list[tuple[Flow, Priority, bool]] = []

    def port(self, flow: Flow, priority: Priority = Priority.STANDARD, *, agent: bool = True) -> OwnerPort:
        self.asked.append((flow, priority, agent))
        return OwnerPort(self.owner.inbox, flow, priority, agent=agent)


class NoService:
    """Stands where a test needs no service."""


def make_services(**given: Any) -> Services:
    """Services that do nothing, but for those given."""
    nothing: dict[str, Any] = {
        "runs": NoService(),
        "sessions": NoService(),
        "approvals": NoService(),
        "explain": NoService(),
        "jobs": NoService(),
        "calls": NoService(),
        "queue": queue_view,
        "capabilities": capabilities,
        "priority": CATALOGUE.priority,
        "model": lambda name: CATALOGUE.targets(name)[0].model,
        "ready": lambda: None,
        "metrics": lambda: b"# no metrics\n",
        "identify": Identity(KeyRing, time.time),
        "budgets": TenantBudgets({}, prices=PriceList, wall=time.time),
    }
    return Services(**{**nothing, **given})


class HeldBackend:
    """A backend whose calls wait where a test holds them: at `headers`, at `middle` (between its words), at `end`."""

    name = "held"

    def __init__(self, *held: str, words: Iterable[str] = ("one ", "two")) -> None:
        self.words = tuple(words)
        self.held = {phase: trio.Event() for phase in held}
        self.reached: dict[str, int] = {}
        self.sent: list[ModelRequest] = []
        self.busy = 0
        self.aborted = 0

    def capabilities(self) -> Capabilities:
        return Capabilities(dialect="held")

    def connect(self) -> Connection:
        return _HeldConnection(self)

    def release(self, phase: str) -> None:
        self.held.pop(phase).set()

    async def pass_by(self, phase: str) -> None:
        self.reached[phase] = self.reached.get(phase, 0) + 1
        held = self.held.get(phase)
        if held is not None:
            await held.wait()


class _HeldConnection:
    def __init__(self, backend: HeldBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        backend = self._backend
        backend.sent.append(request)
        backend.busy += 1
        try:
            progress.connected()
            progress.written()
            await backend.pass_by("headers")
            progress.headers(())
            for word in backend.words:
                await progress.deltas((Delta(word),))
                await backend.pass_by("middle")
            usage = Usage(input=10, output=len(backend.words))
            progress.usage(usage)
            await backend.pass_by("end")
        except trio.Cancelled:
            backend.aborted += 1
            raise
        finally:
            backend.busy -= 1
        return ModelReply(Words("assistant", "".join(backend.words)), "stop", usage)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def held_owner(backend: HeldBackend, *, slots: int = 1, dispatch: DispatchConfig | None = None) -> Owner:
    """An owner of one held endpoint."""
    endpoint = Endpoint(backend.name, cast("Any", backend), concurrency=ConcurrencyConfig(fixed=slots))
    return Owner(OwnerConfig("test", dispatch or DispatchConfig()), [endpoint])


def call_body(text: str = "hello", **fields: Any) -> bytes:
    """A request to `/api/calls`."""
    request = {"model": "", "messages": [{"role": "user", "content": text}], "max_tokens": 16}
    return json.dumps({"request": request, **fields}).encode()


class Exchange:
    """One request to an application without a wire. `leave` is what a server says when the client is gone."""

    def __init__(
        self,
        app: ASGIApp,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        raw = {"host": "localhost", **({} if body is None else {"content-length": str(len(body))}), **(headers or {})}
        path, _, query = path.partition("?")
        self._app = app
        self.scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in raw.items()],
            "state": {},
        }
        self.sent: list[Message] = []
        self._to_app, self._from_client = trio.open_memory_channel[Message](100)
        self._to_app.send_nowait({"type": "http.request", "body": body or b"", "more_body": False})
        self.slow = False
        self.ended = trio.Event()

    def leave(self) -> None:
        self._to_app.send_nowait({"type": "http.disconnect"})

    async def run(self) -> "Exchange":
        """Runs until the application has returned. As under a server, the end of the answer is told as a departure."""
        await self._app(self.scope, self._from_client.receive, self._send)
        self.ended.set()
        return self

    async def _send(self, message: Message) -> None:
        if self.slow:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        self.sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.leave()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    def header(self, name: str) -> str | None:
        for key, value in self.sent[0]["headers"]:
            if key.decode().lower() == name:
                return str(value.decode())
        return None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def whole(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.json["error"])

    @property
    def events(self) -> list[tuple[str, Any]]:
        return sse_events(self.body)


async def ask(
    app: ASGIApp, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Exchange:
    """One whole exchange."""
    with trio.fail_after(PATIENCE):
        return await Exchange(app, method, path, body, headers).run()


def sse_events(raw: bytes) -> list[tuple[str, Any]]:
    """Names and data of server-sent events; comments are left out."""
    events = []
    for block in raw.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            events.append((fields.get("event", "message"), json.loads(fields["data"])))
    return events


class Served:
    """A server on a real socket."""

    def __init__(self, url: str, closing: trio.Event) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.closing = closing
        self.ended = trio.Event()

    async def connect(self, sent: bytes = b"") -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        await stream.send_all(sent)
        return stream

    async def post(self, path: str, body: bytes) -> trio.SocketStream:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self.connect(head.encode() + body)

    async def get(self, path: str) -> trio.SocketStream:
        return await self.connect(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


@asynccontextmanager
async def served(services: Services, app: ASGIApp | None = None, **config: Any) -> AsyncGenerator[Served, None]:
    """The surface on a free port; the block's end closes it, and must end it."""
    settings = HttpConfig(**{"port": 0, "grace_seconds": 0.2, **config})
    closing = trio.Event()
    app = app or make_app(services, settings, closing=closing)
    async with trio.open_nursery() as nursery:

        async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
            await serve_http(app, settings, closing=closing, task_status=task_status)
            surface.ended.set()

        urls: list[str] = await nursery.start(serve)
        surface = Served(urls[0], closing)
        yield surface
        closing.set()
        with trio.fail_after(PATIENCE):
            await surface.ended.wait()


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition holds."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110  what is waited for lies behind sockets
            await trio.sleep(0.0005)


async def receive_until(stream: trio.SocketStream, mark: bytes) -> bytes:
    """What arrives until `mark` is in it; fails if the other side closes before."""
    seen = b""
    with trio.fail_after(PATIENCE):
        while mark not in seen:
            more = await stream.receive_some(65536)
            assert more, f"closed after {seen!r}"
            seen += more
    return seen


async def receive_rest(stream: trio.SocketStream) -> bytes:
    """What arrives until the other side closes."""
    seen = b""
    with trio.fail_after(PATIENCE):
        try:
            while more := await stream.receive_some(65536):
                seen += more
        except trio.BrokenResourceError:
            pass
    return seen
