"""The policies of the VTC paper, as queues of an engine that they order themselves.

They are references to hold Headrace against: each stands inside the engine and is asked again before every prefill,
while Headrace stands before it and orders what the engine takes from it. Names are the paper's (Sheng et al., OSDI
2024): FCFS, RPM, LCF, VTC, and VTC with predicted lengths. Service is the paper's: input + 2 * output tokens.
"""

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
    """FCFS for at most so many requests of a client in each minute; what is more is turned away."""

    def __init__(self, per_minute: int) -> None:
        super().__init__()
        self._per_minute = per_minute
        self._minutes: dict[str, tuple[int, int]] = {}

    def push(self, job: Job, now: float) -> bool:
        minute = int(now // MINUTE)
        began, count = self._minutes.get(job.client, (minute, 0))
        if began != minute:
            count = 0
        if count >= self._per_minute:
            return False
        self._minutes[job.client] = minute, count + 1
        return super().push(job, now)


class Counters:
    """The client with the least service goes next.

    With `lift` a client that comes back starts from the least counter of those that wait, or that of whoever left the
    queue last (the paper's VTC); without, from its own (LCF). With a `predict` output is charged when a request is let
    in, and corrected as it is made and when it has ended.
    """

    def __init__(self, *, lift: bool, predict: Predictor | None = None) -> None:
        self._lift = lift
        self._predict = predict
        self._waiting: dict[str, deque[Job]] = {}
        self._counters: dict[str, float] = {}
        self._charged: dict[int, float] = {}
        self._last = ""

    def push(self, job: Job, now: float) -> bool:
        own = self._counters.setdefault(job.client, 0.0)
        if self._lift and job.client not in self._waiting:
            if self._waiting:
                self._counters[job.client] = max(own, min(self._counters[client] for client in self._waiting))
            elif self._last:
                self._counters[job.client] = max(own, self._counters[self._last])
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
            self._last = job.client
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
