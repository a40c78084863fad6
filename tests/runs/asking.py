"""The run routes asked as a server asks them, without a socket: in virtual time, by clients that may leave."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
import trio
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from orchestrator.api.identity import EVERYBODY, attach_client
from orchestrator.api.runs import routes
from orchestrator.api.services import Runs, Services
from orchestrator.api.surface import Surface, attach


class Asked:
    """One request under way: `leave` is what a client does that has had enough."""

    def __init__(self, body: bytes) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._grown = trio.Event()
        self._left = trio.Event()
        self._unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    def leave(self) -> None:
        self._left.set()

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def events(self) -> list[dict[str, str]]:
        """The server-sent events that came so far."""
        blocks = [block for block in self.body.decode().split("\n\n") if block and not block.startswith(":")]
        return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]

    async def until_events(self, count: int) -> None:
        while len(self.events()) < count:
            await self._grown.wait()

    async def receive(self) -> Message:
        if self._unread:
            return self._unread.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self.body += message["body"]
            self.ended = not message.get("more_body", False)
        self._grown.set()
        self._grown = trio.Event()


class Asking:
    """The routes over one service."""

    def __init__(self, runs: Runs, surface: Surface | None = None) -> None:
        services = cast(Services, _Only(runs))
        self._surface = surface or Surface()
        self._router = Router(routes(services))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        attach(scope, self._surface)
        attach_client(scope, EVERYBODY)
        await self._router(scope, receive, send)

    async def ask(self, method: str, url: str, body: object = None, headers: Mapping[str, str] | None = None) -> Asked:
        """One request to its end."""
        async with self.asking(method, url, body, headers) as asked:
            pass
        return asked

    @asynccontextmanager
    async def asking(
        self, method: str, url: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Asked]:
        """One request under way; leaving the block waits for its end."""
        parts = urlsplit(url)
        asked = Asked(b"" if body is None else msgspec.json.encode(body))
        scope = {
            "type": "http",
            "method": method,
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self, scope, asked.receive, asked.send)
            yield asked


class _Only:
    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def waits_for(self) -> Mapping[str, str]:
        return {}
