"""The gateway on real sockets: slow readers, leavers, absurd heads and bodies; everybody else is served meanwhile."""

import json
import random
import tracemalloc

import pytest
import trio

from orchestrator.api import gateway_stream
from tests.api.surface_rig import Served, make_services, receive_rest, receive_until, served, until
from tests.gateway.gateway_rig import PATHS, STREAMED, OwnerCalls, WireBackend, body, chunk, wire_owner
from tests.owner.staged import assert_balanced, running

HOST = b"Host: 127.0.0.1\r\n"


def post(path: str, content: bytes, *, version: str = "1.1", more: bytes = b"") -> bytes:
    """A whole request."""
    head = f"POST {path} HTTP/{version}\r\n".encode() + HOST + more
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


def services_over(owner):
    return make_services(calls=OwnerCalls(owner))


async def is_served(surface: Served) -> bool:
    """Whether a program gets its answer now."""
    stream = await surface.connect(post(PATHS["chat"], body("chat"), more=b"Connection: close\r\n"))
    answer = await receive_rest(stream)
    await stream.aclose()
    return b" 200 " in answer and b"one two" in answer


async def test_a_slow_reader_stops_the_reading_upstream_and_harms_nobody():
    """A program that reads nothing of a stream of 200 MB holds a few batches of it; the others are served."""
    backend = WireBackend()
    batch = (chunk("x" * 50_000),)
    usual = backend.plan
    backend.plan = lambda number, request: (batch for _ in range(4_000)) if number == 1 else usual(number, request)
    async with running(wire_owner(backend, slots=2)) as owner, served(services_over(owner)) as surface:
        slow = await surface.connect(post(PATHS["chat"], body("chat", stream=True)))
        await receive_until(slow, b"xxx")
        before = -1
        while before != backend.delivered:
            before = backend.delivered
            await trio.sleep(0.05)
        tracemalloc.start()
        try:
            held = tracemalloc.get_traced_memory()[0]
            for _ in range(20):
                assert await is_served(surface)
            assert tracemalloc.get_traced_memory()[0] - held < 2_000_000
        finally:
            tracemalloc.stop()
        # what sockets and a bounded channel hold, out of 4,000 batches
        assert backend.delivered - 20 * 2 < 400
        await slow.aclose()
        await until(lambda: backend.busy == 0 and owner.statistics().held == 0)
        assert_balanced(owner)


async def test_a_reader_that_takes_nothing_at_all_is_cut_off(monkeypatch):
    """A program that stops reading loses its stream, so that its slot serves others."""
    monkeypatch.setattr(gateway_stream, "HEAD_SECONDS", 0.05)
    backend = WireBackend()
    usual = backend.plan
    batch = (chunk("x" * 50_000),)
    backend.plan = lambda number, request: (batch for _ in range(4_000)) if number == 1 else usual(number, request)
    async with (
        running(wire_owner(backend)) as owner,
        served(services_over(owner), heartbeat_seconds=0.05, stalled_seconds=0.2) as surface,
    ):
        stalled = await surface.connect(post(PATHS["chat"], body("chat", stream=True)))
        await receive_until(stalled, b"xxx")
        assert await is_served(surface)
        assert backend.busy == 0
        assert_balanced(owner)
        await stalled.aclose()


async def test_300_programs_that_close_their_sockets_leave_nothing():
    """Whenever a socket is closed, queued, streaming or half read, the call is gone and every counter is zero."""
    rng = random.Random(5)
    backend = WireBackend(step=0.01)
    async with running(wire_owner(backend, slots=4)) as owner, served(services_over(owner)) as surface:

        async def come_and_go(dialect: str, stream: bool, patience: float) -> None:
            try:
                client = await surface.connect(post(PATHS[dialect], body(dialect, stream=stream)))
                with trio.move_on_after(patience):
                    while await client.receive_some(65536):
                        pass
                await client.aclose()
            except trio.BrokenResourceError:
                pass

        async with trio.open_nursery() as nursery:
            for _ in range(300):
                nursery.start_soon(come_and_go, rng.choice(STREAMED), rng.random() < 0.5, rng.random() * 0.15)
        await until(lambda: owner.statistics().held == 0 and owner.statistics().waiting == 0)
        await until(lambda: backend.busy == 0)
        assert backend.aborted > 0
        assert_balanced(owner)
        assert await is_served(surface)


@pytest.mark.parametrize("dialect", ["chat", "messages"])
async def test_a_body_of_100_megabytes_is_413_in_the_providers_shape(dialect):
    """A body beyond the bound is refused by its announced length, and one of unknown length as soon as it is beyond."""
    async with running(wire_owner(WireBackend())) as owner, served(services_over(owner)) as surface:
        announced = f"POST {PATHS[dialect]} HTTP/1.1\r\n".encode() + HOST + b"Content-Length: 100000000\r\n\r\n"
        chunked = f"POST {PATHS[dialect]} HTTP/1.1\r\n".encode() + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        part = b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n"
        for head, piece in ((announced, b"x" * 1_000_000), (chunked, part)):
            stream = await surface.connect(head)

            async def send_all(stream=stream, piece=piece) -> None:
                try:
                    for _ in range(100):
                        await stream.send_all(piece)
                except trio.BrokenResourceError:
                    pass

            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_all)
                answer = await receive_until(stream, b"request_too_large")
                assert b" 413 " in answer.split(b"\r\n")[0]
                assert await is_served(surface)
                nursery.cancel_scope.cancel()
            await stream.aclose()


@pytest.mark.parametrize("length", [b"9" * 10_000, b"1" + b"0" * 21, b"1e21", b"-1", b"0x10", b"12, 13"])
async def test_S07_an_absurd_content_length_is_refused_before_anything_is_read(length):
    """A length that is no sensible number is refused at once, and others are served."""
    async with running(wire_owner(backend := WireBackend())) as owner, served(services_over(owner)) as surface:
        head = f"POST {PATHS['chat']} HTTP/1.1\r\n".encode() + HOST
        stream = await surface.connect(head + b"Content-Length: " + length + b"\r\n\r\n")
        answer = await receive_rest(stream)
        head, _, document = answer.partition(b"\r\n\r\n")
        assert head[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 413")
        assert json.loads(document)["error"]["type"] == "invalid_request_error"
        assert not backend.sent
        assert await is_served(surface)
        await stream.aclose()


@pytest.mark.parametrize("stream", [True, False])
async def test_http_1_0_is_answered_to_its_end(stream):
    """A program that speaks HTTP/1.0 gets its answer, ended by the connection's end and not in chunks."""
    async with running(wire_owner(WireBackend())) as owner, served(services_over(owner)) as surface:
        client = await surface.connect(post(PATHS["chat"], body("chat", stream=stream), version="1.0"))
        head, _, answer = (await receive_rest(client)).partition(b"\r\n\r\n")
        await client.aclose()
    assert b" 200 " in head
    assert b"chunked" not in head.lower()
    if stream:
        assert answer.endswith(b"data: [DONE]\n\n")
        assert answer.startswith(b"data: {")
    else:
        assert json.loads(answer)["choices"][0]["message"]["content"] == "one two"


async def test_requests_sent_ahead_are_answered_in_order():
    """Pipelined requests get their answers one after the other, streams among them."""
    async with running(wire_owner(WireBackend())) as owner, served(services_over(owner)) as surface:
        requests = [
            post(PATHS["chat"], body("chat", stream=True)),
            post(PATHS["messages"], b"{}"),
            post(PATHS["embeddings"], body("embeddings"), more=b"Connection: close\r\n"),
        ]
        client = await surface.connect(b"".join(requests))
        answers = await receive_rest(client)
        await client.aclose()
    places = [answers.index(mark) for mark in (b"[DONE]", b'"invalid_request_error"', b'"object":"list"')]
    assert places == sorted(places)
    assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400", b"200"]


async def test_a_head_that_comes_a_byte_at_a_time_does_not_hold_its_connection():
    """A head that is not whole in time ends its connection, however often a byte of it comes; others are served."""
    async with (
        running(wire_owner(WireBackend())) as owner,
        served(services_over(owner), idle_seconds=0.3) as surface,
    ):
        stream = await surface.connect()
        closed = trio.Event()

        async def drip() -> None:
            try:
                for byte in post(PATHS["chat"], body("chat")):
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(0.05)
            except trio.BrokenResourceError:
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drip)
            assert await is_served(surface)
            await receive_rest(stream)
            closed.set()
            nursery.cancel_scope.cancel()
        assert closed.is_set()
        assert await is_served(surface)
        await stream.aclose()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /v1/messages HTTP/1.1\r\n" + HOST + b"X: " + b"y" * 100_000 + b"\r\n\r\n", 431),
        (b"POST /v1/messages HTTP/1.1\r\n" + HOST + b"X\x00Y: z\r\n\r\n", 400),
        (b"what is this\r\n\r\n", 400),
    ],
)
async def test_a_head_that_cannot_be_read_is_told_so(sent, status):
    """Garbage and heads beyond their bound get a document that any SDK reads as an error, and end their connection."""
    async with running(wire_owner(WireBackend())) as owner, served(services_over(owner)) as surface:
        stream = await surface.connect(sent)
        head, _, document = (await receive_rest(stream)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d" % status)
        error = json.loads(document)["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert await is_served(surface)
        await stream.aclose()


async def test_a_body_that_comes_too_slowly_is_408_in_the_providers_shape():
    """A body that is not whole in time is told so."""
    async with (
        running(wire_owner(WireBackend())) as owner,
        served(services_over(owner), body_seconds=0.05) as surface,
    ):
        whole = post(PATHS["messages"], body("messages"))
        stream = await surface.connect(whole[:-5])
        answer = await receive_until(stream, b"timeout_error")
        assert b" 408 " in answer
        await stream.aclose()


async def test_an_end_of_the_daemon_is_an_error_to_a_stream_and_not_its_end():
    """A program whose stream the daemon's end cuts off is told, and sees no [DONE]."""
    backend = WireBackend("middle")
    async with running(wire_owner(backend)) as owner, served(services_over(owner), grace_seconds=5) as surface:
        stream = await surface.connect(post(PATHS["chat"], body("chat", stream=True)))
        await receive_until(stream, b"one ")
        surface.closing.set()
        answer = await receive_rest(stream)
        assert b"shutting down" in answer
        assert b"[DONE]" not in answer
        await stream.aclose()
