"""Where runs live: started, polled, cancelled and waited for by id.

A runtime says what it can do, and a request beyond that is refused before anything is created. `start` returns as
soon as the run is durable, `poll` never waits for the run, an id nobody knows is `unknown_run` and never pending, and
cancelling a run that has ended succeeds and leaves its evidence readable.

`LocalRuntime` runs in one nursery of this process and keeps the results of its runs as long as it lives itself. It
does not survive a restart, and says so.
"""

import math
import secrets
from typing import ClassVar, Literal, Protocol

import trio
from msgspec import Struct

from agents.budget import Scope
from agents.errors import HeadraceError
from agents.log import JournalLost
from agents.loop import UNPRICED, AgentRun
from agents.messages import Message
from agents.money import Prices
from agents.observation import Observation
from agents.port import Journal, ModelPort, Priority
from agents.requests import refuse_without_people
from agents.result import RunResult
from agents.spec import AgentSpec

Need = Literal["survives_restart", "cancels", "streams", "scores"]


class Capabilities(Struct, frozen=True):
    """What a runtime can do for a run: take it up after a restart, cancel it, stream its answer, score it."""

    survives_restart: bool
    cancels: bool
    streams: bool
    scores: bool

    def lacks(self, needs: frozenset[Need]) -> list[Need]:
        return sorted(need for need in needs if not getattr(self, need))


class IllegalCapabilities(HeadraceError):
    """A runtime says of itself what nobody can rely on."""


def validate_capabilities(previous: Capabilities | None, current: Capabilities) -> None:
    """Raises `IllegalCapabilities` where `current` is not plain yes or no, or takes back what `previous` promised.

    Runs were started on that promise. None: nothing was promised before.
    """
    for need in Capabilities.__struct_fields__:
        said = getattr(current, need, None)
        if type(said) is not bool:
            raise IllegalCapabilities(f"{need} must be true or false, not {said!r}")
        if previous is not None and getattr(previous, need) and not said:
            raise IllegalCapabilities(f"{need} was promised before, and now it is not")


class Unsupported(HeadraceError):
    """The request needs what this runtime cannot do. Nothing was created."""


class UnknownRun(HeadraceError):
    """Nobody here knows a run of this id."""

    kind: ClassVar[str] = "unknown_run"


class DuplicateRun(HeadraceError):
    """There is a run of this id already. Nothing was created."""


class Runtime(Protocol):
    """What every runtime does, wherever its runs live."""

    def capabilities(self) -> Capabilities:
        """What it can do; `start` refuses whatever needs more."""
        ...

    async def start(
        self,
        agent: AgentSpec,
        task: str | tuple[Message, ...],
        *,
        run: str = "",
        needs: frozenset[Need] = frozenset(),
        budget: Scope | None = None,
        priority: Priority | None = None,
        expiry: float = math.inf,
    ) -> str:
        """Makes the run durable and returns its id.

        Raises `Unsupported`, `DuplicateRun`, `InvalidLimits`, and `NobodyToAsk` where people decide on the agent's
        tools and the runtime can ask none.
        """
        ...

    async def poll(self, run: str) -> Observation:
        """Where the run stands. Raises `UnknownRun`."""
        ...

    async def cancel(self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled") -> Observation:
        """Acknowledges the cancellation; the run is over when a poll says so. Raises `UnknownRun`."""
        ...

    async def wait(self, run: str) -> RunResult:
        """The result, when the run has ended. Raises `UnknownRun`."""
        ...


class _Live:
    __slots__ = ("created", "done", "run")

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.created = False
        self.done = trio.Event()


class LocalRuntime:
    """Runs in a nursery of this process; at most `max_live` at once, the others queued. Cancelling the nursery
    closes every run as `cancelled`.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        *,
        model: ModelPort,
        journal: Journal,
        prices: Prices = UNPRICED,
        max_live: int | None = None,
    ) -> None:
        self._nursery = nursery
        self._model = model
        self._journal = journal
        self._prices = prices
        self._room = None if max_live is None else trio.CapacityLimiter(max_live)
        self._runs: dict[str, _Live] = {}

    def capabilities(self) -> Capabilities:
        return Capabilities(survives_restart=False, cancels=True, streams=False, scores=False)

    async def start(
        self,
        agent: AgentSpec,
        task: str | tuple[Message, ...],
        *,
        run: str = "",
        needs: frozenset[Need] = frozenset(),
        budget: Scope | None = None,
        priority: Priority | None = None,
        expiry: float = math.inf,
    ) -> str:
        lacking = self.capabilities().lacks(needs)
        if lacking:
            raise Unsupported(f"the local runtime cannot do this: {', '.join(lacking)}")
        refuse_without_people(agent)
        run = run or secrets.token_hex(8)
        if run in self._runs:
            raise DuplicateRun(f"there is a run {run} already")
        live = _Live(
            AgentRun(
                agent,
                task,
                model=self._model,
                journal=self._journal,
                budget=budget,
                prices=self._prices,
                run=run,
                priority=priority,
                expiry=expiry,
            )
        )
        self._runs[run] = live
        try:
            await self._nursery.start(self._drive, live)
        except BaseException:
            if not live.created:
                del self._runs[run]
            raise
        return run

    async def _drive(self, live: _Live, task_status: trio.TaskStatus[None]) -> None:
        await live.run.create()
        live.created = True
        task_status.started()
        try:
            await live.run.drive(self._room)
        except JournalLost:
            pass  # the run's result says so
        finally:
            live.done.set()

    async def poll(self, run: str) -> Observation:
        await trio.lowlevel.checkpoint()
        return self._observe(self._find(run))

    async def cancel(self, run: str, reason: Literal["cancelled", "interrupted"] = "cancelled") -> Observation:
        live = self._find(run)
        live.run.cancel(reason)
        await trio.lowlevel.checkpoint()
        return self._observe(live)

    async def wait(self, run: str) -> RunResult:
        live = self._find(run)
        await live.done.wait()
        assert live.run.result is not None
        return live.run.result

    @property
    def live(self) -> int:
        """How many runs have not ended."""
        return sum(not live.done.is_set() for live in self._runs.values())

    def _find(self, run: str) -> _Live:
        try:
            return self._runs[run]
        except KeyError:
            raise UnknownRun(f"there is no run {run}") from None

    def _observe(self, live: _Live) -> Observation:
        run = live.run
        reason = None if run.result is None else run.result.reason
        return Observation(run.run, run.state, reason, run.usage)

    def __repr__(self) -> str:
        return f"<LocalRuntime {self.live} live of {len(self._runs)}>"
