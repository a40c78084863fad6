"""What jobs need of the run service."""

from collections.abc import Callable, Iterable
from typing import Protocol

from agents.budget import Scope
from agents.port import ModelPort
from agents.result import RunResult
from agents.spec import AgentSpec
from orchestrator.views.runs import RunRequest


class RunsToEnd(Protocol):
    """Runs by id, whatever has become of them."""

    async def run_to_end(
        self,
        request: RunRequest,
        *,
        budget: Scope | None = None,
        agent: AgentSpec | None = None,
        through: Callable[[ModelPort], ModelPort] = ...,
    ) -> RunResult:
        """The end of the run of this id: one that has ended is answered from its log, one that is open is gone on
        with, and one that nobody knows runs in the caller's task from its start.

        Raises `RunLeft`, `JournalLost` and `StoreError` where the run may be open and can be gone on with later,
        `Draining` where nothing is begun any more, and `HeadraceError` where nothing was created.
        """
        ...

    async def charge(self, budget: Scope, runs: Iterable[str], *, tenant: str, job: str) -> None:
        """Counts into a budget that was made anew what these runs of a job have used so far, and may have used besides.

        Once, before the first of them is asked for. Those that nobody knows are passed over. Raises `StoreError`.
        """
        ...

    async def cancel(self, run: str) -> object:
        """Takes an open run away, whoever works at it or nobody."""
        ...
