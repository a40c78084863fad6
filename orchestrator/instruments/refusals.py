"""How often tenants' budgets stopped runs, counted from the runs' closing events."""

from collections import Counter
from typing import Final

from agents.events import Event, RunEnded
from agents.snapshot import RunSnapshot

SCOPE: Final = "tenant "
"""What the name of a tenant's scope begins with (`orchestrator.budgets`)."""


class BudgetStops:
    """A watcher of runs (`watched.RunWatcher`). `runs` counts by tenant."""

    def __init__(self) -> None:
        self.runs: Counter[str] = Counter()

    def see(self, event: Event) -> None:
        """Takes in one event that was appended."""
        if isinstance(event, RunEnded) and event.limit and event.scope.startswith(SCOPE):
            self.runs[event.scope.removeprefix(SCOPE)] += 1

    def stands(self, run: RunSnapshot) -> None:
        """Nothing is known of open runs."""

    def left(self, run: str) -> None:
        """See `stands`."""

    def lost(self, run: str) -> None:
        """See `stands`."""
