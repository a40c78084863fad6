"""Errors of the gateway: each with the status, the headers and the document that its program's SDK expects."""

import pytest
import structlog
import trio
import trio.testing

from agents.errors import (
    CallTimeout,
    Draining,
    Overloaded,
    OwnerClosed,
    Refused,
    Throttled,
    Truncated,
    Unavailable,
)
from orchestrator.api.app import make_app
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.api.surface_rig import Exchange, ask, make_services
from tests.gateway.gateway_rig import (
    CHAT,
    ONE_TRY,
    PATHS,
    STREAMED,
    WireBackend,
    blocks,
    body,
    gateway,
    wire_owner,
)
from tests.owner.staged import assert_balanced, running

TWO_WAITING = DispatchConfig(admission=AdmissionConfig(tenant_calls=2))


def failing(*answers) -> WireBackend:
    """A backend that answers with these batches and errors."""
    backend = WireBackend()
    backend.plan = lambda number, request: answers
    return backend


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "openai", "anthropic"),
    [
        (Refused("no such tool", status=400, code="bad_tool"), 400, 400),
        (Refused("no such model there", status=404, code="model_not_found"), 404, 404),
        (Refused("too long", status=413), 413, 413),
        (Refused("cannot be processed", status=422), 422, 422),
        (Refused("odd", status=418), 400, 400),
        (Throttled("slow down", retry_after=2.2), 429, 429),
        (Overloaded("no capacity", status=529), 503, 529),
        (Unavailable("not there"), 503, 503),
        (CallTimeout("took too long"), 504, 504),
    ],
)
async def test_R26_each_blame_has_its_status_in_each_dialect(error, openai, anthropic, stream, autojump_clock):
    """What fails before the first event has a status of its own, streamed or not, and its message is passed on."""
    for dialect in STREAMED:
        async with running(wire_owner(failing(error), dispatch=ONE_TRY)) as owner:
            answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect, stream=stream))
        assert answer.status == (anthropic if dialect == "messages" else openai)
        assert error.message in answer.error["message"]
        assert (answer.json.get("type") == "error") == (dialect == "messages")
        if dialect != "messages" and error.code:
            assert answer.error["code"] == error.code


@pytest.mark.parametrize("status", [401, 403, 429])
async def test_what_a_provider_says_of_our_key_is_502_without_its_text(status, autojump_clock):
    """A provider that refuses the daemon's key or account is named to nobody, and no SDK tries that again."""
    error = Refused("key sk-secret of org-42 is wrong", status=status, code="invalid_api_key", endpoint_fault=True)
    async with running(wire_owner(failing(error), dispatch=ONE_TRY)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"))
    assert answer.status == 502
    assert answer.header("x-should-retry") == "false"
    assert b"sk-secret" not in answer.body
    assert b"org-42" not in answer.body


async def test_waits_are_told_in_seconds_and_milliseconds(autojump_clock):
    """`retry-after` is whole seconds for everybody, `retry-after-ms` the wait itself for the SDKs."""
    async with running(wire_owner(failing(Throttled("slow down", retry_after=2.2)), dispatch=ONE_TRY)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"))
    assert answer.header("retry-after") == "3"
    assert 1000 < int(answer.header("retry-after-ms") or "") <= 2200


async def test_no_wait_above_120_seconds_is_told(autojump_clock):
    """OpenAI's SDK gives up at once where it is told to wait longer than 120 s."""
    async with running(wire_owner(failing(Throttled("slow down", retry_after=9e9)), dispatch=ONE_TRY)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"))
    assert (answer.header("retry-after"), answer.header("retry-after-ms")) == ("120", "120000")


@pytest.mark.parametrize("stream", [True, False])
async def test_beyond_its_cap_a_tenant_is_told_429_and_when_to_come_back(stream, autojump_clock):
    """A full queue is 429 with a computed wait; another tenant is still served."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend, dispatch=TWO_WAITING)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner)
        greedy = {"x-headrace-tenant": "greedy"}
        for _ in range(3):
            nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"), greedy)
            await trio.testing.wait_all_tasks_blocked()
        refused = [await ask(app, "POST", PATHS[dialect], body(dialect, stream=stream), greedy) for dialect in STREAMED]
        nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"), {"x-headrace-tenant": "other"})
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().queued == 3
        backend.release("headers")
    for answer in refused:
        assert answer.status == 429
        assert 1 <= int(answer.header("retry-after") or "") <= 120
        assert 1000 <= int(answer.header("retry-after-ms") or "") <= 120_000
        assert answer.header("x-should-retry") is None
    assert [answer.error["type"] for answer in refused] == ["requests", "requests", "rate_limit_error"]


async def test_503_is_for_a_daemon_that_cannot_serve(autojump_clock):
    """An owner that has ended is 503 in every dialect, and not 429."""
    async with running(wire_owner(WireBackend())) as owner:
        owner.close()
        statuses = [
            (await ask(gateway(owner), "POST", PATHS[dialect], body(dialect, stream=stream))).status
            for dialect in STREAMED
            for stream in (True, False)
        ]
    assert statuses == [503] * 6
    assert OwnerClosed.blame == "queue"


@pytest.mark.parametrize("dialect", STREAMED)
async def test_R04_an_error_behind_the_first_event_is_the_streams_last_event(dialect, autojump_clock):
    """A stream that has begun ends with an error event of its dialect, and never with [DONE] or a made-up end."""
    first = CHAT[0]
    backend = failing(first, Truncated("the stream broke off"))
    async with running(wire_owner(backend)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect, stream=True))
        assert_balanced(owner)
    *_, last = blocks(answer.body)
    assert answer.status == 200
    assert b"broke off" in last
    assert last.startswith(b"data: " if dialect == "chat" else b"event: error\ndata: ")
    assert b"[DONE]" not in answer.body
    assert len(backend.sent) == 1, "what a program has seen is not tried again"


async def test_R05_a_truncated_answer_is_no_document(autojump_clock):
    """A program that wants one document gets an error for half an answer."""
    backend = failing(CHAT[0], Truncated("the stream broke off"))
    async with running(wire_owner(backend, dispatch=ONE_TRY)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"))
    assert (answer.status, answer.error["type"]) == (502, "server_error")


async def test_a_document_begins_anew_where_a_stream_could_not(autojump_clock):
    """What nobody has seen is tried again: a document is whole, although its first attempt broke off in the middle."""
    backend = WireBackend()
    backend.plan = lambda number, request: (CHAT[0], Unavailable("broke off")) if number == 1 else CHAT
    dispatch = DispatchConfig(retry=RetryConfig(attempts=3))
    async with running(wire_owner(backend, dispatch=dispatch)) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"))
    assert answer.json["choices"][0]["message"]["content"] == "one two"
    assert len(backend.sent) == 2


@pytest.mark.parametrize("dialect", STREAMED)
async def test_a_stream_that_waits_begins_after_10_seconds_with_signs_of_life(dialect, autojump_clock):
    """The head is held back for errors with a status, but not for longer than clients and proxies wait."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        exchange = Exchange(gateway(owner), "POST", PATHS[dialect], body(dialect, stream=True))
        nursery.start_soon(exchange.run)
        await trio.sleep(9.9)
        assert not exchange.sent
        await trio.sleep(0.2)
        assert exchange.status == 200
        await trio.sleep(40)
        alive = b'event: ping\ndata: {"type": "ping"}\n\n' if dialect == "messages" else b": waiting\n\n"
        assert exchange.body == alive * 2
        backend.release("headers")


async def test_S05_deadlines(autojump_clock):
    """NaN is refused with its name, inf is no deadline, what is not above 0 has passed, 1e308 does no harm."""
    seen = {}
    async with running(wire_owner(WireBackend())) as owner:
        app = gateway(owner)
        for said in ("nan", "NaN", "1e", "0x10", "1_0", "", "inf", "1e308", "-1", "-1e308", "0", "7.5"):
            answer = await ask(app, "POST", PATHS["chat"], body("chat"), {"x-headrace-deadline": said})
            seen[said] = answer.status
            assert answer.status != 400 or answer.error["param"] == "X-Headrace-Deadline"
            assert answer.status != 504 or answer.header("x-should-retry") == "false"
    assert seen == {
        **dict.fromkeys(("nan", "NaN", "1e", "0x10", "1_0", ""), 400),
        **dict.fromkeys(("inf", "1e308", "7.5"), 200),
        **dict.fromkeys(("-1", "-1e308", "0"), 504),
    }


async def test_a_deadline_that_passes_in_the_queue_is_504(autojump_clock):
    """A call that was not sent in time ends at its deadline."""
    backend = WireBackend("headers")
    async with running(wire_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = gateway(owner)
        nursery.start_soon(ask, app, "POST", PATHS["chat"], body("chat"))
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        answer = await ask(app, "POST", PATHS["messages"], body("messages"), {"x-headrace-deadline": "7"})
        assert trio.current_time() - began == pytest.approx(7, abs=0.01)
        backend.release("headers")
    assert (answer.status, answer.error["type"]) == (504, "timeout_error")


@pytest.mark.parametrize("header", ["x-headrace-job", "x-headrace-run", "x-headrace-tenant", "x-headrace-priority"])
@pytest.mark.parametrize("value", ["a/b", "-x", "\x1b[2J", "x" * 20_000])
async def test_names_in_headers_that_are_none_are_refused(header, value, autojump_clock):
    """A header that names nothing is a 400 which shows no more of it than a line, without control characters."""
    async with running(wire_owner(backend := WireBackend())) as owner:
        answer = await ask(gateway(owner), "POST", PATHS["chat"], body("chat"), {header: value})
    assert answer.status == 400
    assert len(answer.error["message"]) < 300
    assert "\x1b" not in answer.error["message"]
    assert not backend.sent


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/chat/completions", 405),
        ("PUT", "/v1/messages", 405),
    ],
)
@pytest.mark.parametrize("anthropic", [True, False])
async def test_errors_before_any_route_have_the_providers_shape(method, path, status, anthropic):
    """A wrong path or method is told in the shape of the client's dialect."""
    headers = {"anthropic-version": "2023-06-01"} if anthropic else {}
    answer = await ask(make_app(make_services()), method, path, headers=headers)
    assert answer.status == status
    shape = anthropic or path == "/v1/messages"
    assert (answer.json.get("type") == "error") == shape
    assert answer.error["message"]
    assert (answer.header("allow") is not None) == (status == 405)


async def test_a_foreign_host_or_page_is_refused_in_the_providers_shape():
    """What the guard refuses under /v1 is an error that SDKs can read."""
    app = make_app(make_services())
    host = await ask(app, "POST", PATHS["chat"], body("chat"), {"host": "evil.example"})
    page = await ask(app, "POST", PATHS["messages"], body("messages"), {"origin": "http://evil.example"})
    assert (host.status, host.error["type"]) == (403, "permission_error")
    assert (page.status, page.error["type"], page.json["type"]) == (403, "permission_error", "error")


@pytest.mark.parametrize("stream", [True, False])
async def test_an_unknown_model_is_404_in_each_dialect(stream, autojump_clock):
    """A model that nobody serves is told with the code that SDKs know, and with the models there are."""
    async with running(wire_owner(WireBackend())) as owner:
        for dialect in PATHS:
            answer = await ask(gateway(owner), "POST", PATHS[dialect], body(dialect, model="huge", stream=stream))
            assert answer.status == 404
            assert "small" in answer.error["message"]
            if dialect in ("messages", "count_tokens"):
                assert answer.error["type"] == "not_found_error"
            else:
                assert answer.error["code"] == "model_not_found"


async def test_what_nobody_expected_is_500_without_details(autojump_clock):
    """A mistake of the daemon's own is logged with the request's id, and told without its text."""

    def broken(name: str) -> str:
        raise ZeroDivisionError("secret detail")

    async with running(wire_owner(WireBackend())) as owner:
        with structlog.testing.capture_logs() as logs:
            answer = await ask(gateway(owner, model=broken), "POST", PATHS["messages"], body("messages"))
    assert (answer.status, answer.error["type"]) == (500, "api_error")
    assert b"secret" not in answer.body
    assert logs[0]["request_id"] == answer.header("request-id") == answer.json["request_id"]


async def test_draining_is_503(autojump_clock):
    """A daemon that ends says so."""

    class Ending:
        def port(self, *args, **kwargs):
            raise Draining("the daemon is shutting down and takes no new calls")

    app = make_app(make_services(calls=Ending()))
    for stream in (True, False):
        answer = await ask(app, "POST", PATHS["chat"], body("chat", stream=stream))
        assert (answer.status, answer.error["type"]) == (503, "server_error")


@pytest.mark.parametrize("path", [*PATHS.values(), "/v1/models", "/v1/nothing"])
async def test_every_answer_has_an_id(path, autojump_clock):
    """Good or bad, an answer names its request, in both SDKs' headers."""
    async with running(wire_owner(WireBackend())) as owner:
        app = gateway(owner)
        ids = {(await ask(app, "POST", path, b"{}")).header(name) for name in ("x-request-id", "request-id")}
    assert len(ids) == 2
    assert all(known is not None and known.startswith("req_") for known in ids)
