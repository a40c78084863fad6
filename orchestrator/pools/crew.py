"""The pool, as the runs see it that are driven by its workers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agents.events import Event

if TYPE_CHECKING:
    from orchestrator.pools.remote_run import RemoteRun


class Crew(Protocol):
    """Finds workers for runs."""

    def offer(self, run: "RemoteRun") -> None:
        """The run wants a worker; `given` is called when it has one."""
        ...

    def withdraw(self, run: "RemoteRun") -> None:
        """It wants none for now."""
        ...

    def take_back(self, run: str) -> None:
        """No worker may have it for now."""
        ...

    def over(self, run: str) -> None:
        """No worker has anything to do with it any more."""
        ...

    def tell(self, run: str, events: Sequence[Event]) -> None:
        """These came into its log from outside."""
        ...

    def leave_soon(self) -> None:
        """This process is ending."""
        ...

    def problem(self) -> str:
        """Why no run gets a worker, for people; empty where nothing is in the way."""
        ...
