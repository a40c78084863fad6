"""The workers that a daemon has on a Ray cluster: placed when it begins, and again when some stay away.

The cluster is asked by a program of its own (`orchestrator.worker.ray_place`), since Ray takes a second to import, 100
MB of memory and threads that never end, all for something that is done once. Where a node is lost Ray itself starts its
workers elsewhere. What remains to be seen to is a cluster that is away when the daemon begins, one that was made anew,
and workers that have ended: so workers that should be there and are not heard of for `MISSED` seconds are placed again,
less and less often the longer that does not help.
"""

import hashlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Collection
from typing import Final

import msgspec
import structlog
import trio

from agents.errors import HeadraceError
from orchestrator.pools.placement import Outcome, Placement, actor_name, actor_of

MISSED: Final = 30.0
"""Seconds that Ray has to start a worker again, or for one to find the daemon, before it is placed again."""
LOOKS_EVERY: Final = 2.0
"""Seconds between two looks at who is there."""
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries to reach a cluster that is away: twice as many each time."""
TRIES_FOR: Final = 120.0
"""Seconds after which the program that places workers is given up and killed."""

PROGRAM: Final = (sys.executable, "-m", "orchestrator.worker.ray_place")
_LONGEST_PLACE: Final = 40  # so that the name of a worker stays within its bounds

INSTALL: Final = 'pip install "headrace[ray]"'

_log = structlog.get_logger("headrace.pool")


class RayNotInstalled(HeadraceError):
    """The pool is on a Ray cluster, and Ray is not there."""


class RayPool:
    """One daemon's workers on a Ray cluster. `run` is its task; `heard` says which workers are heard of at present,
    `place` brings the cluster in line with the placement, `by_program` where none is given.

    Raises `RayNotInstalled`.
    """

    def __init__(
        self,
        placement: Placement,
        heard: Callable[[], Collection[str]],
        *,
        place: Callable[[Placement], Awaitable[list[Outcome]]] | None = None,
    ) -> None:
        if place is None and importlib.util.find_spec("ray") is None:
            raise RayNotInstalled(f"workers are to be placed on a Ray cluster, but Ray is not installed: `{INSTALL}`")
        self.problem = ""
        """Why not all workers are placed, for people; empty where all are."""
        self._placement = placement
        self._heard = heard
        self._by = place or by_program

    async def run(self) -> None:
        """Sees to it until cancelled. Workers then go on, for the next daemon."""
        pause, patience = FIRST_PAUSE, MISSED
        while True:
            if not await self._place():
                await trio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            patience = min(2 * patience, 10 * MISSED) if await self._until_missed(patience) else 2 * MISSED

    async def _until_missed(self, patience: float) -> bool:
        """Waits until some worker was away for `patience` seconds; whether it never saw all of them until then."""
        names = {actor_name(self._placement, number + 1) for number in range(self._placement.workers)}
        complete, since = False, trio.current_time()
        while True:
            now = trio.current_time()
            missing = sorted(names - {actor_of(worker) for worker in self._heard()})
            if not missing:
                complete, since, patience = True, now, MISSED
            elif now - since >= patience:
                _log.warning("workers on the Ray cluster are not heard of, and are placed again", workers=missing)
                return not complete
            await trio.sleep(LOOKS_EVERY)

    async def _place(self) -> bool:
        """Has the program do it once; whether the cluster was reached and could make what is wanted."""
        outcomes = await self._by(self._placement)
        failed = [outcome for outcome in outcomes if outcome.state == "failed"]
        waiting = [outcome.name for outcome in outcomes if outcome.state == "waiting"]
        for outcome in outcomes:
            if outcome.state in ("made", "ended"):
                _log.info(f"a worker on the Ray cluster was {outcome.state}", worker=outcome.name, why=outcome.why)
        if waiting:
            _log.warning("no node of the Ray cluster has room for workers yet", workers=waiting)
        problem = next((f"{outcome.name}: {outcome.why}".removeprefix(": ") for outcome in failed), "")
        if problem and problem != self.problem:
            _log.warning("workers cannot be placed on the Ray cluster; runs wait, it is tried again", why=problem)
        elif self.problem and not problem:
            _log.info("the Ray cluster is back")
        self.problem = problem
        return not problem


async def by_program(placement: Placement) -> list[Outcome]:
    """Has the program do it, and gives what it says; one outcome that is `failed` where it does not say anything."""
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        with trio.move_on_after(TRIES_FOR):
            said = msgspec.json.encode(placement)
            done = await trio.run_process(PROGRAM, stdin=said, capture_stdout=True, capture_stderr=True, check=False)
        if done is None:
            return [Outcome(state="failed", why=f"the Ray cluster did not answer within {TRIES_FOR:g} s")]
        outcomes = [msgspec.json.decode(line, type=Outcome) for line in done.stdout.splitlines()]
    except (OSError, msgspec.MsgspecError) as error:
        return [Outcome(state="failed", why=f"the program that places workers cannot be heard: {error}")]
    if done.returncode != 0 and not outcomes:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        return [Outcome(state="failed", why=f"the program that places workers ended badly: {words[-1]}")]
    return outcomes


def pool_name(url: str) -> str:
    """What the actors of the daemon at `url` are called: several daemons may have workers on one cluster."""
    place = url.partition("://")[2].strip("/")
    if len(place) > _LONGEST_PLACE:
        place = f"{place[: _LONGEST_PLACE - 9]}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
    return "headrace-" + re.sub(r"[^A-Za-z0-9.]", "-", place)
