"""How much of a limit is used, and how many 429s that takes, while more is asked for than it lets through.

Each case keeps one limit under twice its load for some minutes, from calls of at most 1 % of the limit, and counts what
the provider counted after a warm-up. What is asked of it:

- no 429;
- amounts known exactly: at least 98 % of the limit used;
- amounts estimated: at least 98 %, less half the mean call's share, less the margin that keeps the estimates' errors
  from adding up to a 429 (`4 * cv * sqrt(sum of e^2)` over the calls whose input is not known yet);
- output counted as it is produced: at least 95 %, and here one 429 in 1,000 calls is let pass: a call on its way while
  the output of others fills the window is refused, and nobody could have known.

Known limits: where a provider enforces a minute's limit by shorter windows as well, and requests take varying times to
it, no sender can have both; the last cases are such, and are measured without a target.
"""

import math
import random
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bench.policies import POLICIES
from bench.recorded import Speed
from bench.replay.run import replay
from bench.replay.settings import Provider
from bench.traces.base import TraceCall
from orchestrator.backends.simulated.config import Algorithm, Counted

WARM_UP: Final = 120.0


class Case(Struct, frozen=True, kw_only=True):
    """One limit under load. `target` is the least use, None where there is none, `refusals` the greatest share
    of calls refused.
    """

    name: str
    provider: Provider
    limit: float
    sizes: tuple[int, int] = (50, 300)
    outputs: tuple[int, int] = (20, 200)
    noise: float = 0.0
    target: float | None = 0.98
    refusals: float = 0.0
    per_call: Callable[[TraceCall], float] = lambda call: call.input + call.output


class Reached(Struct, frozen=True, kw_only=True):
    """What came of a case. `use` is the limit's share; `met` is None where there is no target."""

    case: str
    use: float
    refused_429: int
    calls: int
    target: float | None
    met: bool | None


_TOKENS: Final = 50_000.0
_FAST: Final = Speed(first_token=0.3, output_rate=80.0)


def _tokens(name: str, *, counted: Counted = "reconciled", algorithm: Algorithm = "sliding_window") -> Case:
    provider = Provider(total_tokens=_TOKENS, counted=counted, algorithm=algorithm, speed=_FAST)
    return Case(name=name, provider=provider, limit=_TOKENS)


def _estimated() -> Case:
    """Bytes say the tokens to one in ten."""
    noise, mean, unsettled = 0.1, 175.0, _TOKENS / 285.0 / 60.0 * 0.3
    margin = 4.0 * noise * math.sqrt(max(1.0, unsettled) + 1.0) * mean * 1.1
    target = 0.98 - (0.5 * 285.0 + margin) / _TOKENS
    return Case(
        name="tokens, reconciled, input estimated to 10 %",
        provider=Provider(total_tokens=_TOKENS, speed=_FAST),
        limit=_TOKENS,
        noise=noise,
        target=target,
    )


CASES: Final = (
    Case(
        name="requests",
        provider=Provider(requests=240, speed=_FAST),
        limit=240.0,
        per_call=lambda call: 1.0,
    ),
    _tokens("tokens, reconciled, exact"),
    _tokens("tokens, counted at admission, exact", counted="at_admission"),
    _tokens("tokens, fixed windows, exact", algorithm="fixed_window"),
    _tokens("tokens, a bucket, exact", algorithm="token_bucket"),
    _estimated(),
    Case(
        name="output counted as produced",
        provider=Provider(output_tokens=20_000, counted="as_produced", speed=_FAST),
        limit=20_000.0,
        outputs=(20, 200),
        target=0.95,
        refusals=0.001,
        per_call=lambda call: float(call.output),
    ),
    Case(
        name="tokens, also by windows of 10 s of which the owner is told",
        provider=Provider(total_tokens=_TOKENS, window=10.0, window_told=True, speed=_FAST),
        limit=_TOKENS,
        target=None,
    ),
    Case(
        name="tokens, also by windows of 10 s of which it is not told",
        provider=Provider(total_tokens=_TOKENS, window=10.0, speed=_FAST),
        limit=_TOKENS,
        target=None,
    ),
)


def reach(case: Case, *, minutes: float = 10.0, seed: int = 0) -> Reached:
    """Plays one case, and says what it reached."""
    calls = _load(case, minutes * 60.0, seed)
    result = replay(calls, POLICIES["headrace"], case.provider, noise=case.noise, seed=seed, until=minutes * 60.0)
    (limit,) = result.backend.enforcer.limits
    use = limit.utilisation(WARM_UP, minutes * 60.0)
    refused = result.backend.refused
    met = None if case.target is None else use >= case.target and refused <= case.refusals * result.backend.admitted
    return Reached(
        case=case.name,
        use=round(use, 4),
        refused_429=refused,
        calls=result.backend.admitted,
        target=None if case.target is None else round(case.target, 4),
        met=met,
    )


def _load(case: Case, seconds: float, seed: int) -> list[TraceCall]:
    """Twice what the limit lets through, at random times, from five tenants."""
    rng = random.Random(f"{seed}/{case.name}")
    calls, at, asked = [], 0.0, 0.0
    while at < seconds:
        call = TraceCall(
            at=at,
            input=rng.randint(*case.sizes),
            output=rng.randint(*case.outputs),
            tenant=f"tenant-{rng.randrange(5)}",
        )
        calls.append(call)
        asked += case.per_call(call)
        at = asked / (2.0 * case.limit) * 60.0 + rng.uniform(0.0, 1.0)
    return sorted(calls, key=lambda call: call.at)
