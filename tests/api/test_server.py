"""The server on a real socket: clients that leave, dawdle or send too much, and how it ends."""

import re

import httpx2
import pytest
import structlog
import trio
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from agents.errors import InvalidLimits
from orchestrator.api.server import CannotListen, listen, serve_http
from orchestrator.api.surface import HttpConfig
from orchestrator.api.unread import DropUnread
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.dispatch import DispatchConfig
from tests.api.surface_rig import (
    PATIENCE,
    HeldBackend,
    OwnerCalls,
    Served,
    call_body,
    held_owner,
    make_services,
    receive_rest,
    receive_until,
    served,
    until,
)
from tests.backends.upstream import upstream
from tests.owner.staged import running

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def healthy(surface: Served) -> bool:
    stream = await surface.connect(HEALTH)
    answer = await receive_until(stream, b"alive\n")
    await stream.aclose()
    return answer.startswith(b"HTTP/1.1 200")


async def test_a_taken_address_is_told_in_one_sentence():
    """Who cannot listen is told where, and why."""
    taken = await listen(HttpConfig(port=0))
    port = taken[0].socket.getsockname()[1]
    with pytest.raises(CannotListen, match=f"^cannot listen on 127.0.0.1:{port}: address already in use$"):
        await listen(HttpConfig(port=port))
    await taken[0].aclose()


async def test_a_host_that_nobody_knows_is_told_in_one_sentence():
    """A name that is no address says so."""
    with pytest.raises(CannotListen, match=r"^cannot listen on no\.such\.host\.invalid:1: "):
        await listen(HttpConfig(host="no.such.host.invalid", port=1))


async def test_port_0_tells_the_real_one_and_nothing_says_what_serves():
    """The URL that is told can be asked, keeps its connection, and no header names the software."""
    async with served(make_services()) as surface, httpx2.AsyncClient(base_url=surface.url) as client:
        answers = [await client.get("/healthz") for _ in range(3)]
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d+", surface.url)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert "server" not in answers[0].headers
    assert "connection" not in answers[0].headers


async def test_given_listeners_are_served_and_closed_at_the_end():
    """Sockets may be opened long before they are served."""
    config = HttpConfig(port=0, grace_seconds=0)
    listeners = await listen(config)
    closing = trio.Event()
    closing.set()
    await serve_http(nothing, config, closing=closing, listeners=listeners)
    assert listeners[0].socket.fileno() == -1


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nobody asked")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127", HEALTH + b"GET"])
async def test_a_client_that_does_not_finish_its_request_head_is_closed(sent):
    """A connection without a whole request head is closed after its time, also behind an answered request."""
    async with served(make_services(), idle_seconds=0.05) as surface:
        stream = await surface.connect(sent)
        rest = await receive_rest(stream)
        assert rest.count(b"HTTP/1.1 200") == sent.count(HEALTH)
        await stream.aclose()


async def trickle(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(b"G")
        await trio.sleep(0.005)


async def test_a_client_that_trickles_its_request_head_is_closed_all_the_same():
    """Single bytes do not extend the time for a request head."""
    async with served(make_services(), idle_seconds=0.1) as surface:
        stream = await surface.connect()
        with trio.fail_after(PATIENCE), pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await trickle(stream)
        await stream.aclose()


async def test_a_request_head_beyond_the_bound_is_refused():
    """Headers without an end are not kept in memory."""
    async with served(make_services(), header_bytes=2048) as surface:
        stream = await surface.connect(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 5000)
        assert b" 431 " in await receive_rest(stream)
        await stream.aclose()
        assert await healthy(surface)


async def test_a_body_that_stalls_is_408():
    """A body that does not come in time is answered, and its connection does not stay."""
    async with served(make_services(), body_seconds=0.05) as surface:
        stream = await surface.connect(b"POST /api/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert b" 408 " in await receive_until(stream, b"slow_body")
        await stream.aclose()


async def test_an_oversized_body_is_413_before_it_is_read_and_the_connection_goes_on():
    """A body beyond the bound is refused by its announced length; once it is through, the connection is used again."""
    async with (
        served(make_services(), body_bytes=1000) as surface,
        httpx2.AsyncClient(base_url=surface.url) as client,
    ):
        refused = await client.post("/api/calls", content=b"x" * 3_000_000)
        after = await client.get("/healthz")
    assert (refused.status_code, refused.json()["error"]["kind"]) == (413, "body_too_large")
    assert "1000" in refused.json()["error"]["message"]
    assert after.status_code == 200


async def test_an_oversized_body_without_a_length_is_413():
    """A chunked body is counted while it comes."""

    async def chunks():
        for _ in range(100):
            yield b"x" * 1000

    async with (
        served(make_services(), body_bytes=5000) as surface,
        httpx2.AsyncClient(base_url=surface.url) as client,
    ):
        refused = await client.post("/api/calls", content=chunks())
    assert refused.status_code == 413


@pytest.mark.parametrize("late", [False, True])
async def test_a_large_body_for_nobody_does_not_jam_its_connection(late):
    """A body that no handler reads is dropped, also when it has filled the server's queue before the answer."""

    async def unreading(scope: Scope, receive: Receive, send: Send) -> None:
        if late and scope["method"] == "POST":
            queue = receive.__self__._receive.__self__  # what the server hands the body on with
            await until(lambda: queue.statistics().tasks_waiting_send == 1)
        await PlainTextResponse(f"to {scope['method']}\n")(scope, receive, send)

    async with served(make_services(), app=DropUnread(unreading)) as surface, trio.open_nursery() as nursery:
        stream = await surface.connect()
        head = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n\r\n"
        nursery.start_soon(stream.send_all, head + b"x" * 5_000_000 + HEALTH)
        assert b"to POST\n" in await receive_until(stream, b"to GET\n")
        await stream.aclose()


async def test_more_connections_than_allowed_wait_until_one_is_closed():
    """At the bound a connection is not answered before another ends."""
    async with served(make_services(), connections=2) as surface:
        first, second = await surface.connect(HEALTH), await surface.connect(HEALTH)
        await receive_until(first, b"alive\n")
        await receive_until(second, b"alive\n")
        third = await surface.connect(HEALTH)
        with trio.move_on_after(0.05) as waited:
            await third.receive_some(1)
        assert waited.cancelled_caught
        await first.aclose()
        await receive_until(third, b"alive\n")
        for stream in (second, third):
            await stream.aclose()


async def test_an_error_in_one_connection_ends_that_connection_alone():
    """Where an application breaks all rules, the others are served on."""

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/bad":
            raise RuntimeError("boom")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]})
        await send({"type": "http.response.body", "body": b"alive\n"})

    with structlog.testing.capture_logs() as logs:
        async with served(make_services(), app=broken) as surface:
            bad = await surface.get("/bad")
            assert b" 500 " in await receive_rest(bad)
            await bad.aclose()
            assert await healthy(surface)
    assert [entry["log_level"] for entry in logs] == ["error"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["queued", "headers", "middle"])
async def test_R28_a_closed_socket_takes_its_call_with_it(phase, stream):
    """Over a real socket too a client that leaves, in any phase, streamed or not, leaves nothing behind."""
    backend = HeldBackend("middle" if phase == "middle" else "headers")
    async with running(held_owner(backend)) as owner, served(make_services(calls=OwnerCalls(owner))) as surface:
        others = []
        if phase == "queued":
            others.append(await surface.post("/api/calls", call_body("first")))
            await until(lambda: backend.busy == 1)
        leaver = await surface.post("/api/calls", call_body("leaver", stream=stream))
        if phase == "queued":
            await until(lambda: owner.statistics().queued == 1)
        elif phase == "middle" and stream:
            await receive_until(leaver, b"event: delta")
        else:
            await until(lambda: backend.busy == 1)
        await leaver.aclose()
        await until(lambda: owner.statistics().held == len(others))
        assert backend.aborted == (0 if phase == "queued" else 1)
        assert len(backend.sent) == 1
        backend.release("middle" if phase == "middle" else "headers")
        for other in others:
            await receive_until(other, b"one two")
            await other.aclose()


async def test_429_tells_a_full_queue_and_503_a_provider_that_is_not_there():
    """On the wire, a client can tell that it is to slow down from that nothing serves."""
    backend = HeldBackend("headers")
    dispatch = DispatchConfig(admission=AdmissionConfig(tenant_calls=1))
    async with (
        running(held_owner(backend, dispatch=dispatch)) as owner,
        served(make_services(calls=OwnerCalls(owner))) as surface,
        httpx2.AsyncClient(base_url=surface.url) as client,
    ):
        waiting = [await surface.post("/api/calls", call_body()) for _ in range(2)]
        await until(lambda: owner.statistics().queued + backend.busy == 2)
        full = await client.post("/api/calls", content=call_body())
        backend.release("headers")
        for stream in waiting:
            await receive_until(stream, b"one two")
            await stream.aclose()
        owner.close()
        gone = await client.post("/api/calls", content=call_body())
    assert (full.status_code, gone.status_code) == (429, 503)
    assert full.headers["retry-after"].isdecimal()


async def test_R11_what_an_upstream_says_in_comments_stays_there():
    """A comment before the first chunk upstream is no event, and no data, downstream."""
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    body = b": processing\n\n" + chunk + b"data: [DONE]\n\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body
    async with upstream(answer) as server:
        owner = Owner(OwnerConfig("test"), [Endpoint("test", server.backend())])
        async with (
            running(owner),
            served(make_services(calls=OwnerCalls(owner))) as surface,
        ):
            stream = await surface.post("/api/calls", call_body(stream=True))
            seen = await receive_until(stream, b"event: reply")
            await stream.aclose()
    assert b"processing" not in seen
    assert seen.count(b"event: delta") == 1


async def test_a_silent_stream_is_kept_alive_by_comments():
    """While there is nothing to tell, an event stream carries comments."""
    async with served(make_services(), heartbeat_seconds=0.02) as surface:
        stream = await surface.get("/api/queue/events?every=60")
        await receive_until(stream, b"\r\n:\n\n\r\n")
        await stream.aclose()


async def test_at_the_end_an_open_stream_is_told_and_closed():
    """A shutdown ends event streams with an event of its own, at once and not after the grace."""
    async with served(make_services(), grace_seconds=60) as surface:
        stream = await surface.get("/api/queue/events")
        await receive_until(stream, b"data: ")
        surface.closing.set()
        assert b"event: closing" in await receive_rest(stream)
        await stream.aclose()
        with trio.fail_after(PATIENCE):
            await surface.ended.wait()


async def connect_for_ever(surface: Served) -> None:
    while True:
        await (await surface.connect()).aclose()


async def test_at_the_end_a_handler_has_its_grace():
    """A call in flight when the end begins is still answered, and then its connection is closed."""
    backend = HeldBackend("headers")
    async with (
        running(held_owner(backend)) as owner,
        served(make_services(calls=OwnerCalls(owner)), grace_seconds=60) as surface,
    ):
        stream = await surface.post("/api/calls", call_body())
        await until(lambda: backend.busy == 1)
        surface.closing.set()
        with trio.fail_after(PATIENCE), pytest.raises(OSError, match="connect"):
            await connect_for_ever(surface)
        backend.release("headers")
        assert b"one two" in await receive_rest(stream)
        await stream.aclose()


async def test_at_the_end_what_outlasts_the_grace_is_cut():
    """A call that does not end within the grace is cut, and gives back what it held."""
    backend = HeldBackend("headers")
    async with (
        running(held_owner(backend)) as owner,
        served(make_services(calls=OwnerCalls(owner)), grace_seconds=0.05) as surface,
    ):
        stream = await surface.post("/api/calls", call_body())
        await until(lambda: backend.busy == 1)
        surface.closing.set()
        assert await receive_rest(stream) == b""
        await stream.aclose()
        with trio.fail_after(PATIENCE):
            await surface.ended.wait()
        await until(lambda: owner.statistics().held == 0)
        assert backend.aborted == 1


@pytest.mark.parametrize("how", ["closing", "cancel"])
async def test_a_client_that_does_not_read_cannot_hold_the_end_up(how):
    """Neither a graceful end nor a cancellation waits for a client that has stopped reading its stream."""
    blocked = trio.Event()

    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            with trio.CancelScope() as scope_:
                scope_.deadline = trio.current_time() + 0.1
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
            if scope_.cancel_called:
                blocked.set()

    config = HttpConfig(port=0, grace_seconds=0.05)
    closing = trio.Event()
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
                await serve_http(flood, config, closing=closing, task_status=task_status)

            urls: list[str] = await nursery.start(serve)
            stream = await Served(urls[0], closing).get("/")
            with trio.move_on_after(0.5):
                await blocked.wait()
            if how == "closing":
                closing.set()
            else:
                nursery.cancel_scope.cancel()
    await stream.aclose()


async def test_200_clients_that_close_their_sockets_at_random_leave_nothing():
    """After a crowd has come and gone over real sockets, in all phases, every counter is zero."""
    backend = HeldBackend("headers")
    async with (
        running(held_owner(backend, slots=3)) as owner,
        served(make_services(calls=OwnerCalls(owner)), connections=300) as surface,
    ):

        async def come_and_go(n: int) -> None:
            stream = await surface.post("/api/calls", call_body(f"{n}", stream=n % 2 == 0))
            if n % 5:
                await until(lambda: owner.statistics().held > 0)
            await stream.aclose()

        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(come_and_go, n)
        await until(lambda: owner.statistics().held == 0 and backend.busy == 0)
        backend.release("headers")
        assert await healthy(surface)


def test_settings_that_make_no_sense_are_refused_by_name():
    """A port that is none is refused, with its name."""
    with pytest.raises(InvalidLimits, match=r"http\.port"):
        HttpConfig(port=70_000)
