"""What the parts of one run service share: where runs are kept, what they think with, and who asks for them."""

from collections.abc import Callable

import trio

from agents.budget import Scope
from agents.port import Journal, Models
from agents.spawner import Spawner
from orchestrator.catalogue import Catalogue
from orchestrator.runs.executor import Executor
from orchestrator.runs.record import RunRecord
from orchestrator.store.base import Store


class Means:
    """`journal` wraps a run's log, `parent` gives the budget above a tenant's runs, `wall` seconds since the epoch.

    `spawner` gives what starts the runs below a run.
    """

    __slots__ = ("catalogue", "executor", "journal", "models", "parent", "spawner", "store", "wall")

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
    ) -> None:
        self.store = store
        self.executor = executor
        self.models = models
        self.catalogue = catalogue
        self.journal = journal
        self.parent = parent
        self.wall = wall
        self.spawner: Callable[[RunRecord], Spawner | None] = lambda record: None

    def budget(self, tenant: str, given: Scope | None) -> Scope | None:
        """The scope above a run's own: the one given with it, or its tenant's."""
        return self.parent(tenant) if given is None else given

    def clock(self) -> Callable[[], float]:
        """A run's own wall clock: one look at the real one, and seconds of trio's, so it never goes back."""
        began, now = self.wall(), trio.current_time()
        return lambda: began + (trio.current_time() - now)
