"""Clients that speak HTTP badly, or something else: they are no errors of ours, and leave nothing behind."""

import random

import pytest
import structlog
import trio
import trio.testing

from tests.api.surface_rig import (
    HeldBackend,
    OwnerCalls,
    call_body,
    held_owner,
    make_services,
    receive_rest,
    receive_until,
    served,
    until,
)
from tests.owner.staged import running

HOST = b"Host: 127.0.0.1\r\n"
CALL = call_body(stream=True)

REQUESTS = (
    b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /api/queue/events?every=0.25 HTTP/1.1\r\n" + HOST + b"\r\n",
    b"HEAD /api/queue/events HTTP/1.1\r\n" + HOST + b"\r\n",
    b"POST /api/calls HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(CALL) + CALL,
    b"POST /api/calls HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"POST /api/calls HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 500\r\n\r\nab",
    b"GET /%ff%00?%zz=\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
)

H2_UPGRADE = b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: Upgrade, HTTP2-Settings\r\n"
WEBSOCKET = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"


async def test_rude_clients_are_no_errors_and_leave_nothing():
    """Requests that are torn, garbled, piled up and abandoned log no error, and the owner's books are empty after."""
    rng = random.Random(3)

    def rude() -> bytes:
        data = bytearray(b"".join(rng.choice(REQUESTS) for _ in range(rng.choice([1, 1, 2, 3]))))
        if rng.random() < 0.4:
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.4 else data)

    async def come_and_go(sent: bytes, patience: float) -> None:
        try:
            stream = await surface.connect(sent)
            with trio.move_on_after(patience):
                while await stream.receive_some(65536):
                    pass
            await stream.aclose()
        except trio.BrokenResourceError:
            pass

    with structlog.testing.capture_logs() as logs:
        async with (
            running(held_owner(HeldBackend(), slots=4)) as owner,
            served(make_services(calls=OwnerCalls(owner)), idle_seconds=0.1) as surface,
        ):
            async with trio.open_nursery() as nursery:
                for _ in range(300):
                    nursery.start_soon(come_and_go, rude(), rng.random() * 0.02)
            await until(lambda: owner.statistics().held == 0)
    assert logs == []


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET /healthz HTTP/1.1\r\n" + HOST + H2_UPGRADE + b"\r\n", b"HTTP/1.1 200"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + WEBSOCKET + b"\r\n", b"HTTP/1.1 200"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.1 505"),
    ],
)
async def test_nothing_but_http_1_is_spoken(sent, answer):
    """An offer to go on with HTTP/2 or WebSocket is passed over, and HTTP/2 without asking is refused."""
    async with served(make_services()) as surface:
        stream = await surface.connect(sent)
        assert (await receive_until(stream, b"\r\n\r\n")).startswith(answer)
        await stream.aclose()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\nGET",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n" + REQUESTS[0],
    ],
)
async def test_what_comes_behind_the_last_request_does_not_keep_its_connection(sent):
    """Bytes behind a request that is its connection's last leave nothing of the connection behind."""
    async with served(make_services(), connections=1, grace_seconds=60) as surface:
        for _ in range(3):
            stream = await surface.connect(sent)
            await receive_rest(stream)
            await stream.aclose()


async def test_at_the_end_requests_sent_ahead_do_not_keep_their_connection():
    """A shutdown answers what it has begun to answer, and does not wait for what was sent behind it."""
    backend = HeldBackend("headers")
    async with (
        running(held_owner(backend)) as owner,
        served(make_services(calls=OwnerCalls(owner)), grace_seconds=60) as surface,
    ):
        stream = await surface.connect(REQUESTS[3] + REQUESTS[0])
        await until(lambda: backend.busy == 1)
        surface.closing.set()
        backend.release("headers")
        answers = await receive_rest(stream)
        assert answers.count(b"HTTP/1.1 200") == 1
        await stream.aclose()


async def test_requests_sent_ahead_are_answered_in_order():
    """A client that does not wait for its answers gets them all the same, one after the other."""
    async with served(make_services()) as surface:
        stream = await surface.connect(REQUESTS[0] * 3 + b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await receive_until(stream, b"openapi.json\n")).count(b"alive\n") == 3
        await stream.aclose()
