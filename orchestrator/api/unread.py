"""A request body that its handler did not read (a 404, a 413, an upload refused for its offset).

The server hands a body on through a small queue. When nobody takes from it the connection stands still for ever, with
the answer in it, and the client may wait to get rid of its body before it looks for an answer. So before an answer
ends, what is left of the body is taken and dropped, for a while; a client that is not done by then is cut off.
"""

from typing import Final

import trio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CUT: Final = "headrace.cut"
"""In the scope's state: a function that closes the connection at once. The server puts it there."""

PATIENCE: Final = 5.0


class DropUnread:
    """ASGI middleware: ends every request with its body read."""

    def __init__(self, app: ASGIApp, *, patience: float = PATIENCE) -> None:
        self._app = app
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _has_body(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, self._patience)

        async def ending(message: Message) -> None:
            if body.read or message["type"] != "http.response.body" or message.get("more_body", False):
                await send(message)
                return
            await send({**message, "more_body": True})
            await body.drop()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, body.receive, ending)


class _Body:
    def __init__(self, scope: Scope, receive: Receive, patience: float) -> None:
        self._receive = receive
        self._cut = scope.get("state", {}).get(CUT)
        self._patience = patience
        self.read = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.read = True
        return message

    async def drop(self) -> None:
        with trio.move_on_after(self._patience):
            while not self.read:
                await self.receive()
        if not self.read and self._cut is not None:
            self._cut()


def _has_body(headers: Headers) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
