"""What a daemon works at: runs, jobs and sessions over one store, taken up together and drained together."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import structlog
import trio

from agents.budget import Scope
from agents.port import Journal, Models
from orchestrator.board import Board
from orchestrator.catalogue import Catalogue
from orchestrator.config.schema import Config
from orchestrator.config.tool_text import tool_tables
from orchestrator.daemon.edge import Edge
from orchestrator.daemon.owners import Owners
from orchestrator.daemon.tenancy import Tenancy
from orchestrator.daemon.views import Views
from orchestrator.daemon.workers import pool_of
from orchestrator.instruments.tools import Running
from orchestrator.jobs.driver import SetWeight
from orchestrator.jobs.plan import JobsConfig
from orchestrator.jobs.service import JobService
from orchestrator.runs.config import RunsConfig
from orchestrator.runs.service import RunService
from orchestrator.runs.sessions import SessionService
from orchestrator.store.base import Store
from orchestrator.store.ledger_port import SpentRow
from orchestrator.tools.mcp import McpServers

_log = structlog.get_logger("headrace")


class Work:
    """Runs there are from the beginning; `tenancy` is set before anything is driven, jobs come with `go_on`."""

    tenancy: Tenancy
    jobs: JobService

    def __init__(
        self,
        nursery: trio.Nursery,
        store: Store,
        *,
        models: Models,
        catalogue: Callable[[], Catalogue],
        config: Config,
        journal: Callable[[Journal], Journal],
        holder: str,
    ) -> None:
        self.store = store
        self._nursery = nursery
        self._catalogue = catalogue
        self._config = config
        self._tables = tool_tables(config.tools)
        self.pool = pool_of(config, lambda: self._tables)
        self.runs = RunService(
            nursery,
            models=models,
            catalogue=catalogue,
            store=store,
            holder=holder,
            config=runs_config(config),
            journal=journal,
            parent=self._scope,
            pool=self.pool,
        )
        self.sessions = SessionService(self.runs)

    def _scope(self, tenant: str) -> Scope | None:
        return self.tenancy.budgets.scope(tenant)

    async def go_on(self, folder: Path, weigh: SetWeight, *, attempts: int) -> None:
        """Goes on with the jobs that are live, and with all runs that are open. Raises `JobStorageError`."""
        self.jobs = JobService(
            self._nursery,
            folder,
            runs=self.runs,
            catalogue=self._catalogue,
            on_weight=weigh,
            config=JobsConfig(workers=self._config.daemon.job_workers),
            attempts=attempts,
            parent=self._scope,
            store=self.store,
        )
        await self.jobs.open()
        await self.runs.resume_rest(self.jobs.going_on)

    def configure(self, config: Config, spent: Iterable[SpentRow]) -> None:
        """Puts other bounds and budgets in force; `spent` is what new budgets begin with."""
        self._config, self._tables = config, tool_tables(config.tools)
        self.runs.configure(runs_config(config))
        self.tenancy.configure(config, spent)

    def views(
        self,
        board: Board,
        owners: Owners,
        servers: McpServers,
        *,
        draining: Callable[[], bool],
        running: Callable[[], list[Running]],
    ) -> Views:
        """What is shown of it."""
        return Views(
            board=board,
            owners=owners,
            servers=servers,
            runs=self.runs,
            jobs=self.jobs,
            catalogue=self._catalogue,
            draining=draining,
            pool=self.pool,
            budgets=self.tenancy.budgets.views,
            running=running,
        )

    async def drain(self, seconds: float, edge: Edge, patience: trio.CancelScope) -> None:
        """Takes nothing new; what is live has so many seconds, or as long as `patience` has. Then it ends.

        Runs that can be left open begin no call any more, and are left as soon as they have none. They are left before
        their jobs are told, or they would count as cancelled.
        """
        live = self.runs.statistics().live
        _log.info("draining", live_runs=live, live_jobs=self.jobs.live, open_calls=edge.open, at_most_seconds=seconds)
        self.jobs.close()
        if self.store.durable:
            self.runs.leave_soon()
        else:
            self.runs.close()
        patience.deadline = trio.current_time() + seconds
        with patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(edge.drained)
                nursery.start_soon(self.jobs.all_ended)
                nursery.start_soon(partial(self.runs.drain))
        cut_off = self.runs.statistics().live
        if not self.store.durable:
            self.jobs.hurry()
            await self.jobs.all_ended()
        await self.runs.end_all()
        self.jobs.hurry()
        await self.jobs.all_ended()
        _log.info("drained", runs_left_open=self.runs.left, calls_cut_off=cut_off)


def runs_config(config: Config) -> RunsConfig:
    """How many runs there may be."""
    settings = config.daemon
    return RunsConfig(
        max_live=settings.max_live_runs,
        per_tenant=settings.runs_per_tenant,
        in_all=settings.runs_in_all,
        keep_ended=settings.keep_ended_runs,
    )
