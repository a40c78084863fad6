"""Which worker has a claim to which run. Pure: no await, and the time is passed in.

A run waits until it is given to a worker; at any time one claim to it counts, and every other one is refused. A claim
ends when the run ends or is left, when its worker was not heard of for `lease` seconds, or when its worker, though it
has begun with the run, does not name it among those it drives.

**After a start** nobody here knows what the daemon before this one gave away. So for `lease` seconds runs of that time
are given to nobody, while their workers come back and name them: such a claim counts, where the run was not given to
anybody by this daemon. A claim may well come before its run does (the run's job has not asked for it yet), and it stays
while nobody drives the run for a moment; it then waits for the run.

**Fair**: a run goes to the worker of which the smallest part of what it could drive is taken. Only workers whose poll
is open are given anything, so that they hear of it at once.

**A name is one process's** as long as that is at work: while a poll of it is open, and for a third of `lease` after the
last one. Where that one broke off a moment is enough, as a process that lives polls again at once.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from orchestrator.pools.errors import ClaimGone, NotYet
from orchestrator.pools.seat import Seat
from orchestrator.views.workers import Holding

MOMENT = 0.5
"""Seconds in which a worker that lives has polled again, whatever became of the poll before."""


class Given(Struct):
    """A claim that counts. `begun` says that its worker has begun to drive the run."""

    run: str
    claim: str
    worker: str
    begun: bool = False


class Claims:
    """All claims of one daemon, which began at `now`. `token` is this daemon's own: claims of its own begin with it.

    `open` says whether a run is one that a worker may hold.
    """

    def __init__(self, token: str, lease: float, now: float, open: Callable[[str], bool]) -> None:
        self.lease = lease
        self.seats: dict[str, Seat] = {}
        self._token = token
        self._numbers = itertools.count(1)
        self._grace = now + lease
        self._open = open
        self._given: dict[str, Given] = {}
        self._waiting: dict[str, bool] = {}  # whether the run is older than this daemon
        self._once: set[str] = set()  # open runs that this daemon has given to somebody

    @property
    def waiting(self) -> int:
        """How many runs wait for a worker."""
        return len(self._waiting)

    # Runs

    def offer(self, run: str, *, older: bool) -> Given | None:
        """The run wants a driver. Where there is a claim to it already, that is the one."""
        given = self._given.get(run)
        if given is None:
            self._waiting[run] = older and run not in self._once
        return given

    def withdraw(self, run: str) -> None:
        """The run wants no driver for now. A claim to it waits for it."""
        self._waiting.pop(run, None)

    def free(self, run: str) -> None:
        """No claim to it counts any more; it may want another driver."""
        given = self._given.pop(run, None)
        if given is not None:
            self.seats[given.worker].forget((run,))

    def take_back(self, run: str) -> None:
        """Whoever has a claim to it, or had one before this daemon: it does not count any more."""
        self.withdraw(run)
        self.free(run)
        self._once.add(run)

    def over(self, run: str) -> None:
        """It wants no driver ever again."""
        self.withdraw(run)
        self.free(run)
        self._once.discard(run)

    def of(self, run: str, claim: str, now: float) -> Given:
        """The claim, where it counts. Raises `ClaimGone`, `NotYet`."""
        given = self._given.get(run)
        if given is not None and given.claim == claim:
            return given
        if given is None and now < self._grace and self._may_be_older(run, claim):
            raise NotYet(f"run {run} is not claimed here yet")
        raise ClaimGone(f"this claim to run {run} does not count any more")

    def holder(self, run: str) -> Seat | None:
        """The worker that has a claim to it."""
        given = self._given.get(run)
        return None if given is None else self.seats[given.worker]

    # Workers

    def rival(self, worker: str, instance: str, now: float) -> Seat | None:
        """The other process that has this name, if one may be at work."""
        seat = self._other(worker, instance)
        if seat is None or seat.polling:
            return seat
        return seat if now < seat.heard + min(self.lease / 3, MOMENT if seat.cut else math.inf) else None

    def succeed(self, worker: str, instance: str) -> list[str]:
        """The name is this process's from here on. Answers with the runs that the one before it has lost."""
        seat = self._other(worker, instance)
        lost = [] if seat is None else sorted(seat.runs)
        if seat is not None:
            self.gone(seat)
        return lost

    def _other(self, worker: str, instance: str) -> Seat | None:
        seat = self.seats.get(worker)
        return None if seat is None or seat.instance == instance else seat

    def hear(
        self, worker: str, room: int, holding: Sequence[Holding], heard: int, now: float, instance: str = ""
    ) -> tuple[Seat, list[str], list[Given], list[str]]:
        """A worker polls. Answers with its seat, the runs it is to leave, the claims that count from here on because it
        named them, and the runs that it has lost.
        """
        seat = self.seats.get(worker)
        if seat is None:
            seat = self.seats[worker] = Seat(worker, heard, instance)
        seat.heard, seat.turn, seat.polling, seat.cut = now, seat.turn + 1, True, False
        seat.acted_on(heard)
        leave, adopted = [], []
        for one in holding:
            given = self._given.get(one.run)
            if given is not None and given.claim == one.claim:
                if not self._open(one.run):
                    self.over(one.run)
                    leave.append(one.run)
            elif given is None and self._may_be_older(one.run, one.claim):
                adopted.append(self._give(one.run, one.claim, seat, begun=True))
            else:
                leave.append(one.run)
        new = {one.run for one in self.new(seat, holding)}
        dropped = sorted(run for run in new if self._given[run].begun)
        for run in dropped:
            self.free(run)
        seat.room = max(0, room - len(new.difference(dropped)))
        return seat, leave, adopted, dropped

    def answered(self, seat: Seat, now: float, *, cut: bool = False) -> None:
        """Its latest poll is over; `cut` says that its answer went nowhere."""
        seat.heard, seat.polling, seat.cut = now, False, cut

    def new(self, seat: Seat, holding: Iterable[Holding]) -> tuple[Holding, ...]:
        """What was given to the worker and is not among what it holds, in whatever answer it was told of that."""
        held = {one.claim for one in holding}
        given = (self._given[run] for run in sorted(seat.runs))
        return tuple(Holding(run=one.run, claim=one.claim) for one in given if one.claim not in held)

    def assign(self, now: float) -> list[Given]:
        """Gives runs that wait to workers that can take them."""
        found = []
        for run in list(self._ready(now)):
            seat = min((s for s in self.seats.values() if s.polling and s.room), key=_by_load, default=None)
            if seat is None:
                break
            del self._waiting[run]
            self._once.add(run)
            seat.room -= 1
            found.append(self._give(run, f"{self._token}-{next(self._numbers)}", seat, begun=False))
        return found

    def expire(self, now: float) -> list[str]:
        """The runs of workers that are gone by now."""
        lost: list[str] = []
        for seat in [seat for seat in self.seats.values() if self._ends(seat) <= now]:
            lost += sorted(seat.runs)
            self.gone(seat)
        return lost

    def gone(self, seat: Seat) -> None:
        """The worker is gone, and its claims are."""
        for run in tuple(seat.runs):
            self.free(run)
        self.seats.pop(seat.name, None)

    def due(self, now: float) -> float:
        """When time alone changes something next."""
        times = [self._ends(seat) for seat in self.seats.values()]
        if now < self._grace:
            times.append(self._grace)
        return min(times, default=math.inf)

    def _ends(self, seat: Seat) -> float:
        return math.inf if seat.polling else seat.heard + self.lease

    def _ready(self, now: float) -> Iterator[str]:
        return (run for run, older in self._waiting.items() if not older or now >= self._grace)

    def _may_be_older(self, run: str, claim: str) -> bool:
        return not claim.startswith(f"{self._token}-") and run not in self._once and self._open(run)

    def _give(self, run: str, claim: str, seat: Seat, *, begun: bool) -> Given:
        self._waiting.pop(run, None)
        seat.runs.add(run)
        given = self._given[run] = Given(run, claim, seat.name, begun)
        return given


def _by_load(seat: Seat) -> tuple[float, int, str]:
    return seat.load, -seat.room, seat.name
