"""The order of calls inside one job: least attained service first, with bounded overtaking.

The runs of a job are agents of very different length, and their lengths are not known. Serving the run that has had
the least so far lets short ones finish soon, without knowing which they are: least attained service, for programs of
many calls called PLAS in Autellix (Luo et al., "Autellix: An Efficient Serving Engine for LLM Agents as General
Programs", 2025). Taken plainly it lets a stream of new runs hold up an old one for ever. So a call's key is

    enqueued + min(overtaking, seconds_per_mean * attained / mean call service)

in seconds: a call is put back by 10 s for each mean call its run has had, by at most 600 s. The key is fixed when
the call is first queued and kept for its retries, so that the order is a heap and needs no promotion, no levels and no
timer. A call enqueued more than `overtaking` seconds after another never goes before it, whatever their runs had.

Known limits: it delays the largest runs for the good of the rest. Runs are compared within a job only; what a tenant
or job may have as a whole is decided above. The mean is one for the whole backend.
"""

from collections.abc import Callable
from typing import Literal

from orchestrator.policy.run_table import RunTable
from orchestrator.policy.ticket import Ticket

Order = Literal["least_attained", "las", "fifo"]

_MEMORY = 100
"""Calls over which the mean service of a call is averaged."""


class RunOrder:
    """Gives each call its key, and learns from what calls turn out to cost.

    `least_attained` is the rule above; `las` orders by attained service alone, without any bound; `fifo` by arrival.
    `mean` is the moving average of a call's service, 0 until one has ended.
    """

    __slots__ = ("_count", "_overtaking", "_seconds_per_mean", "key", "mean", "runs")

    def __init__(self, order: Order, overtaking: float, seconds_per_mean: float, runs: RunTable) -> None:
        self.runs = runs
        self.mean = 0.0
        self._count = 0
        self._overtaking = overtaking
        self._seconds_per_mean = seconds_per_mean
        self.key: Callable[[Ticket, float], float] = {
            "least_attained": self._bounded,
            "las": self._plain,
            "fifo": self._arrival,
        }[order]

    def served(self, ticket: Ticket, service: float) -> None:
        """An attempt ended that cost `service`; nothing is learned from one that was refused before any work."""
        if service <= 0.0:
            return
        if self._count < _MEMORY:
            self._count += 1
        self.mean += (service - self.mean) / self._count
        state = ticket.run_state or self.runs.use(ticket.tenant, ticket.job, ticket.run)
        if state is not None:
            state.attained += service

    def _attained(self, ticket: Ticket) -> float:
        state = ticket.run_state or self.runs.find(ticket.tenant, ticket.job, ticket.run)
        return 0.0 if state is None else state.attained

    def _bounded(self, ticket: Ticket, now: float) -> float:
        state = ticket.run_state or self.runs.find(ticket.tenant, ticket.job, ticket.run)
        if state is None:
            return now
        attained = state.attained
        if attained <= 0.0:
            return now
        delay = self._seconds_per_mean * attained / self.mean
        return now + (delay if delay < self._overtaking else self._overtaking)

    def _plain(self, ticket: Ticket, now: float) -> float:
        return self._attained(ticket)

    @staticmethod
    def _arrival(ticket: Ticket, now: float) -> float:
        return now
