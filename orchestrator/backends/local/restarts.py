"""When a child process that crashed is started again: pure, with `now` passed in."""

import random
from collections import deque

from msgspec import Struct


class RestartPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a crashed server is started again. Times are in seconds.

    The wait doubles with each crash that lies within `window`, from `first_delay` to `longest_delay`, plus up to
    `jitter` of itself. At `give_up_after` crashes within `window` no further start is tried.
    """

    first_delay: float = 0.5
    longest_delay: float = 15.0
    jitter: float = 0.25
    window: float = 60.0
    give_up_after: int = 5


class Restarts:
    """The crashes of one server so far, judged by a policy. A plain function of its state and `now`."""

    def __init__(self, policy: RestartPolicy, rng: random.Random) -> None:
        self._policy = policy
        self._rng = rng
        self._crashes: deque[float] = deque(maxlen=policy.give_up_after)
        self.total = 0

    def crashed(self, now: float) -> float | None:
        """Counts a crash at `now`; seconds to wait before the next start, None to give up."""
        policy = self._policy
        self.total += 1
        self._crashes.append(now)
        recent = sum(1 for at in self._crashes if at > now - policy.window)
        if recent >= policy.give_up_after:
            return None
        delay = min(policy.longest_delay, policy.first_delay * 2.0 ** (recent - 1))
        return delay * (1 + policy.jitter * self._rng.random())
