"""When a job is hopeless: it stops with one message instead of failing a hundred thousand times the same way.

The rules look at how runs end, after their retries:

- A refusal that any request would get (a wrong key, no quota) stops the job at once.
- The provider's failures in a row (unreachable, broken off, overloaded). While nothing ever succeeded: 3 tries in vain,
  which one run's retries may make up. Afterwards one run per worker and 3 more, since one outage fails every live run
  together.
- The same refusal in a row (an unknown model, a field it does not take): 5 while nothing ever succeeded. Afterwards
  refusals are about single inputs and stop nothing.
"""

import math

from agents.errors import ModelError, Refused

UNAVAILABLE_IN_A_ROW = 3
REFUSED_IN_A_ROW = 5


class Fuse:
    """Counts endings; `failed` returns why the job must stop, or None. Pure state, no clock.

    `attempts` is how many tries a run's call had when it ends in a failure of the provider.
    """

    def __init__(self, workers: int, attempts: int = 1) -> None:
        self._workers = workers
        self._first = math.ceil(UNAVAILABLE_IN_A_ROW / attempts)
        self._succeeded = False
        self._unavailable = 0
        self._refused = 0
        self._refusal: tuple[int | None, str | None] = (None, None)
        self._provider_failure = ""
        self._other_failure = False

    def __repr__(self) -> str:
        return f"<Fuse {self._unavailable} unavailable, {self._refused} refused in a row>"

    @property
    def hopeless(self) -> str:
        """Why nothing could be done, if no call was ever answered and the provider alone is to blame; else empty."""
        return "" if self._succeeded or self._other_failure else self._provider_failure

    def succeeded(self) -> None:
        """A model call was answered."""
        self._succeeded = True
        self._unavailable = self._refused = 0

    def failed(self, error: ModelError) -> str | None:
        """A model call ended in `error`, retries included. Returns the message to stop with, or None."""
        if isinstance(error, Refused):
            return self._note_refusal(error)
        self._refused = 0
        if error.blame != "provider":
            self._other_failure = True
            return None
        self._unavailable += 1
        self._provider_failure = f"the backend cannot be used: {error.message}"
        allowed = self._workers + UNAVAILABLE_IN_A_ROW if self._succeeded else self._first
        if self._unavailable < allowed:
            return None
        if self._unavailable == 1:
            return self._provider_failure
        return f"{self._provider_failure} ({self._unavailable} runs in a row ended so)"

    def _note_refusal(self, error: Refused) -> str | None:
        if error.endpoint_fault:
            self._provider_failure = f"the backend refuses every request: {error.message}"
            return self._provider_failure
        refusal = (error.status, error.code)
        self._refused = self._refused + 1 if refusal == self._refusal else 1
        self._refusal = refusal
        if self._succeeded or self._refused < REFUSED_IN_A_ROW:
            self._other_failure = True
            return None
        self._other_failure = False
        self._provider_failure = f"the backend refuses the requests as they are: {error.message}"
        return f"{self._provider_failure} ({self._refused} in a row)"
