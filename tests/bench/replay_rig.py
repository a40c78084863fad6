"""A small workload that needs an order, for tests of what is played through an owner."""

import random

from agents.port import Priority
from bench.policies import POLICIES
from bench.replay.report import PolicyReport, report
from bench.replay.run import Replayed, replay
from bench.replay.settings import Provider
from bench.traces.base import TraceCall

PROVIDER = Provider(requests=90, total_tokens=40_000)


def workload(seconds: float = 100.0, *, calls: int = 220, seed: int = 1) -> list[TraceCall]:
    """A busy tenant and two light ones, of all priorities, together more than `PROVIDER` lets through."""
    rng = random.Random(seed)
    return sorted(
        (
            TraceCall(
                at=rng.uniform(0.0, seconds),
                input=rng.randint(20, 400),
                output=rng.randint(5, 100),
                tenant=rng.choice(["busy"] * 8 + ["light", "other"]),
                run=f"run-{rng.randrange(20)}",
                priority=rng.choice(list(Priority)),
            )
            for _ in range(calls)
        ),
        key=lambda call: call.at,
    )


def played(policy: str = "headrace", *, seed: int = 0, provider: Provider = PROVIDER) -> Replayed:
    return replay(workload(), POLICIES[policy], provider, noise=0.1, seed=seed)


def reported(policy: str = "headrace", *, seed: int = 0) -> PolicyReport:
    return report("workload", policy, played(policy, seed=seed))


if __name__ == "__main__":
    import sys

    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode([reported(name) for name in ("headrace", "no-policy")]))
