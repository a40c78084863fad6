"""Single requests: what is sent, what is decoded, and which error says what helps."""

from contextlib import aclosing
from typing import Any

import httpx2
import msgspec
import pytest
import trio

from orchestrator.client.client import open_client
from orchestrator.client.errors import BadAddress, BadAnswer, ClientError, DaemonLost, NoDaemon, Quiet, Refusal
from orchestrator.client.patience import FULL_SECONDS, patiently
from orchestrator.client.wire import check_url
from orchestrator.views.runs import RunRequest
from tests.client.fake_daemon import Answer, Broken, FakeDaemon, answered, job_view, refused, run_detail, talking


async def error_of(daemon: FakeDaemon) -> ClientError:
    async with talking(daemon) as client:
        with pytest.raises(ClientError) as caught:
            await client.run("r")
    return caught.value


async def test_fields_of_a_newer_daemon_are_skipped() -> None:
    """An answer with fields and events that this version does not know is read all the same."""
    daemon = FakeDaemon()
    more = msgspec.to_builtins(run_detail()) | {"mood": "sunny", "usage": {"input": 3, "output": 4, "thought": 5}}
    daemon.on("GET", "/api/runs/r", answered(more))
    async with talking(daemon) as client:
        detail = await client.run("r")
    assert (detail.answer, detail.usage.total) == ("yes", 7)


@pytest.mark.parametrize(
    "response",
    [
        Answer(200, b"<html>hello</html>"),
        Answer(200, b'{"run": 1}'),
        Answer(200, b"\xff\xfe"),
        Answer(404, b"<html>nothing here</html>"),
        Answer(502, b""),
        Answer(301, headers={"location": "/elsewhere"}),
    ],
)
async def test_somebody_else_at_the_address_is_told_apart(response: Answer) -> None:
    """What does not answer like a daemon is named by its address, whatever its status."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r", response)
    error = await error_of(daemon)
    assert isinstance(error, BadAnswer)
    assert "http://daemon.test:8700" in error.message


async def test_a_refusal_carries_what_the_daemon_said() -> None:
    """Kind, field, sentence and the time to wait arrive; the header stands in where the body names no time."""
    daemon = FakeDaemon()
    daemon.on(
        "GET",
        "/api/runs/r",
        refused(400, "invalid_limits", "size: too large", field="size"),
        refused(429, "queue_full", "no room", retry_after=2.5),
        refused(503, "draining", "going down", headers={"retry-after": "7"}),
        refused(503, "draining", "going down", headers={"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}),
    )
    said: list[tuple[Any, ...]] = []
    for _ in range(4):
        error = await error_of(daemon)
        assert isinstance(error, Refusal)
        said.append((error.status, error.kind, error.field, error.message, error.retry_after, error.passing))
    assert said == [
        (400, "invalid_limits", "size", "size: too large", None, False),
        (429, "queue_full", "", "no room", 2.5, True),
        (503, "draining", "", "going down", 7.0, True),
        (503, "draining", "", "going down", None, True),
    ]


async def test_nobody_there_is_told_with_the_reason() -> None:
    """A refused connection is `NoDaemon`, with address and reason in its message."""
    daemon = FakeDaemon()
    daemon.down = True
    error = await error_of(daemon)
    assert isinstance(error, NoDaemon)
    assert error.message == "there is no daemon at http://daemon.test:8700 (connection refused)"


async def test_a_kept_connection_that_was_closed_costs_nothing() -> None:
    """A request lost on its way is sent once more where that is harmless, and a second loss is told."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r", httpx2.RemoteProtocolError("closed"), answered(run_detail()))
    async with talking(daemon) as client:
        assert (await client.run("r")).answer == "yes"
    daemon.on("GET", "/api/runs/r", httpx2.RemoteProtocolError("closed"))
    assert isinstance(await error_of(daemon), DaemonLost)
    assert daemon.count("GET", "/api/runs/r") == 4


async def test_silence_is_not_asked_twice() -> None:
    """A daemon that says nothing for a minute is not asked again for another minute."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r", httpx2.ReadTimeout("quiet"))
    assert isinstance(await error_of(daemon), Quiet)
    assert daemon.count("GET", "/api/runs/r") == 1


async def test_a_lost_answer_to_a_start_is_found_out() -> None:
    """The run was created, its answer was lost: the second request meets a duplicate, and the run is looked up."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs", httpx2.ReadError("lost"), refused(409, "duplicate_run", "there is a run r already"))
    daemon.on("GET", "/api/runs/r", answered(run_detail()))
    async with talking(daemon) as client:
        assert (await client.start_run(RunRequest(task="x", run="r"))).run == "r"


async def test_a_duplicate_at_the_first_try_is_refused() -> None:
    """An id that exists already is somebody else's run, and never taken for one's own."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs", refused(409, "duplicate_run", "there is a run r already"))
    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="there is a run r already"):
            await client.start_run(RunRequest(task="x", run="r"))


async def test_a_start_without_an_id_is_not_repeated() -> None:
    """Without an id of one's own nobody can know whether the run was created, so it is not started twice."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/runs", httpx2.ReadError("lost"))
    async with talking(daemon) as client:
        with pytest.raises(DaemonLost):
            await client.start_run(RunRequest(task="x"))
    assert daemon.count("POST", "/api/runs") == 1


async def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    """Slashes, question marks and dots of an id stay in its segment of the path."""
    daemon = FakeDaemon()
    async with talking(daemon) as client:
        for run in ("../jobs/j", "a/b", "a?b=c", "a#b", "ä"):
            with pytest.raises(Refusal):
                await client.run(run)
    paths = [request.url.raw_path for request in daemon.asked]
    assert all(path.startswith(b"/api/runs/") and path.count(b"/") == 3 and b"?" not in path for path in paths)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8700", "ftp://x", "http://", "http://x:port", "http://x/?a=b", "http://me:secret@x", "http:"]
)
def test_an_address_is_checked_before_it_is_used(url: str) -> None:
    """What cannot be a daemon's address is refused in words, without the password that may be in it."""
    with pytest.raises(BadAddress) as caught:
        check_url(url)
    assert "secret" not in caught.value.message


def test_an_address_may_have_a_path() -> None:
    """Behind a proxy a daemon may have a path of its own; a slash at the end does not matter."""
    assert check_url("https://example.test/headrace/") == "https://example.test/headrace"


async def test_a_path_of_the_address_goes_before_each_route() -> None:
    """Requests to a daemon under a path go there."""
    daemon = FakeDaemon()
    daemon.on("GET", "/headrace/api/runs/r", answered(run_detail()))
    async with open_client("http://x.test/headrace", transport=daemon) as client:
        assert (await client.run("r")).run == "r"


async def test_a_full_queue_is_waited_for_and_told(autojump_clock: trio.abc.Clock) -> None:
    """429 and 503 with a time are waited for, each wait is told, and then the answer comes."""
    daemon, told = FakeDaemon(), list[str]()
    daemon.on(
        "POST",
        "/api/runs",
        refused(429, "queue_full", "tenant t has no room", retry_after=12.0),
        refused(503, "draining", "the daemon is ending", retry_after=3.0),
        httpx2.ConnectError("refused"),
        answered(run_detail(), 201),
    )
    async with talking(daemon) as client:
        view = await patiently(lambda: client.start_run(RunRequest(task="x", run="r")), told.append)
    assert view.run == "r"
    assert trio.current_time() == pytest.approx(18.0)
    assert told == ["tenant t has no room; trying again in 12 s", "the daemon is ending; trying again in 3 s"]


@pytest.mark.parametrize(
    "answer",
    [
        refused(429, "queue_full", "no room"),
        refused(429, "queue_full", "no room", retry_after=FULL_SECONDS + 1),
        refused(400, "invalid_limits", "nonsense", retry_after=1.0),
        httpx2.ConnectError("refused"),
    ],
)
async def test_what_waiting_cannot_help_is_told_at_once(
    answer: Answer | Exception, autojump_clock: trio.abc.Clock
) -> None:
    """No time named, too long a time, a request at fault, nobody there: none of them is waited for."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r", answer)
    async with talking(daemon) as client:
        with pytest.raises(ClientError):
            await patiently(lambda: client.run("r"), lambda _: None)
    assert trio.current_time() == 0


async def test_waiting_for_room_has_an_end(autojump_clock: trio.abc.Clock) -> None:
    """A queue that stays full is given up after ten minutes, not after ten minutes more each time."""
    daemon = FakeDaemon()
    daemon.on("GET", "/api/runs/r", refused(429, "queue_full", "no room", retry_after=90.0))
    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="no room"):
            await patiently(lambda: client.run("r"), lambda _: None)
    assert trio.current_time() == pytest.approx(540)


async def test_an_error_page_is_not_read_for_ever() -> None:
    """A stream that is refused with an endless body, or one that breaks, ends in an error."""
    daemon = FakeDaemon()
    daemon.on(
        "GET",
        "/api/runs/r/events",
        Answer(500, *[b"x" * 65536] * 100),
        Answer(500, b"x", Broken()),
    )
    async with talking(daemon) as client:
        for kind in (BadAnswer, DaemonLost):
            async with aclosing(client.events("r")) as events:
                with pytest.raises(kind):
                    await anext(events)


async def test_a_retry_of_what_failed_only_is_asked_for_as_that() -> None:
    """The daemon is told in the query, and of a plain retry nothing."""
    daemon = FakeDaemon()
    daemon.on("POST", "/api/jobs/j/retry", answered(job_view()))
    async with talking(daemon) as client:
        await client.retry_job("j")
        await client.retry_job("j", only_failed=True)
    assert [str(request.url.query, "ascii") for request in daemon.asked] == ["", "only_failed=true"]
