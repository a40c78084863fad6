"""`/api/calls` without a wire: what goes in, what comes out, and every kind of leaving."""

import random

import pytest
import trio
import trio.testing

from agents.errors import Refused, Throttled, Unavailable
from agents.port import Flow, Priority
from orchestrator.api.app import make_app
from orchestrator.owner import Owner
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.retry import RetryConfig
from tests.api.surface_rig import Exchange, HeldBackend, OwnerCalls, ask, call_body, held_owner, make_services
from tests.owner.staged import StagedBackend, assert_balanced, one_endpoint, running

TWO_WAITING = DispatchConfig(admission=AdmissionConfig(tenant_calls=2))
ONE_TRY = DispatchConfig(retry=RetryConfig(attempts=1))


def app_over(owner: Owner, calls: OwnerCalls | None = None):
    return make_app(make_services(calls=calls or OwnerCalls(owner)))


async def test_a_call_is_answered_with_its_reply_and_goes_out_under_its_flow_and_priority(autojump_clock):
    """A call comes back with the model's reply; flow and priority are those asked for, and it is no agent's call."""
    async with running(one_endpoint(backend := StagedBackend())) as owner:
        calls = OwnerCalls(owner)
        body = call_body(tenant="acme", job="j", run="r", priority="batch")
        answer = await ask(app_over(owner, calls), "POST", "/api/calls", body)
    assert answer.status == 200
    assert answer.json["reply"]["message"]["content"] == "one two"
    assert calls.asked == [(Flow("acme", "j", "r"), Priority.BATCH, False)]
    assert backend.sent[0].model == "small"


async def test_a_streamed_call_comes_as_deltas_then_its_reply(autojump_clock):
    """A streamed answer is one `delta` event per piece and one `reply` with the whole of it."""
    async with running(one_endpoint(StagedBackend())) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body(stream=True))
    assert answer.header("content-type") == "text/event-stream; charset=utf-8"
    assert [name for name, _ in answer.events] == ["delta", "delta", "reply"]
    assert [data["text"] for _, data in answer.events[:2]] == ["one ", "two"]
    assert answer.events[2][1]["message"]["content"] == "one two"
    assert answer.whole


async def test_R02_usage_is_told_exactly_once_in_a_stream(autojump_clock):
    """Usage stands in the reply and nowhere else."""
    async with running(one_endpoint(StagedBackend())) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body(stream=True))
    assert [name for name, data in answer.events if "usage" in data] == ["reply"]
    assert answer.events[-1][1]["usage"] == {"input": 10, "output": 2}


async def test_a_retry_after_delivered_text_is_told_as_a_reset(autojump_clock):
    """When a broken attempt is tried again, the reader is told to drop what it has."""

    class Breaking(HeldBackend):
        async def pass_by(self, phase: str) -> None:
            if phase == "middle" and len(self.sent) == 1:
                raise Unavailable("broke off")
            await super().pass_by(phase)

    async with running(held_owner(Breaking())) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body(stream=True))
    assert [name for name, _ in answer.events] == ["delta", "reset", "delta", "delta", "reply"]


@pytest.mark.parametrize(
    ("fields", "field", "says"),
    [
        ({"tenant": "a/b"}, "tenant", "must be 1 to 64"),
        ({"job": "-x"}, "job", "must be 1 to 64"),
        ({"deadline": 0}, "deadline", "must be above 0"),
        ({"deadline": -1}, "deadline", "must be above 0"),
        ({"tenat": "a"}, "tenat", "did you mean tenant?"),
        ({"priority": "urgent"}, "priority", "must be one of batch, interactive, standard"),
        (
            {"request": {"model": "", "messages": [{"role": "user", "content": 1}]}},
            "request.messages[0].content",
            "str",
        ),
        ({"request": {"model": "", "messages": [], "max_tokens": -5}}, "request.max_tokens", "at least 1"),
    ],
)
async def test_nonsense_is_refused_with_its_path(fields, field, says, autojump_clock):
    """A field that makes no sense is answered 400, with its path and what would be right."""
    async with running(held_owner(backend := HeldBackend())) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body(**fields))
    assert (answer.status, answer.error["field"]) == (400, field)
    assert says in answer.error["message"]
    assert not backend.sent


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "-1e308"])
async def test_S05_a_deadline_that_is_no_number_of_seconds_is_refused(number, autojump_clock):
    """Deadlines that are infinite, no number, or negative never reach the queue."""
    async with running(held_owner(HeldBackend())) as owner:
        body = call_body(deadline=7).replace(b'"deadline": 7', f'"deadline": {number}'.encode())
        answer = await ask(app_over(owner), "POST", "/api/calls", body)
    assert answer.status == 400


async def test_S05_a_deadline_beyond_all_time_is_no_deadline(autojump_clock):
    """A deadline of 1e308 seconds does no harm."""
    async with running(held_owner(HeldBackend())) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body(deadline=1e308))
    assert answer.status == 200


async def test_an_unknown_model_is_404_and_names_those_there_are(autojump_clock):
    """A model that nobody serves is told with the models that are served."""
    async with running(held_owner(HeldBackend())) as owner:
        body = call_body(request={"model": "huge", "messages": []})
        answer = await ask(app_over(owner), "POST", "/api/calls", body)
    assert (answer.status, answer.error["kind"]) == (404, "unknown_model")
    assert "small" in answer.error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_beyond_its_cap_a_tenant_is_told_when_to_come_back(stream, autojump_clock):
    """A full queue answers 429 with whole seconds in Retry-After, streamed or not, and others still get in."""
    backend = HeldBackend("headers")
    async with running(held_owner(backend, dispatch=TWO_WAITING)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        for _ in range(3):
            nursery.start_soon(ask, app, "POST", "/api/calls", call_body(tenant="greedy"))
            await trio.testing.wait_all_tasks_blocked()
        refused = await ask(app, "POST", "/api/calls", call_body(tenant="greedy", stream=stream))
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body(tenant="other"))
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().queued == 3
        backend.release("headers")
    assert (refused.status, refused.error["kind"]) == (429, "queue_full")
    seconds = int(refused.header("retry-after") or "")
    assert 1 <= seconds <= 120
    assert refused.error["retry_after"] == seconds
    assert "greedy" in refused.error["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_evicted_batch_call_is_told_the_same(stream, autojump_clock):
    """A waiting batch call that loses its place to a higher priority is answered 429, or as an event of its stream."""
    backend = HeldBackend("headers")
    async with running(held_owner(backend, dispatch=TWO_WAITING)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body())
        await trio.testing.wait_all_tasks_blocked()
        victim = Exchange(app, "POST", "/api/calls", call_body(priority="batch", stream=stream))
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body(priority="batch"))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(victim.run)
        await trio.sleep(2)
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body(priority="interactive"))
        await trio.testing.wait_all_tasks_blocked()
        backend.release("headers")
    if stream:
        assert victim.events[-1][0] == "error"
        assert victim.events[-1][1]["error"]["kind"] == "queue_full"
    else:
        assert (victim.status, victim.error["kind"]) == (429, "queue_full")


async def test_a_deadline_that_passes_in_the_queue_is_504(autojump_clock):
    """A call that was not sent in time ends as a queue timeout, at its deadline."""
    backend = HeldBackend("headers")
    async with running(held_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body())
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        answer = await ask(app, "POST", "/api/calls", call_body(deadline=7))
        assert trio.current_time() - began == pytest.approx(7, abs=0.01)
        backend.release("headers")
    assert (answer.status, answer.error["kind"]) == (504, "queue_timeout")


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (Throttled("slow down", retry_after=2.2), 429, "3"),
        (Throttled("slow down"), 429, None),
        (Unavailable("not there"), 503, None),
        (Refused("bad", status=400), 400, None),
        (Refused("not this model", status=404), 400, None),
        (Refused("too long", status=413), 413, None),
        (Refused("wrong key", status=401, endpoint_fault=True), 502, None),
    ],
)
async def test_what_the_provider_says_becomes_a_status_of_this_daemon(error, status, retry_after, autojump_clock):
    """Each blame has its status; a provider's own status is not passed through."""
    backend = StagedBackend()
    backend.plan = lambda n, request: error
    async with running(one_endpoint(backend, dispatch=ONE_TRY)) as owner:
        answer = await ask(app_over(owner), "POST", "/api/calls", call_body())
    assert (answer.status, answer.header("retry-after")) == (status, retry_after)
    assert answer.error["message"]


async def test_an_ended_owner_is_503(autojump_clock):
    """When the owner takes nothing any more, the client is told that it is not its fault."""
    async with running(held_owner(HeldBackend())) as owner:
        owner.close()
        plain = await ask(app_over(owner), "POST", "/api/calls", call_body())
        streamed = await ask(app_over(owner), "POST", "/api/calls", call_body(stream=True))
    assert [(answer.status, answer.error["kind"]) for answer in (plain, streamed)] == [(503, "owner_closed")] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_R28_a_client_that_leaves_the_queue_takes_its_call_with_it(stream, autojump_clock):
    """A call whose client leaves while it is queued is gone at once and never reaches the provider."""
    backend = HeldBackend("headers")
    async with running(held_owner(backend)) as owner, trio.open_nursery() as nursery:
        app = app_over(owner)
        nursery.start_soon(ask, app, "POST", "/api/calls", call_body("first"))
        await trio.testing.wait_all_tasks_blocked()
        leaver = Exchange(app, "POST", "/api/calls", call_body("second", stream=stream))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        assert owner.statistics().queued == 1
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert leaver.ended.is_set()
        assert owner.statistics().held == 1
        backend.release("headers")
    assert [request.messages[0].content for request in backend.sent] == ["first"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["headers", "middle", "end"])
async def test_R28_a_client_that_leaves_aborts_its_call_at_the_provider(phase, stream, autojump_clock):
    """In flight, wherever it is, the call of a client that leaves is aborted at once."""
    backend = HeldBackend(phase)
    async with running(held_owner(backend)) as owner, trio.open_nursery() as nursery:
        leaver = Exchange(app_over(owner), "POST", "/api/calls", call_body(stream=stream))
        nursery.start_soon(leaver.run)
        await trio.testing.wait_all_tasks_blocked()
        assert backend.busy == 1
        leaver.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert leaver.ended.is_set()
        assert (backend.busy, backend.aborted) == (0, 1)


async def test_200_departures_at_random_moments_leave_nothing(autojump_clock):
    """After 200 clients left in whatever phase, every counter is zero and the next call is answered."""
    rng = random.Random(7)
    backend = StagedBackend(words=["word "] * 4, step=0.5)
    async with running(one_endpoint(backend, slots=5)) as owner:
        app = app_over(owner)

        async def leave_some_time(patience: float, stream: bool) -> None:
            exchange = Exchange(app, "POST", "/api/calls", call_body(stream=stream))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(exchange.run)
                await trio.sleep(patience)
                exchange.leave()

        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(leave_some_time, rng.uniform(0, 30), rng.random() < 0.5)
                await trio.sleep(rng.uniform(0, 0.05))
        await trio.testing.wait_all_tasks_blocked()
        assert_balanced(owner)
        assert backend.aborted > 20
        assert backend.busy == 0
        answer = await ask(app, "POST", "/api/calls", call_body())
        assert answer.status == 200


async def test_a_slow_reader_stops_the_reading_at_the_provider(autojump_clock):
    """While its client does not read, a call's upstream is read only as far as the bounded channel reaches."""

    class Endless(HeldBackend):
        delivered = 0

        async def pass_by(self, phase: str) -> None:
            await trio.sleep(0.01)
            self.delivered += phase == "middle"

    backend = Endless(words=["word "] * 100)
    async with running(held_owner(backend)) as owner, trio.open_nursery() as nursery:
        reader = Exchange(app_over(owner), "POST", "/api/calls", call_body(stream=True))
        reader.slow = True
        nursery.start_soon(reader.run)
        await trio.sleep(20)
        assert 1 <= backend.delivered <= 12
        reader.leave()
