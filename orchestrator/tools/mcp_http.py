"""HTTP to an MCP server with every request's failure kept to itself.

The SDK's transport sends all calls of a session through one group of tasks, which ends as a whole when one request
fails on the network: the call that could not connect would take those along that wait for their answers. Here a
request that fails is answered instead, with an error of the protocol that says whether the server can have seen it.
"""

from contextlib import aclosing
from typing import Final
from uuid import uuid4

import httpx2
import msgspec
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

CONNECT_TIMEOUT: Final = 10.0
WRITE_TIMEOUT: Final = 30.0
MOST_BODY: Final = 16 * 1024 * 1024
"""Bytes of an answer that is one JSON document. (Events of a stream are bounded by the SDK, to 1 MiB each.)"""

SESSION_HEADER: Final = "mcp-session-id"
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)


class Confined(httpx2.AsyncBaseTransport):
    """Requests as the inner transport makes them, but with their failures as answers.

    `not_sent` is the data of errors that say: the server has not seen this. It is made up for each connection, so that
    no server can say so. Anything else that broke off is `CONNECTION_CLOSED`, as the SDK has it for streams.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.not_sent = uuid4().hex

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return await self._inner.handle_async_request(request)  # the SDK tries these again by itself
        try:
            response = await self._inner.handle_async_request(request)
            return await self._answer(request, response)
        except _NOT_SENT as error:
            return _failure(INTERNAL_ERROR, f"it cannot be reached ({_words(error)})", self.not_sent)
        except httpx2.TransportError as error:
            return _failure(CONNECTION_CLOSED, f"the connection broke ({_words(error)})")

    async def _answer(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind, status = response.headers.get("content-type", ""), response.status_code
        is_json = kind.lower().startswith("application/json")
        if status < 400 and not is_json:
            return response
        try:
            body = await _read(response)
        finally:
            await response.aclose()
        if body is None:
            return _failure(INTERNAL_ERROR, f"its answer has more than {MOST_BODY} bytes")
        if status < 400 or (is_json and _is_protocol(body)):
            headers = {
                name: response.headers[name] for name in ("content-type", SESSION_HEADER) if name in response.headers
            }
            return httpx2.Response(status, headers=headers, content=body)
        if status == 404 and SESSION_HEADER in request.headers:
            return _failure(INVALID_REQUEST, "it has forgotten the session", self.not_sent)
        if status >= 500:
            return _failure(CONNECTION_CLOSED, f"it answered with status {status}")
        return _failure(INVALID_REQUEST, f"it refused the request with status {status}")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(response: httpx2.Response) -> bytes | None:
    """The body, decoded; None if it is too long."""
    parts, size = [], 0
    async with aclosing(response.aiter_bytes()) as incoming:
        async for part in incoming:
            size += len(part)
            if size > MOST_BODY:
                return None
            parts.append(part)
    return b"".join(parts)


def _is_protocol(body: bytes) -> bool:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(decoded, dict) and "jsonrpc" in decoded


def _failure(code: int, message: str, data: str | None = None) -> httpx2.Response:
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return httpx2.Response(
        503,
        headers={"content-type": "application/json"},
        content=msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}),
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
