"""What the parts of one run service share: where runs are kept, what they think with, and who asks for them."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import trio

from agents.budget import Scope
from agents.loop import AgentRun
from agents.port import Journal, Models
from agents.snapshot import RunSnapshot, SessionSnapshot
from agents.spawner import Spawner
from agents.spec import AgentSpec
from orchestrator.catalogue import Catalogue
from orchestrator.runs.driven import Driven
from orchestrator.runs.executor import Executor
from orchestrator.runs.journal import SessionJournal
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import Store


class Elsewhere(Protocol):
    """A pool of workers that drive runs in other processes, for one run service."""

    def serve(self, means: "Means", records: Mapping[str, RunRecord]) -> None:
        """From here on it belongs to the service whose open runs these are."""
        ...

    async def run(self) -> None:
        """Works until `close`."""
        ...

    def close(self) -> None:
        """No worker is told anything any more, and none has a claim here."""
        ...

    def drives(self, agent: AgentSpec) -> bool:
        """Whether such runs can be driven there."""
        ...

    def remote(
        self,
        record: RunRecord,
        run: AgentRun,
        journal: SessionJournal,
        log: Journal,
        snapshot: SessionSnapshot | None,
    ) -> Driven:
        """What stands here for a run that is driven there, in the place of `run`, which is not driven then. `log` is
        the run's way to its log, `journal` the inmost part of it; `snapshot` is where it stands, None for a new run.
        """
        ...


@runtime_checkable
class TakesStanding(Protocol):
    """A run's log, wrapped by somebody who keeps count of open runs."""

    def stands(self, run: RunSnapshot) -> None:
        """The run goes on from here, though no event says so: who drives it outlived the process that it began in."""
        ...


class Means:
    """`journal` wraps a run's log, `parent` gives the budget above a tenant's runs, `wall` seconds since the epoch.

    `spawner` gives what starts the runs below a run, `pool` drives runs elsewhere; None drives all of them here.
    """

    __slots__ = ("catalogue", "executor", "journal", "models", "parent", "pool", "spawner", "store", "wall")

    def __init__(
        self,
        store: Store,
        executor: Executor,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        journal: Callable[[Journal], Journal],
        parent: Callable[[str], Scope | None],
        wall: Callable[[], float],
        pool: Elsewhere | None = None,
    ) -> None:
        self.store = store
        self.executor = executor
        self.models = models
        self.catalogue = catalogue
        self.journal = journal
        self.parent = parent
        self.wall = wall
        self.pool = pool
        self.spawner: Callable[[RunRecord], Spawner | None] = lambda record: None

    def budget(self, tenant: str, given: Scope | None) -> Scope | None:
        """The scope above a run's own: the one given with it, or its tenant's."""
        return self.parent(tenant) if given is None else given

    def driver(
        self,
        record: RunRecord,
        run: AgentRun,
        journal: SessionJournal,
        log: Journal,
        snapshot: SessionSnapshot | None = None,
    ) -> Driven:
        """What is to drive the run: itself, or the pool. Runs below others stay near those who wait for them."""
        pool = self.pool
        if pool is None or record.terms.child is not None or not pool.drives(run.progress.agent):
            return run
        return pool.remote(record, run, journal, log, snapshot)

    def clock(self) -> Callable[[], float]:
        """A run's own wall clock: one look at the real one, and seconds of trio's, so it never goes back."""
        began, now = self.wall(), trio.current_time()
        return lambda: began + (trio.current_time() - now)
