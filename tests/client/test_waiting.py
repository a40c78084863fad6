"""Why work stands still, as the queue tells it."""

import pytest
import trio
from msgspec.structs import replace

from orchestrator.cli.waiting import explain, why_waiting
from orchestrator.views.queue import BackendView, EndpointView, PoolView, QueueView, TenantView
from tests.client.fake_daemon import FakeDaemon, answered, refused, talking

SO_FAR = "for 12 s so far"
OTHERS = "others who go first"


def endpoint(breaker: str = "closed", opens_in: float | None = None) -> EndpointView:
    return EndpointView(
        name="e", in_flight=0, concurrency_limit=1, cuts=0, breaker=breaker, opens_in=opens_in, limits=()
    )


def tenant(name: str = "web", queued: int = 0, held_by: str = "") -> TenantView:
    return TenantView(
        tenant=name,
        weight=1.0,
        queued={"batch": queued},
        in_flight=0,
        calls_per_minute=0.0,
        tokens_per_minute=0.0,
        share=0.0,
        mean_wait=0.0,
        oldest_wait=12.0,
        held_by=held_by,
        limits=(),
    )


def queue(tenants: tuple[TenantView, ...], *endpoints: EndpointView) -> QueueView:
    backend = BackendView(name="up", inbox=0, queued=0, in_flight=0, retrying=0, endpoints=endpoints, tenants=tenants)
    return QueueView(now=0.0, uptime=1.0, version="1", draining=False, backends=(backend,), runs={}, jobs=0)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (queue((tenant(),), endpoint()), ""),
        (queue((tenant("other", 5, "requests/min"),), endpoint("open", 3.0)), ""),
        (queue((tenant(queued=5, held_by="req/min"),), endpoint()), f"5 calls wait, {SO_FAR}, held by req/min"),
        (queue((tenant(queued=1, held_by="fair_order"),), endpoint()), f"1 call waits, {SO_FAR}, held by {OTHERS}"),
        (queue((tenant(queued=1),), endpoint("open", 3.0)), "backend up does not answer, next try in 3.0 s"),
        (queue((tenant(),), endpoint("open", 30.0), endpoint("half_open")), "backend up does not answer, next try now"),
        (queue((tenant(),), endpoint("open", 30.0), endpoint()), ""),
        (replace(queue((), endpoint()), pool=PoolView(problem="no worker is connected")), "no worker is connected"),
        (replace(queue((), endpoint()), pool=PoolView(workers=1)), ""),
    ],
)  # fmt: skip
def test_the_reason_is_the_tenants_own(view: QueueView, expected: str) -> None:
    """A dead backend and a full limit are named where this tenant has calls, and nobody else's trouble is."""
    assert why_waiting(view, "web")[1] == expected


async def test_only_what_stands_still_is_explained(autojump_clock: trio.abc.Clock) -> None:
    """While something moves nobody asks; when it stands, the reason comes; a daemon that does not say is no error."""
    daemon, told = FakeDaemon(), list[str]()
    held = answered(queue((tenant(queued=5, held_by="requests/min"),), endpoint()))
    daemon.on("GET", "/api/queue", held, refused(503, "draining", "the daemon is ending"))
    progress = iter([0, 1, 2, 2, 2, 3])
    async with talking(daemon) as client:
        with trio.move_on_after(26):
            await explain(client, "web", lambda: next(progress), lambda kind, words: told.append(kind))
    assert told == ["", "", "held_by requests/min", "", ""]
    assert daemon.count("GET", "/api/queue") == 2
