"""The order of calls inside one job: least attained service first, with bounded overtaking.

The runs of a job are agents of very different length, and their lengths are not known. Serving the run that has had
the least so far lets short ones finish soon, without knowing which they are: least attained service, for programs of
many calls called PLAS in Autellix (Luo et al., "Autellix: An Efficient Serving Engine for LLM Agents as General
Programs", 2025). Taken plainly it lets a stream of new runs hold up an old one for ever. So a call's key is

    enqueued + min(overtaking, put_back * attained)

where `attained` is the time in seconds that the run's earlier calls were in flight: with the defaults a call is put
back by half the time that its run has been served, by at most 600 s. The key is fixed when the call is first queued
and kept for its retries, so that the order is a heap and needs no promotion, no levels and no timer. A call enqueued
more than `overtaking` seconds after another never goes before it, whatever their runs had.

Why seconds in flight and not tokens. A slot's time is what other runs wait for, and a call's cost in tokens says little
of it: input dominates the one and output the other. `headrace-bench agents` plays recorded coding-agent sessions on
eight slots. Three workloads of 240 sessions, each against arrival order on the same workload:

    load   mean completion   median   95th percentile of completion   ... of slowdown   longest wait
    0.8         -0.2 %        -3 %               +2 %                      -7 %             338 s
    1.0         -2.2 %        -9 %               +4 %                     -13 %             436 s
    1.3         -8.4 %       -30 %              +17 %                     -18 %             522 s

Plain `las` has the same means, and calls that wait for 12,307 s. Attained service in tokens (10 s for each mean call)
reached at 1.3 a mean of 3,339 s and a slowdown of 2.70, where this rule has 3,133 s and 2.33, and arrival order 3,436 s
and 2.85. A ratio has no unit, so that what suits calls of ten seconds suits calls of one.

Tried in a model of the slots alone, at loads of 0.8 to 1.6: a `put_back` of 0.15 to 1.1 (below 0.35 the median suffers,
above 0.7 the 95th percentile of completion); roots, logarithms and quotients of the attained time (within 2 % of the
line in the mean); the number of calls instead of their time (half the gain); the predicted cost of the call itself,
alone or in addition (worse: a run's first call is large); credit for what a run has waited (that is arrival order
again). One rule was a little better, attained time multiplied by the root of the run's mean call time (1 to 2 % less in
the mean), not enough for a second constant.

Known limits: it delays the largest runs for the good of the rest, as the table says. Where few sessions work off a
backlog, the mean can be above arrival order's, since the long ones end up alone and leave slots idle. Runs are compared
within a job only; what a tenant or job may have as a whole is decided above.
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

    `least_attained` is the rule above; `las` orders by attained time alone, without any bound; `fifo` by arrival.
    `mean` is the moving average of a call's service, 0 until one has ended.
    """

    __slots__ = ("_count", "_overtaking", "_put_back", "key", "mean", "runs")

    def __init__(self, order: Order, overtaking: float, put_back: float, runs: RunTable) -> None:
        self.runs = runs
        self.mean = 0.0
        self._count = 0
        self._overtaking = overtaking
        self._put_back = put_back
        self.key: Callable[[Ticket, float], float] = {
            "least_attained": self._bounded,
            "las": self._plain,
            "fifo": self._arrival,
        }[order]

    def served(self, ticket: Ticket, service: float, seconds: float) -> None:
        """An attempt ended that cost `service` and was in flight for `seconds`; nothing is learned from one that was
        refused before any work.
        """
        if service <= 0.0:
            return
        if self._count < _MEMORY:
            self._count += 1
        self.mean += (service - self.mean) / self._count
        state = ticket.run_state or self.runs.use(ticket.tenant, ticket.job, ticket.run)
        if state is not None:
            state.attained += seconds

    def _attained(self, ticket: Ticket) -> float:
        state = ticket.run_state or self.runs.find(ticket.tenant, ticket.job, ticket.run)
        return 0.0 if state is None else state.attained

    def _bounded(self, ticket: Ticket, now: float) -> float:
        state = ticket.run_state or self.runs.find(ticket.tenant, ticket.job, ticket.run)
        if state is None:
            return now
        delay = self._put_back * state.attained
        return now + (delay if delay < self._overtaking else self._overtaking)

    def _plain(self, ticket: Ticket, now: float) -> float:
        return self._attained(ticket)

    @staticmethod
    def _arrival(ticket: Ticket, now: float) -> float:
        return now
