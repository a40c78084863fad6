"""What begins something, and is interrupted on the way."""

import httpx2
import trio

from orchestrator.cli.connect import TAKE_BACK_SECONDS, begin
from orchestrator.views.runs import RunRequest
from tests.client.fake_daemon import Answer, FakeDaemon, answered, refused, run_detail, talking


async def never(request: httpx2.Request) -> Answer:
    await trio.sleep_forever()
    raise AssertionError


async def test_a_run_interrupted_while_it_begins_is_taken_back(autojump_clock: trio.abc.Clock) -> None:
    """Ctrl-C while the daemon has the request and no answer has come: the run is cancelled by its id."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs", never)
    daemon.on("POST", "/api/runs/r/cancel", answered(run_detail()))
    async with talking(daemon) as client:
        with trio.move_on_after(1) as interrupted:
            start, take_back = lambda: client.start_run(RunRequest(task="x", run="r")), lambda: client.cancel_run("r")
            await begin(start, take_back, wait=True)
    assert interrupted.cancelled_caught
    assert daemon.count("POST", "/api/runs/r/cancel") == 1


async def test_taking_back_is_bounded_and_no_trouble_of_its_own(autojump_clock: trio.abc.Clock) -> None:
    """A run that never began, and a daemon that says nothing, keep nobody."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs", refused(429, "queue_full", "no room", retry_after=60.0))
    daemon.on(
        "POST",
        "/api/runs/r/cancel",
        refused(404, "unknown_run", "there is no run r"),
        never,
    )
    async with talking(daemon) as client:
        for _ in range(2):
            before = trio.current_time()
            with trio.move_on_after(1) as interrupted:
                start, back = lambda: client.start_run(RunRequest(task="x", run="r")), lambda: client.cancel_run("r")
                await begin(start, back, wait=True)
            assert interrupted.cancelled_caught
            assert trio.current_time() - before <= 1 + TAKE_BACK_SECONDS
