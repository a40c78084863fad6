"""What supervisors, scrapers and boards ask."""

import trio

from orchestrator.api.app import make_app
from orchestrator.api.leaving import ClientLeft, until_left
from orchestrator.api.surface import HttpConfig
from orchestrator.api.unread import CUT, DropUnread
from tests.api.surface_rig import Exchange, ask, make_services, queue_view


async def test_alive_and_ready_are_two_things():
    """A daemon that cannot serve is alive all the same, and says why it is not ready."""
    reason: str | None = "draining"
    app = make_app(make_services(ready=lambda: reason))
    alive, not_ready = await ask(app, "GET", "/healthz"), await ask(app, "GET", "/readyz")
    reason = None
    ready = await ask(app, "GET", "/readyz")
    assert (alive.status, alive.body) == (200, b"alive\n")
    assert (not_ready.status, not_ready.body) == (503, b"draining\n")
    assert ready.status == 200


async def test_metrics_are_what_prometheus_reads():
    """A scrape gets the metrics with the type that says which format they have."""
    answer = await ask(make_app(make_services(metrics=lambda: b"up 1\n")), "GET", "/metrics")
    assert answer.body == b"up 1\n"
    assert (answer.header("content-type") or "").startswith("text/plain; version=")


async def test_the_root_points_to_the_description():
    """Who does not know where to look is told."""
    assert b"/api/openapi.json" in (await ask(make_app(make_services()), "GET", "/")).body


async def test_the_queue_and_the_capabilities_are_answered():
    """Both are what the services say."""
    app = make_app(make_services())
    assert (await ask(app, "GET", "/api/queue")).json["version"] == "test"
    assert (await ask(app, "GET", "/api/capabilities")).json["models"] == ["small"]


async def test_the_queue_is_told_again_and_again_at_the_asked_pace(autojump_clock):
    """Every two seconds there is an event with the queue as it is then."""
    taken = []

    async def queue():
        taken.append(trio.current_time())
        return await queue_view()

    exchange = Exchange(make_app(make_services(queue=queue)), "GET", "/api/queue/events?every=2")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exchange.run)
        await trio.sleep(7)
        exchange.leave()
    assert [round(at - taken[0], 6) for at in taken] == [0, 2, 4, 6]
    assert [data["version"] for _, data in exchange.events] == ["test"] * 4


async def test_work_that_ends_as_its_client_leaves_is_nobodys():
    """A departure that was seen is told, even where there is a result: it is told only once."""
    left = trio.Event()

    async def receive():
        await left.wait()
        return {"type": "http.disconnect"}

    async def work() -> str:
        left.set()
        with trio.CancelScope(shield=True):
            for _ in range(5):
                await trio.lowlevel.checkpoint()
        return "done"

    try:
        await until_left(receive, work)
    except ClientLeft:
        return
    raise AssertionError("the departure was lost")


async def test_a_client_that_does_not_get_rid_of_its_body_is_cut_off(autojump_clock):
    """Behind an early answer a body is dropped for a while; then the connection is closed."""
    cuts = []

    async def early(scope, receive, send):
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no", "more_body": False})

    exchange = Exchange(DropUnread(early, patience=3), "POST", "/", b"x")
    exchange.scope["state"][CUT] = lambda: cuts.append(trio.current_time())
    exchange._from_client.receive_nowait()
    began = trio.current_time()
    await exchange.run()
    assert [at - began for at in cuts] == [3]
    assert exchange.body == b"no"


def test_a_surface_without_settings_listens_on_loopback():
    """The default is to be reachable from nowhere else."""
    assert HttpConfig().loopback
