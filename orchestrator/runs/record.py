"""One run of the daemon, live or ended, and how clients see it.

While it is live, all is read from the `AgentRun` that drives it. When it has ended, only its result and its log are
kept. The wall clock is looked at once, when the run is created; all other times are that one plus seconds of trio's
clock, so a clock that is set meanwhile makes no run end before it began.
"""

from collections.abc import Coroutine
from typing import Any

import msgspec
import trio

from agents.lifecycle import Lifecycle, State
from agents.loop import AgentRun, Taken, Taker
from agents.observation import observed
from agents.port import Flow, Priority
from agents.result import RunResult
from orchestrator.runs.log import RunLog
from orchestrator.views.runs import PriorityName, RunDetail, RunView

PRIORITY_NAMES: dict[Priority, PriorityName] = {
    Priority.INTERACTIVE: "interactive",
    Priority.STANDARD: "standard",
    Priority.BATCH: "batch",
}
PRIORITIES: dict[PriorityName, Priority] = {name: priority for priority, name in PRIORITY_NAMES.items()}


class RunRecord:
    """One run. `created` is in seconds since the epoch, `number` its place in the order of creation once it exists.

    `counted` says whether it takes one of its tenant's places.
    """

    __slots__ = (
        "_created_at",
        "_done",
        "_ended",
        "_lifecycle",
        "_run",
        "counted",
        "created",
        "flow",
        "log",
        "number",
        "priority",
    )

    def __init__(
        self,
        run: AgentRun,
        log: RunLog,
        *,
        flow: Flow,
        priority: Priority,
        counted: bool,
        created: float,
        now: float,
    ) -> None:
        self.log = log
        self.flow = flow
        self.priority = priority
        self.number = 0
        self.counted = counted
        self.created = created
        self._created_at = now
        self._run: AgentRun | None = run
        self._lifecycle: Lifecycle | None = run.progress.lifecycle
        self._ended: tuple[RunView, RunResult] | None = None
        self._done: trio.Event | None = None

    @property
    def run(self) -> str:
        """Its id."""
        return self.flow.run

    @property
    def state(self) -> State:
        lifecycle = self._lifecycle
        return self.result.state if lifecycle is None else lifecycle.state

    @property
    def ended(self) -> bool:
        return self._ended is not None

    def drive(self, room: trio.CapacityLimiter) -> Coroutine[Any, Any, RunResult]:
        """Runs it to its end; see `AgentRun.drive`."""
        return self._live.drive(room)

    def cancel(self, reason: Taken = "cancelled", message: str = "", source: Taker = "user") -> None:
        """Takes the run away; one that has ended stays as it is."""
        if self._run is not None:
            self._run.cancel(reason, message, source)

    def end(self, now: float) -> None:
        """The drive is over: keeps what it led to, lets go of the rest, and tells all who wait."""
        result = self._live.result
        assert result is not None, f"run {self.run} was left without a result"
        self._ended = (self._view(result.message, self._wall(now), result), result)
        self._run = self._lifecycle = None
        self.log.close()
        if self._done is not None:
            self._done.set()

    async def wait(self) -> RunResult:
        """The result, when the run has ended. Always a checkpoint."""
        if self._ended is None:
            if self._done is None:
                self._done = trio.Event()
            await self._done.wait()
        else:
            await trio.lowlevel.checkpoint()
        return self.result

    @property
    def result(self) -> RunResult:
        """How the run ended; only for one that has."""
        assert self._ended is not None, f"run {self.run} is live"
        return self._ended[1]

    def view(self) -> RunView:
        """The run in a list."""
        return self._view() if self._ended is None else self._ended[0]

    def detail(self) -> RunDetail:
        """The run, whole."""
        seen = msgspec.structs.asdict(self.view())
        if self._ended is None:
            progress = self._live.progress
            return RunDetail(
                **seen,
                unknown_tokens=progress.scope.unknown.tokens,
                unknown_effects=tuple(progress.unknown_effects),
                events=len(self.log),
                messages=tuple(progress.messages),
            )
        result = self._ended[1]
        return RunDetail(
            **seen,
            answer=result.answer,
            partial=result.partial,
            scope=result.scope,
            limit=result.limit,
            allowed=result.allowed,
            observed_amount=result.observed,
            unknown_tokens=result.unknown_tokens,
            unknown_effects=result.unknown_effects,
            next=result.next,
            events=len(self.log),
            messages=result.messages,
        )

    def _view(self, message: str = "", ended: float | None = None, result: RunResult | None = None) -> RunView:
        progress = self._live.progress
        began = progress.scope.started
        state = progress.lifecycle.state
        return RunView(
            run=self.run,
            agent=progress.agent.name,
            model=progress.agent.model,
            tenant=self.flow.tenant,
            job=self.flow.job,
            priority=PRIORITY_NAMES[self.priority],
            state=state,
            observed=observed(state),
            reason=None if result is None else result.reason,
            created=self.created,
            started=None if began is None else self._wall(began),
            ended=ended,
            rounds=progress.rounds,
            tool_calls=progress.tool_calls,
            usage=progress.usage,
            micro_dollars=progress.micro_dollars,
            message=message,
        )

    def _wall(self, now: float) -> float:
        return self.created + (now - self._created_at)

    @property
    def _live(self) -> AgentRun:
        assert self._run is not None, f"run {self.run} has ended"
        return self._run

    def __repr__(self) -> str:
        return f"<RunRecord {self.run} {self.state}>"
