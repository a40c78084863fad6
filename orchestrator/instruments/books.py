"""Plain counters that cost little to write, and are turned into metrics only when somebody reads them.

A hook sees every transition of every call, tens of thousands a second; a scrape comes every few seconds. So writing is
a dictionary look-up and an addition, without the lock and the label handling of a metrics library, and all the rest is
done on reading. Everything is written from one thread.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from agents.port import Priority

WAIT_BOUNDS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
DURATION_BOUNDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
FIRST_TOKEN_BOUNDS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 60.0)
TURN_BOUNDS = (0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
APPEND_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

OTHER = "other"
"""The label of every tenant beyond the cap."""

TENANT_LABELS = 50


class Distribution:
    """How often a value fell below each bound, and the sum of all; values in seconds."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def clear(self) -> None:
        self._counts = [0] * len(self._counts)
        self.total = 0.0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def buckets(self) -> list[tuple[float, int]]:
        """Each bound with the number of values at or below it; infinity last."""
        return list(zip((*self._bounds, float("inf")), accumulate(self._counts), strict=True))


class TenantLabels:
    """Keeps the number of tenants in labels bounded: the first `cap` keep their names, the others share one.

    `known` tenants, those of the configuration, have their places from the start.
    """

    __slots__ = ("_cap", "_names")

    def __init__(self, cap: int = TENANT_LABELS, known: Iterable[str] = ()) -> None:
        self._cap = cap
        self._names: dict[str, str] = {}
        for tenant in known:
            self.label(tenant)

    def label(self, tenant: str) -> str:
        name = self._names.get(tenant)
        if name is not None:
            return name
        if len(self._names) >= self._cap:
            return OTHER
        self._names[tenant] = tenant
        return tenant

    def __len__(self) -> int:
        return len(self._names)


class TenantBook:
    """What is counted per backend and tenant. `outcomes` is by priority and outcome."""

    __slots__ = ("micro_dollars", "outcomes", "retries", "tokens", "waits")

    def __init__(self) -> None:
        self.waits = [Distribution(WAIT_BOUNDS) for _ in Priority]
        self.outcomes: Counter[tuple[Priority, str]] = Counter()
        self.retries: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.micro_dollars = 0


COMMON_ERRORS = ("throttled", "overloaded", "unavailable")
"""Are counted from 0, so that the first of them is a rise; of all others the first only makes a series."""


class EndpointBook:
    """What is counted per backend and endpoint. `unreported` are answers without a full account of their tokens."""

    __slots__ = ("errors", "first_token", "unreported")

    def __init__(self) -> None:
        self.first_token = Distribution(FIRST_TOKEN_BOUNDS)
        self.errors: Counter[str] = Counter(dict.fromkeys(COMMON_ERRORS, 0))
        self.unreported = 0


class BackendBook:
    """What is counted per backend: whole calls, by priority."""

    __slots__ = ("durations",)

    def __init__(self) -> None:
        self.durations = [Distribution(DURATION_BOUNDS) for _ in Priority]
