"""What the record says, what its replay says, and what the replay under another configuration says: as plain structs.

The shape of `headrace-bench what-if --json` is a list of `WhatIf`, one for each backend.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from agents.port import Priority
from bench.play import Played
from bench.recorded import RecordedBackend
from bench.replay.spans import percentile
from bench.traces.ledger import LeftOut
from bench.whatif.play import Again
from bench.whatif.record import Asked, Record

MINUTE: Final = 60.0

NEAR_SECONDS: Final = 1.0
NEAR_SHARE: Final = 0.15
"""A wait is near another where they differ by at most so much, in seconds or as a share of the recorded one."""

FEW: Final = 20
"""Groups of fewer calls have no say in whether a replay agrees with its record."""


class Waits(Struct, frozen=True, kw_only=True):
    """How long the answered calls of a group had been in the queue, in seconds, and when the last answer came, in
    seconds from the first counted call. `calls` are all of the group.
    """

    name: str
    calls: int
    answered: int
    p50: float
    p90: float
    p99: float
    mean: float
    longest: float
    last: float


class Use(Struct, frozen=True, kw_only=True):
    """How much of a limit was counted in the whole minutes in which calls came, on average and in the busiest: a share,
    None where there was no whole minute.
    """

    endpoint: str
    limit: str
    amount: float
    per: float
    mean: float | None
    busiest: float | None


class Case(Struct, frozen=True, kw_only=True):
    """One way it went, or would have gone. `refused_429` is None for the record, which does not tell 429s from other
    failures: `retried` counts all attempts that failed and were made again. `finished` is in seconds from the first
    counted call, `per_second` tokens until then.
    """

    name: str
    calls: int
    answered: int
    retried: int
    refused_429: int | None
    finished: float
    per_second: float
    errors: dict[str, int]
    everybody: Waits
    priorities: list[Waits]
    tenants: list[Waits]
    use: list[Use]


class Agreement(Struct, frozen=True, kw_only=True):
    """How far the replay of one group, nothing changed, is from its record. Waits in seconds, `finished` too.

    `near` is the share of calls that waited in both about as long. `agrees`: mean, p50 and p90 are near one another.
    """

    name: str
    calls: int
    mean: tuple[float, float]
    p50: tuple[float, float]
    p90: tuple[float, float]
    finished: tuple[float, float]
    near: float
    agrees: bool


class WhatIf(Struct, frozen=True, kw_only=True):
    """One backend. `first` is when the first counted call came, in seconds since the epoch; `around` are the calls that
    were played and not counted. What is compared in the end is `as_was` with `changed`, which are both replays;
    `changed` is None where nothing was.
    """

    source: str
    backend: str
    first: float
    span: float
    around: int
    left_out: dict[LeftOut, int]
    changes: list[str]
    agrees: bool
    calibration: list[Agreement]
    recorded: Case
    as_was: Case
    changed: Case | None


class _Seen(Struct, frozen=True, gc=False):
    tenant: str
    priority: Priority
    tokens: int
    arrived: float
    ended: float
    waited: float
    retried: int
    outcome: str


def what_if(source: str, record: Record, changes: Sequence[str], as_was: Again, changed: Again | None) -> WhatIf:
    """Everything of one backend. Tenants are in the order of their calls' number, the largest first."""
    calls = record.calls
    counted = [asked for asked in calls if asked.counted]
    begin = counted[0].call.at
    recorded = [_of_record(asked) for asked in counted]
    again = _of_replay(calls, as_was)
    calibration = _calibration(recorded, again, begin)
    return WhatIf(
        source=source,
        backend=record.backend,
        first=record.first + begin,
        span=_round(counted[-1].call.at - begin),
        around=len(calls) - len(counted),
        left_out=record.left_out,
        changes=list(changes),
        agrees=all(one.agrees for one in calibration if one.calls >= FEW or one is calibration[0]),
        calibration=calibration,
        recorded=_case("recorded", recorded, begin, {}),
        as_was=_case("replayed as it was", again, begin, as_was.providers),
        changed=None if changed is None else _case("changed", _of_replay(calls, changed), begin, changed.providers),
    )


def _of_record(asked: Asked) -> _Seen:
    call = asked.call
    tokens = call.input + call.output
    return _Seen(call.tenant, call.priority, tokens, call.at, asked.ended, asked.waited, asked.retried, "ok")


def _of_replay(calls: Sequence[Asked], again: Again) -> list[_Seen]:
    pairs = zip(calls, again.played, strict=True)
    return [_played(asked, played) for asked, played in pairs if asked.counted]


def _played(asked: Asked, played: Played) -> _Seen:
    call = asked.call
    return _Seen(
        call.tenant,
        played.call.priority,
        call.input + call.output,
        played.arrived,
        played.ended,
        played.waited,
        max(0, played.attempts - 1),
        played.outcome,
    )


def _case(name: str, seen: Sequence[_Seen], begin: float, providers: dict[str, RecordedBackend]) -> Case:
    answered = [one for one in seen if one.outcome == "ok"]
    errors: dict[str, int] = defaultdict(int)
    for one in seen:
        if one.outcome != "ok":
            errors[one.outcome] += 1
    finished = max((one.ended for one in answered), default=begin) - begin
    last = max(one.arrived for one in seen)
    return Case(
        name=name,
        calls=len(seen),
        answered=len(answered),
        retried=sum(one.retried for one in seen),
        refused_429=sum(provider.refused for provider in providers.values()) if providers else None,
        finished=_round(finished),
        per_second=_round(sum(one.tokens for one in answered) / finished) if finished > 0 else 0.0,
        errors=dict(sorted(errors.items())),
        everybody=_waits("all", seen, begin),
        priorities=_groups(seen, lambda one: one.priority.name.lower(), begin, [one.name.lower() for one in Priority]),
        tenants=_groups(seen, lambda one: one.tenant, begin, _by_size(seen)),
        use=[use for endpoint, provider in providers.items() for use in _use(endpoint, provider, begin, last)],
    )


def _groups(seen: Sequence[_Seen], of: Callable[[_Seen], str], begin: float, names: Sequence[str]) -> list[Waits]:
    groups: dict[str, list[_Seen]] = defaultdict(list)
    for one in seen:
        groups[of(one)].append(one)
    return [_waits(name, groups[name], begin) for name in names if name in groups]


def _by_size(seen: Sequence[_Seen]) -> list[str]:
    sizes: dict[str, int] = defaultdict(int)
    for one in seen:
        sizes[one.tenant] += 1
    return sorted(sizes, key=lambda tenant: (-sizes[tenant], tenant))


def _waits(name: str, seen: Sequence[_Seen], begin: float) -> Waits:
    answered = [one for one in seen if one.outcome == "ok"]
    waits = sorted(one.waited for one in answered)
    return Waits(
        name=name,
        calls=len(seen),
        answered=len(answered),
        p50=_round(percentile(waits, 0.5)),
        p90=_round(percentile(waits, 0.9)),
        p99=_round(percentile(waits, 0.99)),
        mean=_round(sum(waits) / len(waits)) if waits else 0.0,
        longest=_round(percentile(waits, 1.0)),
        last=_round(max((one.ended for one in answered), default=begin) - begin),
    )


def _use(endpoint: str, provider: RecordedBackend, begin: float, last: float) -> list[Use]:
    found = []
    minutes = [(begin + n * MINUTE, begin + (n + 1) * MINUTE) for n in range(int((last - begin) // MINUTE))]
    for limit in provider.enforcer.limits:
        spec = limit.limit
        in_minutes = [limit.utilisation(start, end) for start, end in minutes]
        found.append(
            Use(
                endpoint=endpoint,
                limit=spec.kind,
                amount=spec.amount,
                per=spec.per,
                mean=_round(sum(in_minutes) / len(in_minutes), 4) if in_minutes else None,
                busiest=_round(max(in_minutes), 4) if in_minutes else None,
            )
        )
    return found


def _calibration(recorded: Sequence[_Seen], again: Sequence[_Seen], begin: float) -> list[Agreement]:
    pairs = list(zip(recorded, again, strict=True))
    tenants = _by_size(recorded)
    groups = [("all", pairs)] + [(name, [pair for pair in pairs if pair[0].tenant == name]) for name in tenants]
    return [_agreement(name, group, begin) for name, group in groups if group is pairs or len(tenants) > 1]


def _agreement(name: str, pairs: Sequence[tuple[_Seen, _Seen]], begin: float) -> Agreement:
    was = _waits(name, [one for one, _ in pairs], begin)
    now = _waits(name, [one for _, one in pairs], begin)
    near = sum(_near(one.waited, other.waited) for one, other in pairs) / len(pairs)
    return Agreement(
        name=name,
        calls=len(pairs),
        mean=(was.mean, now.mean),
        p50=(was.p50, now.p50),
        p90=(was.p90, now.p90),
        finished=(was.last, now.last),
        near=_round(near, 4),
        agrees=_near(was.mean, now.mean) and _near(was.p50, now.p50) and _near(was.p90, now.p90),
    )


def _near(recorded: float, replayed: float) -> bool:
    return abs(recorded - replayed) <= max(NEAR_SECONDS, NEAR_SHARE * recorded)


def _round(value: float, digits: int = 3) -> float:
    return round(value, digits)
