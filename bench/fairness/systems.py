"""What is compared: the paper's policies inside the engine, and Headrace's owner, unmodified, in front of it."""

import random
import re
from collections.abc import Callable, Hashable, Sequence
from typing import Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from bench.engine.backend import EngineBackend
from bench.engine.model import A10G
from bench.engine.policies import Counters, Fcfs, Predicting, Rpm, known, within
from bench.engine.simulate import Policy, Request, simulate
from bench.fairness.metric import Outcome
from bench.play import Recorder, play
from bench.traces.base import TraceCall
from bench.virtual import in_virtual_time
from orchestrator.attempt import Clocks
from orchestrator.backend_choice import engine_room
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.dispatch import DispatchConfig
from orchestrator.policy.estimate import Estimator
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec

HEADRACE: Final = "headrace"

_PATIENT: Final = 1e6
"""Seconds: no call of a simulation hangs."""


class Result(Struct, frozen=True):
    """One replicate: every request, and how long the engine took for them in seconds."""

    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Input and output tokens of what was served, over the whole time."""
        return sum(outcome.input + outcome.output for outcome in self.outcomes if outcome.served) / self.seconds


class Tuning(Struct, frozen=True, kw_only=True):
    """What Headrace is told of the engine. The defaults are those of a local engine with this KV cache.

    `error` spoils its predictions: each is multiplied by a factor that is even between 1 - error and 1 + error. Where
    all lengths are alike it learns them, so that is what the paper calls lengths known within so much.
    """

    slots: int = 64
    in_flight: InFlightSpec = engine_room(A10G.kv_tokens)
    headroom: HeadroomConfig | None = HeadroomConfig()
    dispatch: DispatchConfig = DispatchConfig()
    every: int = 4
    error: float = 0.0


INSIDE: Final[dict[str, Callable[[int], Policy]]] = {
    "fcfs": lambda seed: Fcfs(),
    "lcf": lambda seed: Counters(lift=False),
    "rpm5": lambda seed: Rpm(5),
    "rpm20": lambda seed: Rpm(20),
    "rpm30": lambda seed: Rpm(30),
    "vtc": lambda seed: Counters(lift=True),
    "vtc-predicted": lambda seed: Predicting(),
    "vtc-within-50": lambda seed: Counters(lift=True, predict=within(0.5, seed)),
    "vtc-known": lambda seed: Counters(lift=True, predict=known),
}
"""The paper's policies by name, each made from a seed."""

WITHIN: Final = f"{HEADRACE}-within-50"
POLICIES: Final = (*INSIDE, HEADRACE, WITHIN)

_FILL: Final = re.compile(rf"{HEADRACE}@(\d+(?:\.\d+)?)")


def is_policy(name: str) -> bool:
    """Whether `run` knows it: one of `POLICIES`, or `headrace@FILL`, which has FILL tokens in flight per token of the
    KV cache instead of the default.
    """
    return name in POLICIES or _FILL.fullmatch(name) is not None


def run(policy: str, calls: Sequence[TraceCall], seed: int = 0) -> Result:
    """The calls under the policy of that name."""
    if policy in INSIDE:
        served = simulate(calls, INSIDE[policy](seed))
        return Result([_outcome(request) for request in served.requests], served.seconds)
    tuning = Tuning()
    fill = _FILL.fullmatch(policy)
    if fill is not None:
        tokens = max(1.0, float(fill[1]) * A10G.kv_tokens)
        tuning = replace(tuning, in_flight=replace(tuning.in_flight, tokens=tokens))
    elif policy == WITHIN:
        tuning = replace(tuning, error=0.5)
    return run_headrace(calls, tuning, seed)


def run_headrace(calls: Sequence[TraceCall], tuning: Tuning, seed: int = 0) -> Result:
    """The calls through an owner that has the engine as its only endpoint, in virtual time."""
    return in_virtual_time(lambda: _through_owner(calls, tuning, seed), seed=seed)


async def _through_owner(calls: Sequence[TraceCall], tuning: Tuning, seed: int) -> Result:
    backend, recorder = EngineBackend(every=tuning.every), Recorder()
    endpoint = Endpoint(
        backend.name,
        backend,
        in_flight=tuning.in_flight,
        concurrency=ConcurrencyConfig(fixed=tuning.slots),
        headroom=tuning.headroom,
    )
    clocks = Clocks(connect=_PATIENT, silence=_PATIENT, whole=_PATIENT)
    owner = Owner(OwnerConfig(backend.name, tuning.dispatch, clocks), [endpoint], hooks=[recorder])
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(backend.work)
        await nursery.start(owner.run)
        if tuning.error:
            _spoil(owner.policy.estimator, tuning.error, random.Random(f"{seed}/error"))
        await play(calls, owner, recorder, seed=seed)
        seconds = trio.current_time() - began
        nursery.cancel_scope.cancel()
    outcomes = []
    for played in recorder.played:
        assert played.first_token is not None, played
        call = played.call
        outcomes.append(
            Outcome(
                client=call.tenant,
                at=played.arrived - began,
                input=call.input,
                output=call.output,
                first=played.first_token - began,
                end=played.ended - began,
            )
        )
    return Result(outcomes, seconds)


def _spoil(estimator: Estimator, error: float, rng: random.Random) -> None:
    right = estimator.output

    def wrong(key: Hashable, max_tokens: float) -> float:
        return min(right(key, max_tokens) * rng.uniform(1.0 - error, 1.0 + error), max_tokens)

    estimator.output = wrong  # type: ignore[method-assign]


def _outcome(request: Request) -> Outcome:
    return Outcome(
        client=request.client,
        at=request.at,
        input=request.input,
        output=request.output,
        first=request.first,
        end=request.end,
    )
