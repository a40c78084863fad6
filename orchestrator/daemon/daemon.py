"""The daemon: everything plugged together, from its folder's lock to its HTTP surface.

Its parts stand inside one another, so that each outlives what needs it:

    the data folder's lock
      owners (and local model servers)
        runs and jobs
          the HTTP surface

It ends from the inside out. `end` (the first signal) takes nothing new: `/readyz` says no, new runs, jobs, items and
calls are refused, while what is live has `drain_seconds` to end and clients can watch it do so. `hurry` (the second
signal) waits no longer. What is left is taken away with a closing event each, jobs stay on disk as interrupted, whoever
watches is told, and everything stops.
"""

import datetime
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
import trio
from msgspec import structs

from agents.errors import HeadraceError, ModelError
from agents.port import Priority
from orchestrator.api.app import make_app
from orchestrator.api.server import closing_listeners, listen, serve_http
from orchestrator.api.services import Services
from orchestrator.api.surface import HttpConfig
from orchestrator.board import Board
from orchestrator.catalogue import ANY_MODEL, Catalogue
from orchestrator.config.build import build_backends, build_catalogue
from orchestrator.config.catalogue import prices_of
from orchestrator.config.find import data_dir
from orchestrator.config.schema import Config
from orchestrator.daemon.data_dir import open_data_dir
from orchestrator.daemon.edge import Edge
from orchestrator.daemon.metrics import DaemonMetrics
from orchestrator.daemon.owners import Owners
from orchestrator.daemon.reload import prepare_reload
from orchestrator.daemon.tenancy import Tenancy
from orchestrator.daemon.views import Views
from orchestrator.garbage import tune_collector
from orchestrator.instruments.log import LogHook
from orchestrator.jobs.plan import JobsConfig
from orchestrator.jobs.service import JobService
from orchestrator.policy.allowance import Allowances, allowances
from orchestrator.router import Router
from orchestrator.runs.service import RunsConfig, RunService

PRICES_SECONDS = 60.0
"""How long after midnight prices may be yesterday's."""

_log = structlog.get_logger("headrace")


class Daemon:
    """One daemon. Call `run` once; `end`, `hurry` and `reload` may be called while it runs.

    Making one builds all adapters, so it raises `ConfigError` for what cannot work. `load` reads the configuration
    anew for a reload.
    """

    def __init__(self, config: Config, *, load: Callable[[], Config] | None = None) -> None:
        self.config = config
        self._load = load
        self._catalogue = build_catalogue(config, datetime.date.today())
        self._board = Board()
        self._metrics = DaemonMetrics(config.tenants, config.daemon.tenant_labels, self.catalogue)
        self.owners = Owners(
            build_backends(config),
            hooks=[self._board, self._metrics.hook, LogHook(_log, config.daemon.log_level)],
            on_turn=self._metrics.on_turn,
            on_endpoint=tell_of_endpoint,
        )
        self._router = Router(self.owners.by_name, self.catalogue)
        self._edge = Edge(self._router)
        self._ending = trio.Event()
        self._closing = trio.Event()
        self._patience = trio.CancelScope()
        self._on_runs: Callable[[RunsConfig], None] | None = None
        self._tenancy: Tenancy | None = None

    def catalogue(self) -> Catalogue:
        """What is known by name at this moment."""
        return self._catalogue

    async def run(self, *, task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until it was told to end and has ended. Starts with the URLs it listens on.

        Raises `CannotListen`, `DataDirError`, `KeyFileError`, `SpentFileError`, `BackendError` where it cannot start.
        """
        with open_data_dir(data_dir(self.config)) as folder:
            tenancy = self._tenancy = Tenancy(folder, self.config, self.catalogue)
            await self._serve(folder, tenancy, task_status)

    async def _serve(self, folder: Path, tenancy: Tenancy, task_status: trio.TaskStatus[list[str]]) -> None:
        http = self._http()
        tenancy.require_keys(http)
        with closing_listeners(await listen(http)) as listeners:
            async with trio.open_nursery() as core:
                await core.start(self.owners.run, self._lost)
                core.start_soon(self._follow_prices)
                core.start_soon(tenancy.spent.keep)
                async with trio.open_nursery() as work:
                    runs = self._runs(work, tenancy)
                    jobs = await self._jobs(work, runs, folder, tenancy)
                    app = make_app(self._surface(runs, jobs, tenancy), http, closing=self._closing)
                    serve = partial(serve_http, app, http, closing=self._closing, listeners=listeners)
                    async with trio.open_nursery() as surface:
                        urls: list[str] = await surface.start(serve)
                        tune_collector()
                        task_status.started(urls)
                        await self._ending.wait()
                        await self._drain(runs, jobs)
                        self._closing.set()
                core.cancel_scope.cancel()

    # From outside

    def end(self) -> None:
        """Takes nothing new, lets what is live end, then stops. Repeating it changes nothing."""
        self._ending.set()

    def hurry(self) -> None:
        """Waits for nothing any more."""
        self.end()
        self._patience.cancel()

    def reload(self) -> bool:
        """Reads the configuration anew and puts all of it in force, or nothing; says in the log what changed.

        Keys are read anew whatever becomes of the configuration.
        """
        if self._tenancy is not None:
            self._tenancy.keys.read()
        if self._load is None:
            _log.error("reload refused", reason="this daemon has no configuration to read again")
            return False
        try:
            reload = prepare_reload(self.config, self._load(), self.owners, datetime.date.today())
        except HeadraceError as error:
            _log.error("reload refused, nothing has changed", reason=error.message)
            return False
        reload.apply()
        self.config, self._catalogue = reload.config, reload.catalogue
        if self._on_runs is not None:
            self._on_runs(runs_config(self.config))
        if self._tenancy is not None:
            self._tenancy.configure(self.config)
        for change in reload.changes:
            _log.info("changed", what=str(change))
        _log.info("reloaded", changes=len(reload.changes))
        return True

    def outage(self) -> str | None:
        """Why it cannot serve, if that is so."""
        if self._ending.is_set():
            return "the daemon is shutting down"
        error = self.owners.outage()
        return None if error is None else error.message

    # Parts

    def _runs(self, nursery: trio.Nursery, tenancy: Tenancy) -> RunService:
        runs = RunService(
            nursery,
            models=self._router,
            catalogue=self.catalogue,
            config=runs_config(self.config),
            journal=self._metrics.journal,
            parent=tenancy.budgets.scope,
        )
        self._on_runs = runs.configure
        return runs

    async def _jobs(self, nursery: trio.Nursery, runs: RunService, folder: Path, tenancy: Tenancy) -> JobService:
        attempts = max(owner.config.dispatch.retry.attempts for owner in self.owners.by_name.values())
        jobs = JobService(
            nursery,
            folder,
            runs=runs,
            catalogue=self.catalogue,
            on_weight=self._weigh,
            config=JobsConfig(workers=self.config.daemon.job_workers),
            attempts=attempts,
            parent=tenancy.budgets.scope,
        )
        await jobs.open()
        return jobs

    def _surface(self, runs: RunService, jobs: JobService, tenancy: Tenancy) -> Services:
        self._metrics.watch(self.owners.by_name.values())
        views = Views(
            board=self._board,
            owners=self.owners,
            runs=runs,
            jobs=jobs,
            catalogue=self.catalogue,
            draining=self._ending.is_set,
        )
        return Services(
            runs=runs,
            jobs=jobs,
            calls=self._edge,
            queue=views.queue,
            capabilities=views.capabilities,
            priority=self._priority,
            model=self._model,
            ready=self.outage,
            metrics=self._metrics.exposition,
            max_tokens=self._max_output,
            allowances=self._allowances,
            identify=tenancy.identify,
            budgets=tenancy.budgets,
            open_metrics=self.config.daemon.open_metrics,
        )

    def _http(self) -> HttpConfig:
        settings = self.config.daemon
        return structs.replace(
            settings.http, host=settings.host, port=settings.port, body_bytes=settings.max_body_bytes
        )

    def _model(self, name: str) -> str:
        self._router.targets(name)
        return name or self._catalogue.default_model

    def _max_output(self, model: str) -> int | None:
        known = self._catalogue.max_output
        return known.get(model if model in self._catalogue.models else ANY_MODEL)

    def _allowances(self, model: str, tenant: str) -> Allowances:
        """What the tenant has left at the backend that the model's calls go to first."""
        owner = self.owners.by_name.get(self._router.targets(model)[0].backend)
        return {} if owner is None else allowances(owner.policy, tenant, trio.current_time())

    def _priority(self, tenant: str, wanted: Priority | None) -> Priority:
        return self._catalogue.priority(tenant, wanted)

    def _weigh(self, tenant: str, job: str, weight: float) -> None:
        for owner in self.owners.by_name.values():
            owner.policy.fair.set_job_weight(tenant, job, weight)

    async def _follow_prices(self) -> None:
        """Prices have dates, and a daemon lives through many days."""
        day = datetime.date.today()
        while True:
            await trio.sleep(PRICES_SECONDS)
            if datetime.date.today() != day:
                day = datetime.date.today()
                self._catalogue = structs.replace(self._catalogue, prices=prices_of(self.config, day))

    def _lost(self, message: str) -> None:
        _log.error("a local model server was given up", reason=message)

    # The end

    async def _drain(self, runs: RunService, jobs: JobService) -> None:
        seconds = self.config.daemon.drain_seconds
        live = runs.statistics().live
        _log.info("draining", live_runs=live, live_jobs=jobs.live, open_calls=self._edge.open, at_most_seconds=seconds)
        self._edge.close()
        jobs.close(seconds)
        runs.close()
        self._patience.deadline = trio.current_time() + seconds
        with self._patience:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._edge.drained)
                nursery.start_soon(jobs.all_ended)
                nursery.start_soon(runs.drain)
        cut_off = runs.statistics().live
        jobs.hurry()
        await jobs.all_ended()
        await runs.end_all()
        _log.info("drained", runs_cut_off=cut_off)


def tell_of_endpoint(backend: str, endpoint: str, error: ModelError | None) -> None:
    """What an operator wants to read first in the log when calls stand still."""
    where = {"backend": backend, "endpoint": endpoint}
    if error is None:
        _log.info("endpoint is back", **where)
    else:
        _log.warning("endpoint is down, single probes will find out when it is back", **where, why=error.message)


def runs_config(config: Config) -> RunsConfig:
    """How many runs there may be."""
    settings = config.daemon
    return RunsConfig(
        max_live=settings.max_live_runs,
        per_tenant=settings.runs_per_tenant,
        in_all=settings.runs_in_all,
        keep_ended=settings.keep_ended_runs,
    )
