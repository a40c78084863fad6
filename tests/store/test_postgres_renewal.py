"""When a daemon renews its lease, and when it stops by itself, in virtual time and without a database."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from orchestrator.store.bells import Bells
from orchestrator.store.errors import StoreAway, StoreError
from orchestrator.store.postgres_lease import DaemonLease, Leader

LEASE = 30.0


class FakeReaders:
    """Answers the lease's questions from a script, and knows when they came."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, float]] = []

    async def query(self, work: Callable[[Any], Any]) -> Any:
        self.asked.append((work.__name__, trio.current_time()))
        work.__self__._asked = time.monotonic()  # type: ignore[attr-defined]
        answer = self._answers.pop(0) if self._answers else True
        if isinstance(answer, Exception):
            raise answer
        if answer is ...:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return answer


def lease_of(readers: FakeReaders, bells: Bells | None = None) -> DaemonLease:
    return DaemonLease(readers, Bells() if bells is None else bells, "me", LEASE)  # type: ignore[arg-type]


def times(readers: FakeReaders, name: str) -> list[float]:
    return [round(at, 1) for asked, at in readers.asked if asked == name]


MINE = Leader("me", 1, LEASE)


async def test_it_renews_three_times_in_a_lease(autojump_clock: MockClock) -> None:
    """A leader renews every third of its lease, until somebody else has it."""
    readers = FakeReaders(MINE, True, True, True, False)
    lease = lease_of(readers)
    assert await lease.wait() == 1
    await lease.keep()
    assert times(readers, "_renew") == [10.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("trouble", [..., StoreAway("connection refused"), StoreError("refused")])
async def test_one_that_cannot_renew_stops_before_its_time_is_over(trouble: Any, autojump_clock: MockClock) -> None:
    """A leader whose renewals hang or fail stops five seconds before its last good one runs out."""
    readers = FakeReaders(MINE, True, trouble)
    lease = lease_of(readers)
    await lease.wait()
    await lease.keep()
    assert round(trio.current_time(), 1) == 10 + LEASE - 5


async def test_a_candidate_asks_when_the_lease_that_it_saw_runs_out(autojump_clock: MockClock) -> None:
    """A daemon that stands by asks again when the other one's lease would be over, and not before."""
    readers = FakeReaders(Leader("other", 1, 30.0), Leader("other", 1, 20.0), MINE)
    await lease_of(readers).wait()
    assert times(readers, "_take") == [0.0, 30.0, 50.0]


async def test_a_candidate_asks_when_the_leader_goes(autojump_clock: MockClock) -> None:
    """A daemon that stands by asks at once when the bell says that the leader has gone."""
    bells, readers = Bells(), FakeReaders(Leader("other", 1, 30.0), MINE)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease_of(readers, bells).wait)
        await trio.sleep(3)
        bells.ring_all()
    assert times(readers, "_take") == [0.0, 3.0]


async def test_a_candidate_outlasts_a_server_that_is_away(autojump_clock: MockClock) -> None:
    """A daemon that stands by goes on asking a server that cannot be reached."""
    readers = FakeReaders(*[StoreAway("connection refused")] * 100, MINE)
    assert await lease_of(readers).wait() == 1


async def test_it_gives_the_lease_back_even_when_cancelled(autojump_clock: MockClock) -> None:
    """Giving back happens under cancellation too, and takes five seconds at most where the server hangs."""
    for answer, seconds in ((True, 0.0), (..., 5.0), (StoreAway("gone"), 0.0)):
        readers, begun = FakeReaders(MINE, answer), trio.current_time()
        lease = lease_of(readers)
        await lease.wait()
        with trio.CancelScope() as scope:
            scope.cancel()
            await lease.release()
        assert times(readers, "_give_back") == [round(begun, 1)]
        assert trio.current_time() - begun == seconds
