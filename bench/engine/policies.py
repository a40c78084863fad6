"""The policies of the VTC paper, as queues of an engine that they order themselves.

They are references to hold Headrace against: each stands inside the engine and is asked again before every prefill,
while Headrace stands before it and orders what the engine takes from it. Names are the paper's (Sheng et al., OSDI
2024): FCFS, RPM, LCF, VTC, and VTC with predicted lengths. Service is the paper's: input + 2 * output tokens.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Final

from bench.engine.model import Job

INPUT_WEIGHT: Final = 1.0
OUTPUT_WEIGHT: Final = 2.0
MINUTE: Final = 60.0

Predictor = Callable[[Job], float]
"""How many output tokens a request is expected to have, when it is let in."""


class Fcfs:
    """First come, first served."""

    def __init__(self) -> None:
        self._waiting: deque[Job] = deque()

    def push(self, job: Job, now: float) -> bool:
        self._waiting.append(job)
        return True

    def peek(self) -> Job | None:
        return self._waiting[0] if self._waiting else None

    def take(self, job: Job) -> None:
        self._waiting.popleft()

    def made(self, job: Job) -> None:
        """Nothing is counted."""

    def ended(self, job: Job) -> None:
        """Nothing is counted."""


class Rpm(Fcfs):
    """FCFS for at most so many requests of a client in any minute; what is more is turned away, and not counted."""

    def __init__(self, per_minute: int) -> None:
        super().__init__()
        self._per_minute = per_minute
        self._taken: dict[str, deque[float]] = {}

    def push(self, job: Job, now: float) -> bool:
        taken = self._taken.setdefault(job.client, deque())
        while taken and now - taken[0] > MINUTE:
            taken.popleft()
        if len(taken) >= self._per_minute:
            return False
        taken.append(now)
        return super().push(job, now)


class Counters:
    """The client with the least service goes next.

    With `lift` a client that comes back starts from the least counter of those that wait (VTC); without, from its own
    (LCF). Where nobody waits it keeps its own, as in the artifact: the paper would lift it to that of whoever left the
    queue last. With a `predict` output is charged when a request is let in, and corrected as it is made and at its end.
    """

    def __init__(self, *, lift: bool, predict: Predictor | None = None) -> None:
        self._lift = lift
        self._predict = predict
        self._waiting: dict[str, deque[Job]] = {}
        self._counters: dict[str, float] = {}
        self._charged: dict[int, float] = {}

    def counter(self, client: str) -> float:
        """The client's service so far, with what is predicted of its requests in the engine, and its lifts."""
        return self._counters[client]

    def push(self, job: Job, now: float) -> bool:
        own = self._counters.setdefault(job.client, 0.0)
        if self._lift and self._waiting and job.client not in self._waiting:
            self._counters[job.client] = max(own, min(self._counters[client] for client in self._waiting))
        self._waiting.setdefault(job.client, deque()).append(job)
        return True

    def peek(self) -> Job | None:
        if not self._waiting:
            return None
        return self._waiting[min(self._waiting, key=self._counters.__getitem__)][0]

    def take(self, job: Job) -> None:
        queue = self._waiting[job.client]
        queue.popleft()
        if not queue:
            del self._waiting[job.client]
        self._counters[job.client] += INPUT_WEIGHT * job.input
        if self._predict is not None:
            charge = self._charged[id(job)] = OUTPUT_WEIGHT * max(0.0, self._predict(job))
            self._counters[job.client] += charge

    def made(self, job: Job) -> None:
        charged = self._charged.get(id(job), 0.0)
        if OUTPUT_WEIGHT * job.made > charged:
            more = min(OUTPUT_WEIGHT, OUTPUT_WEIGHT * job.made - charged)
            self._counters[job.client] += more
            if self._predict is not None:
                self._charged[id(job)] = charged + more

    def ended(self, job: Job) -> None:
        charged = self._charged.pop(id(job), None)
        if charged is not None:
            self._counters[job.client] -= max(0.0, charged - OUTPUT_WEIGHT * job.made)


class Predicting(Counters):
    """VTC that predicts a client's outputs by their moving average over five requests, from 0 for the first."""

    _WINDOW: Final = 5

    def __init__(self) -> None:
        super().__init__(lift=True, predict=lambda job: self._averages.get(job.client, 0.0))
        self._averages: dict[str, float] = {}

    def ended(self, job: Job) -> None:
        super().ended(job)
        average = self._averages.get(job.client, 0.0)
        window = self._WINDOW
        self._averages[job.client] = (average * (window - 1) + job.made) / window if average else job.made


def known(job: Job) -> float:
    """The prediction of an oracle."""
    return job.output


def within(share: float, seed: int) -> Predictor:
    """The truth times a factor that is even between 1 - share and 1 + share."""
    rng = random.Random(f"{seed}/within")
    return lambda job: job.output * rng.uniform(1.0 - share, 1.0 + share)
