"""What a replay shows, as plain structs: the shape of `headrace-bench replay --json`."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from agents.port import Priority
from bench.play import Played
from bench.replay.run import Replayed
from bench.replay.spans import ServiceOverTime, covers, jain, merged, percentile, ticks
from orchestrator.policy.estimate import ServiceWeights

TICK: Final = 60.0
"""Fairness and the use of limits are measured in whole minutes, from the beginning."""

_WEIGHTS: Final = ServiceWeights()


class Waits(Struct, frozen=True, kw_only=True):
    """How long calls that were answered had waited before they were sent, in seconds, and their first token after
    arrival. `calls` are all of the group, `answered` those.
    """

    name: str
    calls: int
    answered: int
    p50: float
    p90: float
    p99: float
    mean: float
    longest: float
    first_token_p50: float
    first_token_p99: float


class Use(Struct, frozen=True, kw_only=True):
    """The share of a limit that was counted: while calls came, and in the minutes in which calls waited throughout.

    `backlogged` is None without such a minute.
    """

    limit: str
    amount: float
    while_arriving: float
    backlogged: float | None


class PolicyReport(Struct, frozen=True, kw_only=True):
    """One trace under one policy. Times in seconds.

    `tightest` is the mean, over minutes in which calls waited throughout, of the use of the limit that was used most.
    `jain_mean` and `jain_worst` are Jain's index of the service in one priority of those tenants that had calls of it
    waiting throughout a minute, over all minutes with two such tenants; `spread` is their largest difference.
    `booked_spread` and `bound` are the owner's own books where they came nearest to the bound. `in_time` are the calls
    that ended well within their deadline, `goodput` the tokens of those per second until the end.
    """

    trace: str
    policy: str
    calls: int
    ok: int
    in_time: int
    refused_429: int
    attempts: int
    ended: float
    goodput: float
    minutes_backlogged: int
    tightest: float | None
    jain_mean: float | None
    jain_worst: float | None
    spread: float | None
    booked_spread: float | None
    bound: float | None
    errors: dict[str, int]
    use: list[Use]
    priorities: list[Waits]
    tenants: list[Waits]


def report(trace: str, policy: str, result: Replayed) -> PolicyReport:
    """Everything of one replay. Tenants are in the order of their calls' number, the largest first."""
    played = result.played
    ok = [one for one in played if one.outcome == "ok"]
    in_time = [one for one in ok if one.call.deadline is None or one.ended - one.arrived <= one.call.deadline + 1e-9]
    last = max((one.arrived for one in played), default=0.0)
    backlogged = _backlogged(played, result.ended)
    fair = _fairness(played, result.ended)
    spread, bound = max(result.apart, key=lambda pair: pair[0] / pair[1] if pair[1] else 0.0, default=(0.0, 0.0))
    errors: dict[str, int] = defaultdict(int)
    for one in played:
        if one.outcome != "ok":
            errors[one.outcome] += 1
    tokens = sum(one.call.input + one.call.output for one in in_time)
    return PolicyReport(
        trace=trace,
        policy=policy,
        calls=len(played),
        ok=len(ok),
        in_time=len(in_time),
        refused_429=result.backend.refused,
        attempts=sum(one.attempts for one in played),
        ended=_round(result.ended),
        goodput=_round(tokens / result.ended) if result.ended else 0.0,
        minutes_backlogged=len(backlogged),
        tightest=_tightest(result, backlogged),
        jain_mean=_round(sum(fair[0]) / len(fair[0]), 4) if fair[0] else None,
        jain_worst=_round(min(fair[0]), 4) if fair[0] else None,
        spread=_round(max(fair[1])) if fair[1] else None,
        booked_spread=_round(spread) if bound else None,
        bound=_round(bound) if bound else None,
        errors=dict(sorted(errors.items())),
        use=_use(result, last, backlogged),
        priorities=_waits(played, lambda one: one.call.priority.name.lower(), [name.name.lower() for name in Priority]),
        tenants=_waits(played, lambda one: one.call.tenant, _by_size(played)),
    )


def _round(value: float, digits: int = 3) -> float:
    return round(value, digits)


def _backlogged(played: Sequence[Played], ended: float) -> list[tuple[float, float]]:
    """The minutes during all of which, and the minute before, some call waited."""
    union = merged((one.arrived, one.arrived + one.waited) for one in played)
    return [(start, end) for start, end in ticks(ended, TICK) if covers(union, start - TICK, end)]


def _use(result: Replayed, last: float, backlogged: Sequence[tuple[float, float]]) -> list[Use]:
    found = []
    for limit in result.backend.enforcer.limits:
        waiting = [limit.utilisation(start, end) for start, end in backlogged]
        found.append(
            Use(
                limit=limit.limit.kind,
                amount=limit.limit.amount,
                while_arriving=_round(limit.utilisation(0.0, last), 4) if last else 0.0,
                backlogged=_round(sum(waiting) / len(waiting), 4) if waiting else None,
            )
        )
    return found


def _tightest(result: Replayed, backlogged: Sequence[tuple[float, float]]) -> float | None:
    limits = result.backend.enforcer.limits
    if not limits or not backlogged:
        return None
    best = [max(limit.utilisation(start, end) for limit in limits) for start, end in backlogged]
    return _round(sum(best) / len(best), 4)


def _fairness(played: Sequence[Played], ended: float) -> tuple[list[float], list[float]]:
    """For each minute and priority in which two tenants or more had calls waiting throughout: Jain's index of their
    service, and its spread.
    """
    waiting: dict[tuple[Priority, str], list[tuple[float, float]]] = defaultdict(list)
    service: dict[tuple[Priority, str], ServiceOverTime] = defaultdict(lambda: ServiceOverTime(TICK))
    for one in played:
        call = one.call
        flow = call.priority, call.tenant
        waiting[flow].append((one.arrived, one.arrived + one.waited))
        if one.first_token is not None:
            served = service[flow]
            served.add(one.first_token, one.first_token, _WEIGHTS.cost(call.input - call.cached, call.cached, 0))
            served.add(one.first_token, one.ended, _WEIGHTS.cost(0, 0, call.output))
    unions = {flow: merged(spans) for flow, spans in waiting.items()}
    indices, spreads = [], []
    for place, (start, end) in enumerate(ticks(ended, TICK)):
        by_priority: dict[Priority, list[float]] = defaultdict(list)
        for flow, union in unions.items():
            if covers(union, start, end):
                by_priority[flow[0]].append(service[flow].at(place))
        for values in by_priority.values():
            if len(values) > 1:
                indices.append(jain(values))
                spreads.append(max(values) - min(values))
    return indices, spreads


def _by_size(played: Sequence[Played]) -> list[str]:
    sizes: dict[str, int] = defaultdict(int)
    for one in played:
        sizes[one.call.tenant] += 1
    return sorted(sizes, key=lambda tenant: (-sizes[tenant], tenant))


def _waits(played: Sequence[Played], of: Callable[[Played], str], names: Sequence[str]) -> list[Waits]:
    groups: dict[str, list[Played]] = defaultdict(list)
    for one in played:
        groups[of(one)].append(one)
    return [_waits_of(name, groups[name]) for name in names if name in groups]


def _waits_of(name: str, played: Sequence[Played]) -> Waits:
    waits = sorted(one.waited for one in played if one.outcome == "ok")
    firsts = sorted(one.first_token - one.arrived for one in played if one.first_token is not None)
    return Waits(
        name=name,
        calls=len(played),
        answered=len(waits),
        p50=_round(percentile(waits, 0.5)),
        p90=_round(percentile(waits, 0.9)),
        p99=_round(percentile(waits, 0.99)),
        mean=_round(sum(waits) / len(waits)) if waits else 0.0,
        longest=_round(percentile(waits, 1.0)),
        first_token_p50=_round(percentile(firsts, 0.5)),
        first_token_p99=_round(percentile(firsts, 0.99)),
    )
