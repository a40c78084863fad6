"""When the calls that wait will go, at the present pace, if nobody comes and nothing changes.

The theory is that of a fluid: the backend gives service at one steady rate, priorities share it strictly but for the
minimum share of the lower ones, and within a priority tenants with calls share it by weight. As a tenant's calls run
out, its part goes to the others (generalised processor sharing: Parekh and Gallager, "A Generalized Processor Sharing
Approach to Flow Control", 1993). A tenant with work W and weight w is done when its priority has had

    X  =  sum over tenants of  min(W_j, w_j * W / w)

and its next call goes once those behind it in the order have caught up, and its own cost has come: with counters c

    x  =  sum over tenants with c_j < c of  w_j * (c - c_j),  at most X,  plus the call's cost.

What a priority has had by when is piecewise linear: one piece per priority that runs dry. A tenant whose own limits let
it have less than that is done by those, so many seconds per call, and the others share what it leaves.

Known limits: it is an average. Calls that come later are not known, so a flood of a more urgent priority makes it
longer, and everybody who leaves makes it shorter. The work of queued calls is their number times what the tenant's
calls were charged lately; a tenant that queues large and small calls in turn gets the mean. The fair order goes call by
call where this goes drop by drop, so a time is off by about one call of each tenant. Tested against simulations
(`tests/board/test_board_waits.py`): the end of a steady backlog is within a factor of 1.5 and a few seconds of what
happens, behind a minute's limit, behind few slots, with weights, sizes and priorities mixed.
"""

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

LEAST_REST = 0.05
"""The part of the rate that is left for the others at the least, however much is counted for tenants' own limits."""


class Backlog(Struct, frozen=True):
    """What one tenant has waiting in one priority (0 is the most urgent). `cost` is the service of one call, `counter`
    the tenant's in the fair order. Its own limits let nothing go for `own_wait` seconds, and then a call every
    `own_pace` seconds."""

    priority: int
    calls: int
    cost: float
    weight: float
    counter: float
    own_wait: float = 0.0
    own_pace: float = 0.0

    @property
    def work(self) -> float:
        return self.calls * self.cost


class Expected(Struct, frozen=True):
    """Seconds until the next and until the last of a backlog's calls go; infinite where none ever would."""

    next_in: float
    last_in: float


def forecast(backlogs: Sequence[Backlog], rate: float, *, minimum_share: float = 0.0) -> list[Expected]:
    """What to expect for each backlog, in the order given, at `rate` service per second (above 0)."""
    alike = _by_order(backlogs, rate, minimum_share)
    slow = [_floor(backlog).last_in > all_alike.last_in for backlog, all_alike in zip(backlogs, alike, strict=True)]
    if not any(slow):
        return alike
    # those that their own limits hold back take what these let them have, and the others share the rest
    rest = rate - sum(backlog.cost / backlog.own_pace for backlog, own in zip(backlogs, slow, strict=True) if own)
    others = iter(
        _by_order(
            [backlog for backlog, own in zip(backlogs, slow, strict=True) if not own],
            max(rest, LEAST_REST * rate),
            minimum_share,
        )
    )
    return [_floor(backlog) if own else next(others) for backlog, own in zip(backlogs, slow, strict=True)]


def _floor(backlog: Backlog) -> Expected:
    """How long the tenant's own limits alone make it take."""
    if backlog.own_pace <= 0.0 or backlog.calls == 1:
        return Expected(backlog.own_wait, backlog.own_wait)
    return Expected(backlog.own_wait, backlog.own_wait + (backlog.calls - 1) * backlog.own_pace)


def _by_order(backlogs: Sequence[Backlog], rate: float, minimum_share: float) -> list[Expected]:
    """The same without the tenants' own limits, but for the time until these let the next call go."""
    works = [0.0] * (1 + max((backlog.priority for backlog in backlogs), default=0))
    for backlog in backlogs:
        works[backlog.priority] += backlog.work
    expected: list[Expected] = [Expected(0.0, 0.0)] * len(backlogs)
    for priority, curve in enumerate(_curves(works, rate, minimum_share)):
        own = [(index, backlog) for index, backlog in enumerate(backlogs) if backlog.priority == priority]
        lasts = _by_share([backlog for _, backlog in own])
        befores = _before([backlog for _, backlog in own])
        for (index, backlog), last, before in zip(own, lasts, befores, strict=True):
            next_in = max(_when(curve, min(before + backlog.cost, last)), backlog.own_wait)
            expected[index] = Expected(next_in, max(_when(curve, last), next_in))
    return expected


def _by_share(backlogs: Sequence[Backlog]) -> list[float]:
    """The service that the priority has had when each backlog is done."""
    order = sorted(range(len(backlogs)), key=lambda index: backlogs[index].work / backlogs[index].weight)
    weights = sum(backlog.weight for backlog in backlogs)
    done, ends = 0.0, [0.0] * len(backlogs)
    for index in order:
        backlog = backlogs[index]
        ends[index] = done + weights * backlog.work / backlog.weight
        weights -= backlog.weight
        done += backlog.work
    return ends


def _before(backlogs: Sequence[Backlog]) -> list[float]:
    """The service that others get before each backlog's next call."""
    order = sorted(range(len(backlogs)), key=lambda index: backlogs[index].counter)
    befores = [0.0] * len(backlogs)
    weights = weighted = 0.0
    for index in order:
        backlog = backlogs[index]
        befores[index] = max(0.0, weights * backlog.counter - weighted)
        weights += backlog.weight
        weighted += backlog.weight * backlog.counter
    return befores


_Curve = list[tuple[float, float]]
"""(time, service by then), rising in both."""


def _curves(works: Sequence[float], rate: float, minimum_share: float) -> list[_Curve]:
    """What each priority has had by when, until all are done."""
    left = list(works)
    curves: list[_Curve] = [[(0.0, 0.0)] for _ in works]
    now = 0.0
    while present := [priority for priority, work in enumerate(left) if work > 0.0]:
        shares = dict.fromkeys(present[1:], minimum_share * rate)
        shares[present[0]] = rate - sum(shares.values())
        lasts = min(left[priority] / share for priority, share in shares.items() if share > 0.0)
        now += lasts
        for priority, share in shares.items():
            got = share * lasts
            # what is left of the one that ran dry is rounding
            left[priority] = left[priority] - got if left[priority] - got > 1e-9 * works[priority] else 0.0
            curves[priority].append((now, works[priority] - left[priority]))
    return curves


def _when(curve: _Curve, service: float) -> float:
    """When the priority has had so much."""
    for (begin, had), (end, has) in pairwise(curve):
        if service <= has and has > had:
            return begin + (end - begin) * max(0.0, service - had) / (has - had)
    # rounding may put the last one a little beyond the end
    return curve[-1][0]
