"""Whether a failed attempt is tried again, and when. The answer is data; somebody else waits.

Exponential backoff with jitter, in the order of what is known:

1. The provider named a time (`retry-after`, a reset header): it is obeyed and never shortened. A hint that has already
   proved too short once is not trusted alone again: from the second failure on the backoff is a floor under it.
2. It named none: `base * factor^(n-1)`, at most `cap`, lengthened (never shortened) by a random part of itself, so
   that calls which failed together do not come back together. Brooker, "Exponential Backoff And Jitter" (AWS
   Architecture Blog, 2015), prefers jitter over the whole range, down to zero; here the owner's gates already spread
   the calls of one process, and the lower bound keeps a hurt endpoint quiet. A 429 starts from `throttled_base`: the
   limits of providers are mostly by the minute, and all tries together must outlast one.

A try that was the probe of an endpoint that answered before and is down, and certainly did no work, is not one of the
call's own: it is always the first in the queue that probes, and an outage would use up the tries of one call after the
other. After `outage_patience` such tries count as well, so that an outage without end is told to somebody.

What is known to be limited: a backoff knows nothing of the other clients of a provider, and the attempts of a call are
counted whatever their cause. Keeping the sum of all retries small is the work of the breaker and the send gates.
"""

import math
import random

from msgspec import Struct

from agents.errors import CallTimeout, ModelError, Overloaded, Throttled, Unavailable
from orchestrator.policy.checks import require


class RetryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """How patient retries are. Times in seconds.

    `attempts` counts the tries of a call, the first included; moving on at once to an endpoint that has not failed it
    is no new one. `jitter` is the greatest part of a delay that may be added to it (0.5 lengthens by up to half), also
    beyond `cap`. A provider's hint longer than `obey_at_most` ends the call instead of being cut. Probes of an endpoint
    that has been down for at most `outage_patience` are no tries. Raises `InvalidLimits`.
    """

    attempts: int = 6
    base: float = 0.5
    throttled_base: float = 2.0
    factor: float = 2.0
    cap: float = 60.0
    jitter: float = 0.5
    obey_at_most: float = 600.0
    outage_patience: float = 900.0

    def __post_init__(self) -> None:
        require("retry.attempts", self.attempts, at_least=1)
        require("retry.base", self.base, at_most=86_400)
        require("retry.throttled_base", self.throttled_base, at_most=86_400)
        require("retry.factor", self.factor, at_least=1, at_most=100)
        require("retry.cap", self.cap, at_most=86_400)
        require("retry.jitter", self.jitter, at_most=10)
        require("retry.obey_at_most", self.obey_at_most)
        require("retry.outage_patience", self.outage_patience)


def is_own_try(error: ModelError, probed_after: float | None, config: RetryConfig) -> bool:
    """Whether a failed try counts as one of its call's; `probed_after` as in `Breaker.probed_after`."""
    if probed_after is None or not isinstance(error, Unavailable) or error.worked:
        return True
    return probed_after > config.outage_patience


class RetryAt(Struct, frozen=True):
    """Try again, not before `at` on the owner's clock."""

    at: float


class GiveUp(Struct, frozen=True):
    """The call ends with `error`."""

    error: ModelError


def decide(
    error: ModelError,
    *,
    attempt: int,
    streamed: bool,
    now: float,
    deadline: float,
    config: RetryConfig,
    rng: random.Random,
) -> RetryAt | GiveUp:
    """What follows the failure of try number `attempt` (from 1).

    `streamed` says that something already reached a reader who cannot be told to start again. `deadline` is the call's,
    on the same clock as `now`; a try that could only start after it is not worth waiting for.
    """
    if not error.retryable or streamed or attempt >= config.attempts:
        return GiveUp(error)
    hint = _hint(error)
    if hint is None:
        delay = _backoff(error, attempt, config, rng)
    elif hint > config.obey_at_most:
        return GiveUp(_asks_too_long(error, hint, config.obey_at_most))
    elif attempt == 1:
        delay = hint
    else:
        delay = max(hint, _backoff(error, attempt, config, rng))
    if now + delay >= deadline:
        return GiveUp(_too_late(error, delay, deadline - now))
    return RetryAt(now + delay)


def _hint(error: ModelError) -> float | None:
    """The provider's own wait in seconds, at least 0; None if it named none that makes sense."""
    if not isinstance(error, Throttled | Overloaded) or error.retry_after is None or math.isnan(error.retry_after):
        return None
    return max(0.0, error.retry_after)


def _backoff(error: ModelError, attempt: int, config: RetryConfig, rng: random.Random) -> float:
    base = config.throttled_base if isinstance(error, Throttled) else config.base
    # the exponent is bounded because a float power that overflows raises
    delay = min(config.cap, base * config.factor ** min(attempt - 1, 100))
    return delay * (1.0 + config.jitter * rng.random())


def _asks_too_long(error: ModelError, hint: float, allowed: float) -> ModelError:
    message = f"the provider asks to wait {hint:.0f} s, more than the {allowed:.0f} s that are obeyed: {error}"
    if isinstance(error, Throttled):
        longer: ModelError = Throttled(
            message, retry_after=hint, exhausted=error.exhausted, status=error.status, code=error.code
        )
    else:
        longer = Overloaded(
            message,
            retry_after=hint,
            status=error.status,
            code=error.code,
            usage=error.usage,
            partial=error.partial,
        )
    longer.__cause__ = error
    return longer


def _too_late(error: ModelError, delay: float, left: float) -> CallTimeout:
    late = CallTimeout(
        f"the next try would start in {delay:.1f} s, after the call's deadline in {max(0.0, left):.1f} s: {error}",
        code=error.code,
        usage=error.usage,
        partial=error.partial,
    )
    late.__cause__ = error
    return late
