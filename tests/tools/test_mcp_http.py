"""Requests to an MCP server over HTTP that fail are answered, each for itself, with what is known of them."""

import json
from collections.abc import AsyncIterator, Callable

import httpx2
import pytest
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

from orchestrator.tools import mcp_http
from orchestrator.tools.mcp_http import Confined

RPC = {"jsonrpc": "2.0", "id": 1, "result": {}}


async def post(
    handler: Callable[[httpx2.Request], httpx2.Response], headers: dict[str, str] | None = None
) -> tuple[httpx2.Response, str]:
    confined = Confined(httpx2.MockTransport(handler))
    async with httpx2.AsyncClient(transport=confined) as client:
        return await client.post("http://server/mcp", json={}, headers=headers), confined.not_sent


def raises(error: Exception) -> Callable[[httpx2.Request], httpx2.Response]:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise error

    return handler


async def broken() -> AsyncIterator[bytes]:
    yield b'{"jsonrpc"'
    raise httpx2.ReadError("reset")


async def long() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield b"1234"


JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("handler", "code", "message", "not_sent"),
    [
        (raises(httpx2.ConnectError("refused")), INTERNAL_ERROR, "it cannot be reached (refused)", True),
        (raises(httpx2.ConnectTimeout("")), INTERNAL_ERROR, "it cannot be reached (ConnectTimeout)", True),
        (raises(httpx2.ReadError("reset")), CONNECTION_CLOSED, "the connection broke (reset)", False),
        (raises(httpx2.RemoteProtocolError("bad")), CONNECTION_CLOSED, "the connection broke (bad)", False),
        (
            lambda _: httpx2.Response(200, headers=JSON, content=broken()),
            CONNECTION_CLOSED,
            "the connection broke (reset)",
            False,
        ),
        (lambda _: httpx2.Response(502, text="bad gateway"), CONNECTION_CLOSED, "it answered with status 502", False),
        (lambda _: httpx2.Response(500, json={"detail": "x"}), CONNECTION_CLOSED, "it answered with status 500", False),
        (
            lambda _: httpx2.Response(401, text="secret"),
            INVALID_REQUEST,
            "it refused the request with status 401",
            False,
        ),
        (lambda _: httpx2.Response(404, text="gone"), INVALID_REQUEST, "it refused the request with status 404", False),
    ],
)
async def test_a_failure_says_whether_the_server_can_have_seen_the_request(
    handler: Callable[[httpx2.Request], httpx2.Response], code: int, message: str, not_sent: bool
) -> None:
    """What could not connect was not sent; what broke later, or was cut off by a gateway, may have been."""
    response, mark = await post(handler)
    error = json.loads(response.content)["error"]
    assert (error["code"], error["message"]) == (code, message)
    assert (error.get("data") == mark) is not_sent


async def test_a_forgotten_session_was_not_sent_to() -> None:
    """A server that was started again knows nothing of the session, and has run nothing."""
    response, mark = await post(lambda _: httpx2.Response(404), {"mcp-session-id": "s"})
    assert json.loads(response.content)["error"]["data"] == mark


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_what_speaks_the_protocol_is_passed_on(status: int) -> None:
    """Answers and errors of the protocol keep their status, body and session."""
    response, _ = await post(lambda _: httpx2.Response(status, json=RPC, headers={"mcp-session-id": "s", "x": "y"}))
    assert (response.status_code, response.json(), response.headers["mcp-session-id"]) == (status, RPC, "s")


async def test_a_body_without_end_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server cannot fill the daemon's memory with one answer."""
    monkeypatch.setattr(mcp_http, "MOST_BODY", 10)
    response, _ = await post(lambda _: httpx2.Response(200, headers=JSON, content=long()))
    assert json.loads(response.content)["error"]["message"] == "its answer has more than 10 bytes"


async def test_other_requests_fail_as_they_do() -> None:
    """The SDK tries streams again by itself, and needs to see how they fail."""
    async with httpx2.AsyncClient(
        transport=Confined(httpx2.MockTransport(raises(httpx2.ReadError("reset"))))
    ) as client:
        with pytest.raises(httpx2.ReadError):
            await client.get("http://server/mcp")
