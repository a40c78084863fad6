"""Many callers at once, each a run of its own, and the account of how each of their calls ended."""

from collections import Counter
from collections.abc import Callable

import trio

from agents.errors import ModelError
from agents.messages import ModelReply, ModelRequest
from agents.port import Flow, ModelPort
from orchestrator.transitions import Transition
from tests.owner.staged import request

Ports = Callable[[Flow], ModelPort]


class Fleet:
    """Sends calls and keeps their outcomes by run. As a hook it counts how often an owner finished each run's call."""

    def __init__(self, port: Ports | None = None) -> None:
        self.port = port
        self.outcomes: dict[str, ModelReply | ModelError] = {}
        self.tries: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.kinds: dict[str, set[str]] = {}
        self._finished: Counter[tuple[str, str]] = Counter()
        self.runs = 0

    def __call__(self, transition: Transition) -> None:
        if transition.kind == "finished":
            self._finished[transition.backend, transition.flow.run] += 1
        elif transition.kind == "started":
            self.tries[transition.endpoint] += 1
        elif transition.kind == "attempt_failed":
            self.failed[transition.endpoint] += 1
            self.kinds.setdefault(transition.endpoint, set()).add(transition.outcome)

    async def send(self, calls: int, *, every: float = 0.0, asks: ModelRequest | None = None) -> None:
        """So many calls, `every` so many seconds; returns when all have ended."""
        async with trio.open_nursery() as callers:
            for _ in range(calls):
                callers.start_soon(self.one, asks or request())
                if every:
                    await trio.sleep(every)

    async def one(self, asks: ModelRequest) -> None:
        """One call of a run of its own."""
        self.runs += 1
        run = str(self.runs)
        assert self.port is not None
        try:
            outcome: ModelReply | ModelError = await self.port(Flow("acme", "job", run)).call(asks)
        except ModelError as error:
            outcome = error
        assert run not in self.outcomes
        self.outcomes[run] = outcome

    @property
    def errors(self) -> list[ModelError]:
        return [outcome for outcome in self.outcomes.values() if isinstance(outcome, ModelError)]

    def assert_all_served(self) -> None:
        """Every call has its answer, and no owner finished any call twice."""
        assert self.errors == []
        self.assert_each_ended_once()

    def assert_each_ended_once(self) -> None:
        assert len(self.outcomes) == self.runs
        assert set(self._finished.values()) <= {1}
        assert {run for _, run in self._finished} >= set(self.outcomes)
