"""A daemon's calls as they were recorded, and what each of them had waited for, so that they can be made again.

A client's call comes when it came. A call of a run comes as long after those before it as it did: agents wait for
answers, so a shorter queue makes everything after it earlier. The same holds for runs of one job: one that began within
`FOLLOWS` seconds of another's end had waited for a worker.

Known limits, all of them for want of a record: a client that waits for its answers before it asks again is played as if
it did not; calls of a run to another backend are part of the run's thinking; and a call that was left out (still open,
never sent, without an answer) is not there.
"""

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agents.port import Priority
from bench.traces.base import TraceCall
from bench.traces.ledger import LeftOut, call_of, why_left_out
from orchestrator.store.ledger_port import CallRow

FOLLOWS: Final = 0.5
"""Seconds within which a job's next run begins, once a worker is free."""

_FARTHEST: Final = 5.0
"""How many times more, or fewer, bytes than usual a call's tokens are played with at most."""


class Asked(Struct, frozen=True, gc=False):
    """One recorded call.

    It comes `think` seconds after the last of those in `after` has ended, or at `call.at` where there are none; `after`
    are places in the list, all before its own. `noise` is what its client took its tokens for, over what it took those
    of the others for. `counted` is False for what came before or after the time that is asked about. Recorded, in
    seconds from the first call: its end, its time in the queue, and how many attempts had failed.
    """

    call: TraceCall
    ended: float
    waited: float
    retried: int
    noise: float = 1.0
    after: tuple[int, ...] = ()
    think: float = 0.0
    counted: bool = True


class Record(Struct, frozen=True):
    """The calls of one backend in the order of their arrival, timed from `first` (seconds since the epoch).

    `left_out` counts those that cannot be played, by why.
    """

    backend: str
    first: float
    calls: list[Asked]
    left_out: dict[LeftOut, int]

    @property
    def counted(self) -> int:
        """How many came in the time that is asked about."""
        return sum(asked.counted for asked in self.calls)


def records_of(
    rows: Sequence[CallRow], *, since: float = 0.0, until: float = math.inf, open_loop: bool = False
) -> list[Record]:
    """The record of each backend that answered any call, in the order of their names.

    What arrived before `since`, or from `until` on, is played and not counted. With `open_loop` every call comes when
    it came, whatever it had waited for.
    """
    by_backend: dict[str, list[CallRow]] = defaultdict(list)
    for row in rows:
        by_backend[row.backend].append(row)
    found = [_record(name, by_backend[name], (since, until), open_loop=open_loop) for name in sorted(by_backend)]
    return [record for record in found if record.counted]


def with_priorities(calls: Sequence[Asked], old: Mapping[str, Priority], new: Mapping[str, Priority]) -> list[Asked]:
    """The calls of tenants whose default priority differs: those that were made with the old one have the new one."""
    changed = {tenant: priority for tenant, priority in new.items() if old.get(tenant, Priority.STANDARD) != priority}
    return [_with_priority(asked, old, changed) for asked in calls] if changed else list(calls)


def _with_priority(asked: Asked, old: Mapping[str, Priority], changed: Mapping[str, Priority]) -> Asked:
    call = asked.call
    if call.tenant not in changed or call.priority != old.get(call.tenant, Priority.STANDARD):
        return asked
    return replace(asked, call=replace(call, priority=changed[call.tenant]))


def _record(backend: str, rows: Sequence[CallRow], span: tuple[float, float], *, open_loop: bool) -> Record:
    since, until = span
    left_out: dict[LeftOut, int] = defaultdict(int)
    kept = []
    for row in rows:
        why = why_left_out(row)
        if why is None:
            kept.append(row)
        elif since <= row.arrived < until:
            left_out[why] += 1
    first = kept[0].arrived if kept else 0.0
    usual = median(ratios) if (ratios := [ratio for row in kept if (ratio := _estimate_ratio(row))]) else 1.0
    calls = [
        Asked(
            call=call_of(row, first),
            ended=(row.ended or first) - first,
            waited=row.waited,
            retried=row.retried,
            noise=_noise(row, usual),
            counted=since <= row.arrived < until,
        )
        for row in kept
    ]
    return Record(backend, first, calls if open_loop else _linked(calls), dict(left_out))


def _estimate_ratio(row: CallRow) -> float:
    """What limits took its input for, over what it was; 0 where that is not known."""
    real = 0 if row.input is None else row.input + (row.cached or 0) + (row.cache_write or 0)
    return row.held_input / real if real > 0 else 0.0


def _noise(row: CallRow, usual: float) -> float:
    ratio = _estimate_ratio(row)
    return min(_FARTHEST, max(1.0 / _FARTHEST, ratio / usual)) if ratio else 1.0


def _linked(calls: Sequence[Asked]) -> list[Asked]:
    """The same calls, each with those that it had waited for."""
    runs: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for place, asked in enumerate(calls):
        if asked.call.run:
            runs[asked.call.tenant, asked.call.job, asked.call.run].append(place)
    links = {place: after for places in runs.values() for place, after in _inside(calls, places)}
    links |= dict(_between(calls, runs))
    return [_after(asked, links.get(place, ()), calls) for place, asked in enumerate(calls)]


def _after(asked: Asked, after: tuple[int, ...], calls: Sequence[Asked]) -> Asked:
    if not after:
        return asked
    return replace(asked, after=after, think=asked.call.at - max(calls[place].ended for place in after))


def _inside(calls: Sequence[Asked], places: Sequence[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """For each call of a run that others had ended before: those of them that none of these had itself waited for."""
    open_calls: list[tuple[float, int]] = []
    latest: list[int] = []
    begun = -math.inf
    for place in places:
        at = calls[place].call.at
        while open_calls and open_calls[0][0] <= at:
            ended = open_calls.pop(0)[1]
            latest.append(ended)
            begun = max(begun, calls[ended].call.at)
        latest = [before for before in latest if calls[before].ended > begun]
        if latest:
            yield place, tuple(latest)
        insort(open_calls, (calls[place].ended, place))


def _between(
    calls: Sequence[Asked], runs: Mapping[tuple[str, str, str], Sequence[int]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """For each run of a job that began as another of it ended: its first call, and the other's last."""
    jobs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for (tenant, job, _), places in runs.items():
        if job:
            jobs[tenant, job].append((places[0], max(places, key=lambda place: calls[place].ended)))
    for spans in jobs.values():
        ends = sorted((calls[last].ended, last) for _, last in spans)
        next_end = 0
        free: list[int] = []
        for first, _ in spans:
            at = calls[first].call.at
            while next_end < len(ends) and ends[next_end][0] <= at:
                free.append(ends[next_end][1])
                next_end += 1
            free = [last for last in free if at - calls[last].ended <= FOLLOWS]
            if free:
                yield first, (free.pop(0),)
