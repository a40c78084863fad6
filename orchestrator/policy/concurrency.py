"""How many calls may be in flight at one endpoint, found by trying: additive-increase, multiplicative-decrease.

The idea is TCP's (Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance", 1989):
grow slowly while all is well, back off by a share when told that it was too much. What differs for model calls:

- A round is `limit` successes, since there is no round-trip time to count by. The limit doubles per round until the
  first 429 and then grows by 5 % per round.
- It grows only if the calls in flight peaked at 80 % of it or more: a limit that was never tried proves nothing.
- A 429 that names an exhausted request or token limit is no evidence of too much concurrency: that limit is set to
  empty and gates, without a cut. Any other 429 cuts to `0.8 * min(limit, in flight + 1)`. 429s of calls sent before the
  last cut are ignored, so that a burst of them is one cut.
- 5xx, 529 and slow answers are no evidence either: the length of the answers dominates latency.
- `retry-after` moves the send gate elsewhere, never the cut.

Known limits: it finds only a limit that answers 429. A local server that queues without bound never says so; there the
bound is configured (`fixed`, or tokens in flight).
"""

from collections import deque

from msgspec import Struct

from agents.errors import InvalidLimits, ModelError, Throttled
from orchestrator.policy.checks import require

DOUBLING = 2.0
GROWTH = 1.05
CUT = 0.8
TRIED = 0.8

CUTS_KEPT = 5
"""Cuts that are remembered one by one, for people."""


class ConcurrencyConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds in calls in flight. `fixed` switches the search off. Raises `InvalidLimits`."""

    initial: int = 8
    at_least: int = 1
    at_most: int = 1024
    fixed: int | None = None

    def __post_init__(self) -> None:
        require("concurrency.at_least", self.at_least, at_least=1)
        if self.at_most < self.at_least:
            raise InvalidLimits("concurrency.at_most", f"must be at least at_least ({self.at_least})")
        require("concurrency.initial", self.initial, at_least=self.at_least, at_most=self.at_most)
        if self.fixed is not None:
            require("concurrency.fixed", self.fixed, at_least=1)


class Cut(Struct, frozen=True):
    """The limit was cut at this time on the owner's clock, from and to so many calls in flight."""

    at: float
    before: int
    after: int


class Concurrency:
    """The adaptive limit of one endpoint. Every `started` is followed by exactly one `ended`."""

    __slots__ = (
        "_config",
        "_last_cut",
        "_limit",
        "_peak",
        "_slow_start",
        "_successes",
        "cuts",
        "in_flight",
        "last_cuts",
        "limit",
    )

    def __init__(self, config: ConcurrencyConfig | None = None) -> None:
        self._config = config or ConcurrencyConfig()
        self._limit = float(self._config.fixed or self._config.initial)
        self._slow_start = True
        self._successes = 0
        self._peak = 0
        self._last_cut = float("-inf")
        self.in_flight = 0
        self.limit = int(self._limit)
        """Calls that may be in flight now."""
        self.cuts = 0
        self.last_cuts: deque[Cut] = deque(maxlen=CUTS_KEPT)
        """The latest cuts, the newest last."""

    def __repr__(self) -> str:
        kind = "fixed" if self._config.fixed else "doubling" if self._slow_start else "steady"
        return f"<Concurrency {self.in_flight}/{self.limit} {kind} cuts={self.cuts}>"

    def configure(self, config: ConcurrencyConfig) -> None:
        """Puts other bounds in force; what was found by trying is kept, as far as they allow it."""
        if config == self._config:
            return
        searching = self._config.fixed is None and config.fixed is None
        found = self._limit if searching else float(config.fixed or config.initial)
        self._config = config
        self._limit = found if config.fixed else min(max(found, config.at_least), config.at_most)
        self._new_round()

    def started(self) -> None:
        """A call is sent."""
        self.in_flight += 1
        self._peak = max(self._peak, self.in_flight)

    def ended(self, now: float, *, sent: float, error: ModelError | None = None) -> None:
        """The call sent at `sent` ended: with an answer, or with `error`. Times on the owner's clock."""
        self.in_flight -= 1
        if self._config.fixed is not None:
            return
        if error is None:
            self._succeeded()
        elif isinstance(error, Throttled):
            self._throttled(error, now, sent)

    def _succeeded(self) -> None:
        self._successes += 1
        if self._successes < self.limit:
            return
        if self._peak >= TRIED * self.limit:
            grown = self._limit * (DOUBLING if self._slow_start else GROWTH)
            self._limit = min(grown, float(self._config.at_most))
        self._new_round()

    def _throttled(self, error: Throttled, now: float, sent: float) -> None:
        self._slow_start = False
        # a call sent at the very moment of the cut may have been sent just before it
        if error.exhausted or sent <= self._last_cut:
            return
        before = self.limit
        self._limit = max(CUT * min(self.limit, self.in_flight + 1), float(self._config.at_least))
        self._last_cut = now
        self.cuts += 1
        self._new_round()
        self.last_cuts.append(Cut(now, before, self.limit))

    def _new_round(self) -> None:
        self.limit = int(self._limit)
        self._successes = 0
        self._peak = self.in_flight
