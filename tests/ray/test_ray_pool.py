"""When a daemon has workers placed on its Ray cluster again, in virtual time and without a cluster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
import structlog
import trio
from trio.testing import MockClock

from orchestrator.pools.placement import Outcome, Placement, WorkerSettings, actor_of
from orchestrator.pools.ray_pool import LONGEST_PAUSE, MISSED, RayPool, pool_name
from orchestrator.views.workers import WorkerName

URL = "http://10.0.0.5:8700"
NAME = "headrace-10.0.0.5-8700"
SETTINGS = WorkerSettings(daemons=(URL,), runs=8, patience=60.0)
PLACEMENT = Placement(address="10.0.0.1:6379", name=pool_name(URL), workers=2, cpus=0.5, settings=SETTINGS)
AWAY = [Outcome(state="failed", why="no Ray cluster answers")]
MADE = [Outcome(state="made", name=f"{NAME}-{number}") for number in (1, 2)]


class Played:
    """A cluster that answers as it is told. `at` is when it was asked."""

    def __init__(self, *answers: list[Outcome]) -> None:
        self._answers = list(answers)
        self.heard = {f"{NAME}-1.aa", f"{NAME}-2.bb"}
        self.at: list[float] = []
        self.pool = RayPool(PLACEMENT, lambda: self.heard, place=self._place)

    async def _place(self, placement: Placement) -> list[Outcome]:
        await trio.lowlevel.checkpoint()
        self.at.append(trio.current_time())
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@asynccontextmanager
async def running(*answers: list[Outcome]) -> AsyncGenerator[Played, None]:
    """A daemon's part at work."""
    played = Played(*answers)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(played.pool.run)
        yield played
        nursery.cancel_scope.cancel()


async def test_a_cluster_that_is_away_is_tried_again_and_said_once(autojump_clock: MockClock) -> None:
    """While the cluster is away it is asked less and less often, until it has made the workers."""
    with structlog.testing.capture_logs() as said:
        async with running(AWAY, AWAY, AWAY, MADE) as played:
            await trio.sleep(5.0)
            assert played.pool.problem == "no Ray cluster answers"
            await trio.sleep(60.0)
            assert played.at == pytest.approx([0.0, 2.0, 6.0, 14.0])
            assert played.pool.problem == ""
    warnings = [entry for entry in said if entry["log_level"] == "warning"]
    assert [entry["why"] for entry in warnings] == ["no Ray cluster answers"]
    assert "the Ray cluster is back" in {entry["event"] for entry in said}


async def test_however_long_it_is_away_it_is_found_within_a_minute(autojump_clock: MockClock) -> None:
    """The pause between two tries has a longest."""
    async with running(AWAY) as played:
        await trio.sleep(3600.0)
        gaps = [later - earlier for earlier, later in zip(played.at, played.at[1:], strict=False)]
        assert max(gaps) == pytest.approx(LONGEST_PAUSE)


async def test_workers_that_are_heard_of_are_left_alone(autojump_clock: MockClock) -> None:
    """With all workers there, and where Ray starts one again in time, the cluster is not asked again."""
    async with running(MADE) as played:
        await trio.sleep(1000.0)
        played.heard = {f"{NAME}-1.aa"}
        await trio.sleep(MISSED - 5.0)
        played.heard = {f"{NAME}-1.aa", f"{NAME}-2.cc"}
        await trio.sleep(1000.0)
        assert len(played.at) == 1


async def test_workers_that_are_missed_are_placed_again(autojump_clock: MockClock) -> None:
    """A worker that stays away is placed again, and less and less often where that does not help."""
    async with running(MADE) as played:
        await trio.sleep(100.0)
        played.heard = {f"{NAME}-1.aa", "somebody-else.dd"}
        await trio.sleep(MISSED + 5.0)
        assert len(played.at) == 2
        await trio.sleep(3600.0)
        gaps = [later - earlier for earlier, later in zip(played.at[1:], played.at[2:], strict=False)]
        assert gaps == sorted(gaps)
        assert gaps[-1] == pytest.approx(10 * MISSED, rel=0.05)


@pytest.mark.parametrize("url", ["http://[::1]:80", URL, "https://" + "a" * 60 + ".example:443"])
def test_actors_of_a_daemon_have_a_name_of_their_own(url: str) -> None:
    """Whatever the address, the name of a worker that is made of it is one, and says whose it is."""
    name = pool_name(url)
    worker = f"{name}-12.abcdef"
    msgspec.convert(worker, type=WorkerName)
    assert actor_of(worker) == f"{name}-12"
    assert pool_name(url) != pool_name(f"{url}1")


def test_workers_of_another_version_have_other_settings() -> None:
    """A daemon that was made newer has its workers made anew, since it compares their settings byte by byte."""
    older = msgspec.structs.replace(SETTINGS, version="0.0.1")
    told = msgspec.json.encode(SETTINGS)
    assert msgspec.json.encode(msgspec.json.decode(told, type=WorkerSettings)) == told
    assert msgspec.json.encode(older) != told
