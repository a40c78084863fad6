"""One run at a worker: what it is is fetched, then it is driven from where its log stands, until it ends or is left."""

import time
from collections.abc import Callable
from typing import Final

import structlog
import trio

from agents.amounts import Amounts
from agents.errors import HeadraceError
from agents.events import decode
from agents.fold import fold
from agents.log import JournalLost
from agents.loop import AgentRun
from agents.money import Price
from agents.origin import RunLeft, RunParked
from agents.port import Priority
from agents.spec import AgentSpec
from orchestrator.views.workers import (
    LONGEST_HOLD,
    ClaimRequest,
    Done,
    LeftRequest,
    RoomAnswer,
    RoomRequest,
    RunMaterial,
    ScopeView,
)
from orchestrator.worker.hold import ClaimGone, Hold
from orchestrator.worker.journal import ClaimJournal
from orchestrator.worker.link import Link
from orchestrator.worker.materials import Materials
from orchestrator.worker.mirror import Mirror
from orchestrator.worker.model import ClaimModel
from orchestrator.worker.spawner import ClaimSpawner

NO_LIMIT: Final = float("inf")
"""An append waits for the daemon for as long as the claim counts; the claim ends it."""

_AGAIN_SECONDS: Final = 1.0

_log = structlog.get_logger("headrace.worker")


class _OnePrice:
    """Implements `agents.money.Prices` for the one model that a run calls."""

    __slots__ = ("_price",)

    def __init__(self, price: Price | None) -> None:
        self._price = price

    def price(self, model: str) -> Price | None:
        return self._price


async def work_at(hold: Hold, link: Link, materials: Materials, wall: Callable[[], float] = time.time) -> None:
    """Drives the run for as long as the claim counts, and says so where it is left open. Only cancelling raises."""
    try:
        left = await _until_over(hold, link, materials, wall)
    except ClaimGone:
        return
    except HeadraceError as error:
        left = LeftRequest(claim=hold.claim, message=error.message)
    except Exception as error:
        _log.exception("a run cannot be driven", run=hold.run)
        left = LeftRequest(claim=hold.claim, message=f"{type(error).__name__}: {error}")
    if left is not None and not hold.gone:
        try:
            await hold.ask(Done, "left", body=left)
        except HeadraceError as error:
            _log.debug("the daemon was not told that a run was left", run=hold.run, why=error.message)


async def _until_over(hold: Hold, link: Link, materials: Materials, wall: Callable[[], float]) -> LeftRequest | None:
    material = await hold.ask(RunMaterial, "begin", body=ClaimRequest(claim=hold.claim))
    async with materials.agent(material.agent) as agent:
        mirror = Mirror(material.above)
        run = _taken_up(hold, link, material, agent, mirror, _clock(wall))
        mirror.of(run.scope)
        hold.drives(run)
        return await _driven(hold, run, mirror)


def _taken_up(
    hold: Hold, link: Link, material: RunMaterial, agent: AgentSpec, mirror: Mirror, wall: Callable[[], float]
) -> AgentRun:
    snapshot = fold(decode(bytes(record)) for record in material.records).last
    if snapshot is None or snapshot.created.run != hold.run:
        raise HeadraceError(f"the log does not end with run {hold.run}")
    return AgentRun.take_up(
        agent,
        snapshot,
        model=ClaimModel(hold),
        journal=ClaimJournal(link, hold, material.number, mirror.refresh),
        budget=mirror.scope,
        prices=_OnePrice(material.price),
        generation=material.generation,
        number=material.number,
        wall=wall,
        priority=Priority(material.priority),
        append_seconds=NO_LIMIT,
        spawner=ClaimSpawner(hold, mirror),
    )


async def _driven(hold: Hold, run: AgentRun, mirror: Mirror) -> LeftRequest | None:
    """What the daemon is to be told of it; None where it has ended."""
    left: LeftRequest | None = None

    async def room(need: Amounts) -> tuple[ScopeView, ...]:
        request = RoomRequest(claim=hold.claim, need=need)
        while True:
            try:
                return (await hold.ask(RoomAnswer, "room", body=request, hold=LONGEST_HOLD)).above
            except ClaimGone:
                await trio.sleep_forever()
            except HeadraceError:
                await trio.sleep(_AGAIN_SECONDS)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(mirror.follow, room)
        try:
            await run.drive()
        except RunParked as parked:
            left = LeftRequest(claim=hold.claim, parked=True, message=parked.message)
        except (RunLeft, JournalLost) as error:
            left = LeftRequest(claim=hold.claim, message=error.message)
        nursery.cancel_scope.cancel()
    return left


def _clock(wall: Callable[[], float]) -> Callable[[], float]:
    """One look at the wall clock, and seconds of trio's from there: so it never goes back."""
    began, now = wall(), trio.current_time()
    return lambda: began + (trio.current_time() - now)
