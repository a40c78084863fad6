"""Uploads: the daemon has exactly the inputs, whatever breaks on the way."""

from collections.abc import AsyncIterator, Iterable

import httpx2
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.client.errors import NoDaemon, Refusal
from orchestrator.client.upload import Upload, UploadLost, input_line
from orchestrator.client.wire import encode
from orchestrator.jobs.inputs import Item, Unreadable
from tests.client.fake_daemon import Answer, FakeDaemon, answered, job_view, refused, talking

ITEMS: list[Item | Unreadable] = [
    Item(1, "in:1", {"text": "one"}),
    Unreadable(2, "in:2:7", "not valid JSON"),
    Item(3, "in:3", {"text": "drei \u2028 ß", "n": 3}),
    *[Item(number, f"in:{number}", {"text": "x" * number}) for number in range(4, 30)],
]
WHOLE = b"".join(encode(input_line(item)) + b"\n" for item in ITEMS)


async def items(of: Iterable[Item | Unreadable] = ITEMS) -> AsyncIterator[Item | Unreadable]:
    for item in of:
        await trio.lowlevel.checkpoint()
        yield item


class Spool:
    """A job's inputs at the daemon. Each of `troubles` befalls one upload, in turn."""

    def __init__(self, daemon: FakeDaemon, troubles: Iterable[str] = ()) -> None:
        self.data = b""
        self.complete = False
        self.requests = 0
        self._daemon = daemon
        self._troubles = list(troubles)
        daemon.on("PATCH", "/api/jobs/j/inputs", self.take)
        daemon.on("POST", "/api/jobs/j/inputs/complete", self.end)
        daemon.on("GET", "/api/jobs/j", self.look)

    async def take(self, request: httpx2.Request) -> Answer:
        self.requests += 1
        body, trouble = request.content, self._troubles.pop(0) if self._troubles else ""
        if trouble == "refused":
            raise httpx2.ConnectError("refused")
        if trouble == "draining":
            return refused(503, "draining", "the daemon is ending", retry_after=1.0)
        if int(request.url.params["offset"]) != len(self.data):
            return refused(409, "wrong_offset", "the inputs end elsewhere")
        if trouble.startswith("cut"):
            self.data += body[: len(body) * int(trouble[3:]) // 4]
            raise httpx2.WriteError("broken")
        self.data += body
        if trouble == "unheard":
            raise httpx2.ReadError("broken")
        return await self.look(request)

    async def end(self, request: httpx2.Request) -> Answer:
        self.complete = True
        return await self.look(request)

    async def look(self, request: httpx2.Request) -> Answer:
        return answered(job_view(upload_offset=len(self.data), complete=self.complete))


TROUBLES = ("", "refused", "draining", "cut0", "cut1", "cut3", "unheard")


@given(st.lists(st.sampled_from(TROUBLES), max_size=12), st.integers(1, 600))
def test_inputs_arrive_whole_and_once(troubles: list[str], chunk: int) -> None:
    """Refused, cut at any place, taken with the answer lost: in the end the daemon has the very bytes, and knows it."""

    async def main() -> None:
        daemon = FakeDaemon()
        spool = Spool(daemon, troubles)
        async with talking(daemon) as client:
            await client.job("j")
            await Upload(client, "j", chunk=chunk).run(items())
        assert (spool.data, spool.complete) == (WHOLE, True)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_the_first_line_of_a_slow_source_is_not_held_back(autojump_clock: trio.abc.Clock) -> None:
    """A line a minute is uploaded within its minute."""
    daemon = FakeDaemon()
    spool = Spool(daemon)
    seen: list[int] = []

    async def slowly() -> AsyncIterator[Item | Unreadable]:
        for item in ITEMS[:3]:
            yield item
            await trio.sleep(60)
            seen.append(spool.data.count(b"\n"))

    async with talking(daemon) as client:
        await Upload(client, "j").run(slowly())
    assert seen == [1, 2, 3]


async def test_a_fast_source_goes_in_large_pieces_and_waits(autojump_clock: trio.abc.Clock) -> None:
    """While the daemon is slow, no more than a chunk is read ahead, and each request carries about one chunk."""
    daemon = FakeDaemon()
    spool = Spool(daemon)
    read = 0

    async def many() -> AsyncIterator[Item | Unreadable]:
        nonlocal read
        for number in range(1, 2_001):
            read += 1
            yield Item(number, "in", {"text": "x" * 100})

    async def slow(request: httpx2.Request) -> Answer:
        before = len(spool.data)
        await trio.sleep(1)
        answer = await spool.take(request)
        assert len(spool.data) - before <= 10_000 + 200
        assert read * 130 - len(spool.data) <= 10_000 + 1_000
        return answer

    daemon.on("PATCH", "/api/jobs/j/inputs", slow)
    async with talking(daemon) as client:
        await Upload(client, "j", chunk=10_000).run(many())
    assert spool.data.count(b"\n") == 2_000
    assert spool.requests <= 2_000 * 140 / 10_000 + 2


@pytest.mark.parametrize("size", [0, 10_000])
async def test_inputs_of_somebody_else_are_not_mixed_up(size: int, autojump_clock: trio.abc.Clock) -> None:
    """A job that suddenly holds more or fewer bytes than were sent ends the upload with an error."""
    daemon = FakeDaemon()
    spool = Spool(daemon, ["", "unheard"])

    async def surprising(request: httpx2.Request) -> Answer:
        return answered(job_view(upload_offset=size))

    daemon.on("GET", "/api/jobs/j", surprising)
    async with talking(daemon) as client:
        with pytest.raises(UploadLost):
            await Upload(client, "j", chunk=100).run(items())
    assert not spool.complete


async def test_a_job_that_has_ended_ends_its_upload() -> None:
    """A refusal that is no matter of time is told at once, and the source is not read to its end."""
    daemon = FakeDaemon()
    Spool(daemon)
    daemon.on("PATCH", "/api/jobs/j/inputs", refused(409, "job_conflict", "job j has ended and takes no inputs"))

    async def endless() -> AsyncIterator[Item | Unreadable]:
        yield ITEMS[0]
        await trio.sleep_forever()

    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="has ended"):
            await Upload(client, "j").run(endless())


async def test_a_daemon_that_stays_away_ends_the_upload(autojump_clock: trio.abc.Clock) -> None:
    """After two minutes without a daemon the upload gives up."""
    daemon = FakeDaemon()
    Spool(daemon)
    async with talking(daemon) as client:
        await client.job("j")
        daemon.down = True
        with pytest.raises(NoDaemon):
            await Upload(client, "j").run(items())
    assert 110 < trio.current_time() < 130


async def test_an_offset_that_stays_wrong_ends_the_upload(autojump_clock: trio.abc.Clock) -> None:
    """A daemon that contradicts itself for ever is not asked for ever."""
    daemon = FakeDaemon()
    Spool(daemon)
    daemon.on("PATCH", "/api/jobs/j/inputs", refused(409, "wrong_offset", "the inputs end elsewhere"))
    async with talking(daemon) as client:
        with pytest.raises(Refusal, match="elsewhere"):
            await Upload(client, "j").run(items())
    assert len(daemon.asked) < 20
