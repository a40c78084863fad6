"""All owners of a daemon: made from their plans, run together, looked at and changed together."""

from collections.abc import Callable, Mapping, Sequence

import trio

from agents.errors import ModelError
from agents.port import Call
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.config.build import BackendPlan
from orchestrator.local_service import serve_local
from orchestrator.owner import Owner
from orchestrator.statistics import OwnerStatistics
from orchestrator.transitions import Hook


class Owners:
    """One owner for each backend; see `Owner` for what is told to whom."""

    def __init__(
        self,
        plans: Sequence[BackendPlan],
        *,
        hooks: Sequence[Hook],
        on_turn: Callable[[float], None] | None = None,
        on_endpoint: Callable[[str, str, ModelError | None], None] | None = None,
        trace: Callable[[Call], str] | None = None,
    ) -> None:
        self.by_name: Mapping[str, Owner] = {
            plan.owner.name: Owner(
                plan.owner, plan.endpoints, hooks=hooks, on_turn=on_turn, on_endpoint=on_endpoint, trace=trace
            )
            for plan in plans
        }

    async def run(
        self,
        on_lost: Callable[[str], None],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled. Raises `BackendError` where a local server cannot start.

        `on_lost` is told why, if one is given up after it had started.
        """
        async with trio.open_nursery() as nursery:
            for owner in self.by_name.values():
                for endpoint in owner.endpoints:
                    if isinstance(endpoint.backend, LocalBackend):
                        await nursery.start(serve_local, endpoint.backend, on_lost)
            for owner in self.by_name.values():
                await nursery.start(owner.run)
            task_status.started()

    def statistics(self) -> list[OwnerStatistics]:
        """What each owner shows of itself now."""
        return [owner.statistics() for owner in self.by_name.values()]

    def outage(self) -> ModelError | None:
        """Why no backend can serve anybody, if that is so."""
        error: ModelError | None = None
        for owner in self.by_name.values():
            error = owner.outage()
            if error is None:
                return None
        return error

    def __repr__(self) -> str:
        return f"<Owners {', '.join(self.by_name)}>"
