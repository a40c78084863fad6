"""A circuit breaker per endpoint: after repeated failures it gets single probes instead of the whole load.

The pattern is Nygard's ("Release It!", 2007), with three states. `closed`: calls pass, and consecutive failures are
counted. `open`: nothing passes until a time that doubles with each failed probe. `half_open`: that time has come, and
exactly one call passes as a probe; its success closes the breaker, its failure opens it for longer.

Only `Unavailable` and its kinds (connect, silence, truncated, 5xx) are evidence of a broken endpoint. A 429, a 529 or a
400 comes from an endpoint that answers, and a caller who leaves says nothing. A refusal that any request would get
there (a wrong key, no quota) opens the breaker at once: the next call would only be refused as well.

The verdicts of calls that were sent before the breaker opened are ignored until it is closed again: they speak of the
time before, and a hundred calls that die together must count as one opening.

Known limit: consecutive failures are counted, not a rate, so an endpoint that fails every second call stays closed;
retries carry that, and a count needs no window.
"""

import math
from typing import Literal

from msgspec import Struct

from agents.errors import CallerGone, CallTimeout, ModelError, OwnerClosed, QueueTimeout, Refused, Unavailable
from orchestrator.policy.checks import require

BreakerState = Literal["closed", "open", "half_open"]

BRIEF = 160
"""Characters of what a broken endpoint is said to fail with."""


class BreakerConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """When it opens and for how long. Times in seconds.

    `failures` in a row open it for `wait`, doubled with each failed probe up to `wait_at_most`; a refusal that is the
    endpoint's fault opens it for `fault_wait`. `failures = 0` switches the breaker off. Raises `InvalidLimits`.
    """

    failures: int = 5
    wait: float = 1.0
    wait_at_most: float = 60.0
    fault_wait: float = 60.0

    def __post_init__(self) -> None:
        require("breaker.failures", self.failures)
        require("breaker.wait", self.wait, above=True, at_most=86_400)
        require("breaker.wait_at_most", self.wait_at_most, at_least=self.wait, at_most=86_400)
        require("breaker.fault_wait", self.fault_wait, above=True, at_most=86_400)


class Breaker:
    """The breaker of one endpoint. Times are on the owner's clock.

    Whoever dispatches asks `allows`, says `started`, and then exactly one of `success`, `failure`, `undecided`.
    `fault` is the refusal that holds it open (a wrong key, no quota), None if it is closed or open for another reason:
    where every endpoint has one, waiting is of no use. `failing_with` says, by kind and message, what made it open,
    or open for longer, last; empty while it is closed.
    """

    __slots__ = (
        "_answered",
        "_config",
        "_consecutive",
        "_down_since",
        "_opened",
        "_probe_sent",
        "_until",
        "_wait",
        "failing_with",
        "fault",
    )

    def __init__(self, config: BreakerConfig | None = None) -> None:
        self._config = config or BreakerConfig()
        self._answered = False
        self._consecutive = 0
        self._opened: float | None = None
        self._down_since = 0.0
        self._until = 0.0
        self._wait = 0.0
        self._probe_sent: float | None = None
        self.fault: Refused | None = None
        self.failing_with = ""

    def __repr__(self) -> str:
        if self._opened is None:
            return f"<Breaker closed failures={self._consecutive}>"
        probe = "out" if self._probe_sent is not None else f"at {self._until:.3f}"
        return f"<Breaker open since {self._opened:.3f} probe {probe}>"

    def state(self, now: float) -> BreakerState:
        """Where it stands at `now`."""
        if self._opened is None:
            return "closed"
        return "half_open" if self._probe_sent is not None or now >= self._until else "open"

    @property
    def closed(self) -> bool:
        """Whether all calls pass."""
        return self._opened is None

    def allows(self, now: float) -> bool:
        """Whether a call may be sent now."""
        return self._opened is None or (self._probe_sent is None and now >= self._until)

    def until(self) -> float:
        """When a call may be sent: 0 while closed, infinity while a probe is out (its verdict decides)."""
        if self._opened is None:
            return 0.0
        return math.inf if self._probe_sent is not None else self._until

    def probed_after(self, *, sent: float) -> float | None:
        """If the call sent at `sent` is the probe that is out: how long the endpoint was down by then, in seconds.

        None for every other call, and where the endpoint has never answered: that one may well be the wrong address.
        """
        return sent - self._down_since if self._answered and self._probe_sent == sent else None

    def started(self, now: float) -> None:
        """A call is sent. While the breaker is not closed this call is the probe."""
        if self._opened is not None:
            self._probe_sent = now

    def success(self, now: float, *, sent: float | None = None) -> None:
        """A call sent at `sent` (default: `now`) got an answer."""
        self._answered = True
        if self._counts(now if sent is None else sent):
            self._consecutive = 0
            self._opened = None
            self._probe_sent = None
            self._wait = 0.0
            self.fault = None
            self.failing_with = ""

    def failure(self, error: ModelError, now: float, *, sent: float | None = None) -> None:
        """A call sent at `sent` (default: `now`) ended with `error`, whatever its kind."""
        sent = now if sent is None else sent
        if isinstance(error, CallerGone | CallTimeout | OwnerClosed | QueueTimeout):
            self.undecided(sent=sent)
        elif isinstance(error, Refused) and error.endpoint_fault:
            if self._config.failures and self._counts(sent):
                self._open(error, now, self._config.fault_wait)
                self.fault = error
        elif not isinstance(error, Unavailable):
            self.success(now, sent=sent)
        elif self._counts(sent):
            self._consecutive += 1
            if self._opened is not None or 0 < self._config.failures <= self._consecutive:
                self._open(error, now, self._config.wait)

    def undecided(self, *, sent: float) -> None:
        """A call sent at `sent` ended and says nothing about the endpoint; a probe's place is free again."""
        if self._probe_sent is not None and sent >= self._probe_sent:
            self._probe_sent = None

    def _counts(self, sent: float) -> bool:
        """Whether a call's verdict may move the state: any while closed, only the probe's otherwise."""
        return self._opened is None or (self._probe_sent is not None and sent >= self._probe_sent)

    def _open(self, error: ModelError, now: float, wait: float) -> None:
        self._wait = max(wait, min(2 * self._wait, self._config.wait_at_most))
        if self._opened is None:
            self._down_since = now
        self._opened = now
        self._until = now + self._wait
        self._probe_sent = None
        self._consecutive = 0
        self.fault = None
        self.failing_with = _briefly(error)


def _briefly(error: ModelError) -> str:
    """Kind and message on one line that fits a table."""
    text = " ".join(f"{error.kind}: {error}".split())
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 1]}…"
