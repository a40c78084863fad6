"""What the systems are given: a provider with limits, two jobs of different size, and how their clients behave.

All of it crosses process borders as JSON. Times are seconds, amounts tokens.
"""

import random
from typing import Final, Literal

from msgspec import Struct

from orchestrator.backends.simulated.config import Algorithm, Counted, SimConfig, SimLatency, SimLength, SimLimit

SMALL: Final = "small"
LARGE: Final = "large"

CHARACTERS_PER_TOKEN: Final = 4
"""What a plain client takes a token for. The provider counts otherwise, as real ones do."""

_TEXT: Final = (
    "a river takes its time and so does the mill below it where the grain that came by boat from three valleys "
    "is weighed again before anybody signs for what the wheel has ground since early morning"
)


class Limits(Struct, frozen=True, kw_only=True):
    """What the provider allows a minute, and how it counts. `window` is the shorter span, in seconds, over which it
    enforces the same rates as well; None: a whole minute's amount may come at once.
    """

    rpm: float = 600.0
    tpm: float = 60_000.0
    algorithm: Algorithm = "sliding_window"
    counted: Counted = "reconciled"
    window: float | None = 10.0
    seed: int = 0

    def provider(self) -> SimConfig:
        """The provider that enforces them. Raises `InvalidLimits`."""
        requests = SimLimit(kind="requests", amount=self.rpm, algorithm=self.algorithm, window=self.window)
        tokens = SimLimit(
            kind="total_tokens", amount=self.tpm, algorithm=self.algorithm, counted=self.counted, window=self.window
        )
        return SimConfig(
            seed=self.seed,
            latency=SimLatency(first_token=0.25, output_rate=60.0),
            length=SimLength(tokens=60.0),
            limits=(requests, tokens),
        )


class Item(Struct, frozen=True):
    """One call of a job."""

    job: str
    prompt: str
    max_tokens: int

    @property
    def estimate(self) -> float:
        """The most it can come to, as far as a client can tell before it asks."""
        return len(self.prompt) / CHARACTERS_PER_TOKEN + self.max_tokens


Manner = Literal["bucket", "retry"]


class Plan(Struct, frozen=True, kw_only=True):
    """What one client process does: all its calls, from one moment on.

    `bucket` paces requests and tokens at `share` of the limits, never more than `burst` seconds' worth at once, and
    repeats what is refused nevertheless; `retry` only repeats. Each job has at most `connections` calls open, None: all
    at once. A pause before a repetition is what the server asked for and up to `backoff * 2 ** n` more, at most
    `longest`. `headers` go with each job's calls. The client ends `within` seconds, done or not.
    """

    url: str
    manner: Manner
    items: list[Item]
    connections: int | None
    headers: dict[str, dict[str, str]] = {}
    rpm: float = 0.0
    tpm: float = 0.0
    share: float = 1.0
    burst: float = 1.0
    backoff: float = 0.5
    longest: float = 8.0
    within: float = 150.0
    seed: int = 0


class Answered(Struct, frozen=True):
    """A call that was answered `at` seconds after the start, with the tokens that the provider reports."""

    job: str
    at: float
    tokens: int


class Told(Struct):
    """What a client process says at its end. `refused` are the 429s that it saw, `errors` other failed attempts.

    `given_up` are calls with an answer that no repetition changes; what `within` cut off is in none of these.
    """

    answered: list[Answered] = []
    refused: int = 0
    errors: int = 0
    given_up: int = 0


def jobs(small: int, large: int, *, seed: int = 0) -> list[Item]:
    """Two jobs with calls of the same kind, of 40 to 300 words, in turns until the small one has no more."""
    rng = random.Random(f"{seed}/peers")
    known = _TEXT.split()

    def item(job: str, number: int) -> Item:
        words = " ".join(rng.choices(known, k=rng.randint(40, 300)))
        return Item(job, f"Item {number} of the {job} job: {words}", 128)

    few, many = [item(SMALL, n) for n in range(small)], [item(LARGE, n) for n in range(large)]
    common = min(small, large)
    turns = [one for pair in zip(few[:common], many[:common], strict=True) for one in pair]
    return turns + few[common:] + many[common:]
