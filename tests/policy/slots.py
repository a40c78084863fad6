"""A server with a few slots behind a fair queue, in simulated time: no tasks, just a heap of events.

A call holds a slot for as many seconds as it costs in service units. It is charged its prediction at dispatch and
settled at its end, as the real dispatcher does.
"""

import heapq
from collections.abc import Callable
from functools import partial
from typing import Any

from agents.port import Priority
from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.ticket import Ticket

Then = Callable[[float, Ticket], None]


class Slots:
    """The server. `started` and `ended` list (time, ticket); `served` sums the service of ended calls by tenant."""

    def __init__(self, config: FairConfig, slots: int = 1) -> None:
        self.queue = FairQueue(config)
        self.free = slots
        self.now = 0.0
        self.started: list[tuple[float, Ticket]] = []
        self.ended: list[tuple[float, Ticket]] = []
        self.served: dict[str, float] = {}
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._seq = 0
        self._cost: dict[int, tuple[float, float, Then | None]] = {}

    def at(self, when: float, action: Callable[[], object]) -> None:
        """Runs `action` at a time."""
        self._seq += 1
        heapq.heappush(self._events, (when, self._seq, action))

    def submit(
        self,
        tenant: str,
        cost: float,
        *,
        job: str = "",
        run: str = "",
        priority: Priority = Priority.STANDARD,
        predicted: float | None = None,
        then: Then | None = None,
    ) -> Ticket:
        """A call arrives now; `then` is called at its end."""
        self._seq += 1
        ticket = Ticket(seq=self._seq, tenant=tenant, job=job, run=run, priority=priority, arrived=self.now)
        self._cost[ticket.seq] = (cost, cost if predicted is None else predicted, then)
        self.queue.push(ticket, self.now)
        return ticket

    def arrive(self, when: float, tenant: str, cost: float, **how: Any) -> None:
        """A call arrives at a time; arguments as for `submit`."""
        self.at(when, partial(self.submit, tenant, cost, **how))

    def run(self, until: float = float("inf")) -> None:
        """Plays events up to a time; all that happen at one instant come before the dispatches of that instant."""
        while True:
            self._dispatch()
            if not self._events or self._events[0][0] > until:
                return
            self.now = self._events[0][0]
            while self._events and self._events[0][0] == self.now:
                heapq.heappop(self._events)[2]()

    def _dispatch(self) -> None:
        while self.free:
            ticket = self.queue.head()
            if ticket is None:
                return
            cost, predicted, then = self._cost.pop(ticket.seq)
            self.free -= 1
            self.queue.start(ticket, predicted)
            self.started.append((self.now, ticket))
            self.at(self.now + cost, partial(self._end, ticket, cost, then))

    def _end(self, ticket: Ticket, cost: float, then: Then | None) -> None:
        self.free += 1
        self.queue.settle(ticket, cost, cost)
        self.ended.append((self.now, ticket))
        self.served[ticket.tenant] = self.served.get(ticket.tenant, 0.0) + cost
        if then is not None:
            then(self.now, ticket)
