"""The daemon: everything plugged together, from its folder's lock to its HTTP surface.

Its parts stand inside one another, so that each outlives what needs it:

    the sockets, the data folder's lock, the store, and the lead of it
      owners (and local model servers)
        runs and jobs
          the HTTP surface

**It begins** where the last one stopped, however that was: open runs are read first, and their lost calls go into the
ledger; tenants' budgets and the owners' limits take in what the ledger says; jobs go on, then all other runs; at last
it answers.

**It ends** from the inside out. `end` (the first signal) takes nothing new: `/readyz` says no, new runs, jobs, items
and calls are refused, while what is live has `drain_seconds` to end and clients can watch it do so. `hurry` (the second
signal) waits no longer. What is left then stays open in the store for the next daemon (with a store in memory it is
taken away, with a closing event); whoever watches is told, and everything stops.
"""

import datetime
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
import trio
from msgspec import structs

from agents.errors import HeadraceError, ModelError
from orchestrator.api.app import make_app
from orchestrator.api.server import closing_listeners, listen, serve_http, urls_of
from orchestrator.api.services import Services
from orchestrator.api.surface import HttpConfig
from orchestrator.api.worker_services import NO_WORKERS
from orchestrator.board import Board
from orchestrator.catalogue import Catalogue
from orchestrator.config.build import build_backends, build_catalogue
from orchestrator.config.catalogue import prices_of
from orchestrator.config.find import data_dir
from orchestrator.config.mcp_servers import mcp_servers
from orchestrator.config.schema import Config
from orchestrator.daemon.books import Books
from orchestrator.daemon.data_dir import open_data_dir
from orchestrator.daemon.edge import Edge
from orchestrator.daemon.explaining import explainer_of
from orchestrator.daemon.lookups import Lookups
from orchestrator.daemon.metrics import DaemonMetrics
from orchestrator.daemon.owners import Owners
from orchestrator.daemon.reload import prepare_reload
from orchestrator.daemon.standby import Leading, stand_by, until_lost
from orchestrator.daemon.state import state_of
from orchestrator.daemon.stores import open_store
from orchestrator.daemon.tenancy import Tenancy, require_keys
from orchestrator.daemon.tracing import calls_traced, requests_traced, runs_traced, telemetry_of, tools_traced
from orchestrator.daemon.upkeep import keep_tidy, on_new_day
from orchestrator.daemon.waiting import waits_for
from orchestrator.daemon.work import Work
from orchestrator.daemon.workers import ray_pool_of
from orchestrator.garbage import tune_collector
from orchestrator.instruments.log import LogHook
from orchestrator.instruments.run_log import RunLog
from orchestrator.restored_limits import restore_limits, sent_before
from orchestrator.router import Router
from orchestrator.store.base import Store
from orchestrator.tools.mcp import McpServers

SERVERS_SECONDS = 3.0
"""How long it waits for MCP servers before it goes on; runs that need one which is not there yet wait for it."""

_log = structlog.get_logger("headrace")


class Daemon:
    """One daemon. Call `run` once; `end`, `hurry` and `reload` may be called while it runs.

    Making one builds all adapters, so it raises `ConfigError` for what cannot work. `load` reads the configuration
    anew for a reload.
    """

    def __init__(self, config: Config, *, load: Callable[[], Config] | None = None) -> None:
        self.config = config
        self._load = load
        self._telemetry = telemetry_of(config)
        self._servers = McpServers(mcp_servers(config), trace=tools_traced(self._telemetry))
        self._metrics = DaemonMetrics(
            config.tenants,
            config.daemon.tenant_labels,
            self.catalogue,
            watchers=(RunLog(_log, config.daemon.log_level), *runs_traced(self._telemetry)),
        )
        self._books = Books(self._metrics.cost)
        self._catalogue = self._known(config)
        self._board = Board()
        self.owners = Owners(
            build_backends(config),
            hooks=[
                self._board,
                self._metrics.hook,
                self._books.hook,
                LogHook(_log, config.daemon.log_level),
                *calls_traced(self._telemetry),
            ],
            on_turn=self._metrics.on_turn,
            on_endpoint=tell_of_endpoint,
            trace=None if self._telemetry is None else self._telemetry.outgoing,
        )
        self._router = Router(self.owners.by_name, self.catalogue)
        self._lookups = Lookups(self._router, self.owners, self.catalogue)
        self._edge = Edge(self._router)
        self._ending = trio.Event()
        self._closing = trio.Event()
        self._patience = trio.CancelScope()
        self._work: Work | None = None
        self._holder = secrets.token_hex(8)

    def catalogue(self) -> Catalogue:
        """What is known by name at this moment."""
        return self._catalogue

    async def run(self, *, task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED) -> None:
        """Serves until it was told to end and has ended. Starts with the URLs it listens on, also while it stands by.

        Raises `CannotListen`, `DataDirError`, `KeyFileError`, `SpentFileError`, `StoreError`, `BackendError`,
        `RayNotInstalled` where it cannot start, and `LeaseLost` where another daemon has taken over.
        """
        http, folder = self._http(), data_dir(self.config)
        with ExitStack() as stack:
            stack.enter_context(open_data_dir(folder, shared=self.config.store.kind == "postgres"))
            require_keys(folder, http)
            listeners = stack.enter_context(closing_listeners(await listen(http)))
            try:
                async with self._leading(folder, http, listeners, task_status) as store:
                    if store is not None:
                        await self._serve(folder, store, http, listeners, task_status)
            finally:
                if self._telemetry is not None:
                    await self._telemetry.close()

    @asynccontextmanager
    async def _leading(
        self,
        folder: Path,
        http: HttpConfig,
        listeners: Sequence[trio.SocketListener],
        task_status: trio.TaskStatus[list[str]],
    ) -> AsyncGenerator[Store | None, None]:
        """The store, which this daemon leads inside the block; None where it was told to end while it stood by."""
        async with open_store(self.config, folder, self._holder) as store:
            if not isinstance(store, Leading):
                yield store
                return
            task_status.started(urls_of(listeners))
            async with trio.open_nursery() as lead:
                if await stand_by(lead, store, http, listeners, ending=self._ending):
                    lead.start_soon(until_lost, store)
                    yield store
                else:
                    yield None
                lead.cancel_scope.cancel()

    async def _serve(
        self,
        folder: Path,
        store: Store,
        http: HttpConfig,
        listeners: Sequence[trio.SocketListener],
        task_status: trio.TaskStatus[list[str]],
    ) -> None:
        self._books.keep_in(store)
        async with trio.open_nursery() as core:
            await core.start(self.owners.run, self._lost)
            core.start_soon(self._servers.run)
            core.start_soon(self._metrics.lag.watch)
            with trio.move_on_after(SERVERS_SECONDS):
                await self._servers.tried()
            core.start_soon(on_new_day, self._new_day)
            async with trio.open_nursery() as nursery:
                work = self._work = await self._take_up(nursery, folder, store)
                ray = ray_pool_of(self.config, urls_of(listeners), work.pool)
                if ray is not None:
                    core.start_soon(ray.run)
                core.start_soon(work.tenancy.keep)
                core.start_soon(keep_tidy, work.sessions, lambda: self.config.store.keep_days)
                app = make_app(self._surface(work), http, closing=self._closing)
                serve = partial(
                    serve_http,
                    app,
                    http,
                    closing=self._closing,
                    listeners=listeners,
                    on_connection=self._metrics.http.connected,
                )
                async with trio.open_nursery() as surface:
                    urls: list[str] = await surface.start(serve)
                    tune_collector()
                    if not isinstance(store, Leading):
                        task_status.started(urls)
                    await self._ending.wait()
                    self._edge.close()
                    await work.drain(self.config.daemon.drain_seconds, self._edge, self._patience)
                    self._closing.set()
            core.cancel_scope.cancel()

    async def _take_up(self, nursery: trio.Nursery, folder: Path, store: Store) -> Work:
        """Everything where the last daemon left it, in the order in which one thing needs another."""
        work = Work(
            nursery,
            store,
            models=self._router,
            catalogue=self.catalogue,
            config=self.config,
            journal=self._metrics.journal,
            holder=self._holder,
        )
        found = await work.runs.recover()
        lost = await store.ledger.end_open(time.time())
        work.tenancy = await Tenancy.open(folder, self.config, self.catalogue, store)
        owners = self.owners.by_name.values()
        now = time.time()
        rows = await sent_before(store.ledger, owners, now)
        restore_limits(owners, rows, time.time(), trio.current_time())
        await work.go_on(folder, self._lookups.weigh, attempts=self._lookups.attempts())
        if found or lost:
            _log.info(
                "going on where the last daemon stopped", open_runs=found, live_jobs=work.jobs.live, lost_calls=lost
            )
        return work

    # From outside

    def end(self) -> None:
        """Takes nothing new, lets what is live end, then stops. Repeating it changes nothing."""
        self._ending.set()

    def hurry(self) -> None:
        """Waits for nothing any more."""
        self.end()
        self._patience.cancel()

    async def reload(self) -> bool:
        """Reads the configuration anew and puts all of it in force, or nothing; says in the log what changed.

        Keys are read anew whatever becomes of the configuration.
        """
        work = self._work
        if work is not None:
            work.tenancy.keys.read()
        if self._load is None:
            _log.error("reload refused", reason="this daemon has no configuration to read again")
            return False
        try:
            reload = prepare_reload(self.config, self._load(), self.owners, self._known)
            spent = [] if work is None else await work.store.ledger.spent()
        except HeadraceError as error:
            _log.error("reload refused, nothing has changed", reason=error.message)
            return False
        reload.apply()
        self.config, self._catalogue = reload.config, reload.catalogue
        if work is not None:
            work.configure(self.config, spent)
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

    def _known(self, config: Config) -> Catalogue:
        """What a configuration names, with the tools of MCP servers where they are."""
        catalogue = build_catalogue(config, datetime.date.today(), blobs=self._books)
        return structs.replace(catalogue, source=self._servers)

    def _surface(self, work: Work) -> Services:
        self._metrics.watch(self.owners.by_name.values())
        self._metrics.gauges.watch(
            lambda: state_of(work, self._servers, self._metrics.stops.runs, draining=self._ending.is_set())
        )
        views = work.views(
            self._board,
            self.owners,
            self._servers,
            draining=self._ending.is_set,
            running=self._metrics.tools.running,
        )
        return Services(
            runs=work.runs,
            jobs=work.jobs,
            sessions=work.sessions,
            approvals=work.runs.approvals,
            explain=explainer_of(self.owners, work.store.ledger, work.runs, time.time),
            workers=NO_WORKERS if work.pool is None else work.pool,
            calls=self._edge,
            queue=views.queue,
            capabilities=views.capabilities,
            priority=self._lookups.priority,
            model=self._lookups.model,
            ready=self.outage,
            metrics=self._metrics.exposition,
            max_tokens=self._lookups.max_output,
            allowances=self._lookups.allowances,
            identify=work.tenancy.identify,
            budgets=work.tenancy.budgets,
            open_metrics=self.config.daemon.open_metrics,
            answered=self._metrics.http.answered,
            traced=requests_traced(self._telemetry),
            waits_for=lambda: waits_for(self.owners, self._metrics.tools.running(), work.runs.open),
        )

    def _http(self) -> HttpConfig:
        settings = self.config.daemon
        return structs.replace(
            settings.http, host=settings.host, port=settings.port, body_bytes=settings.max_body_bytes
        )

    def _new_day(self, day: datetime.date) -> None:
        """Prices have dates, and a daemon lives through many days."""
        self._catalogue = structs.replace(self._catalogue, prices=prices_of(self.config, day))

    def _lost(self, message: str) -> None:
        _log.error("a local model server was given up", reason=message)


def tell_of_endpoint(backend: str, endpoint: str, error: ModelError | None) -> None:
    """What an operator wants to read first in the log when calls stand still."""
    where = {"backend": backend, "endpoint": endpoint}
    if error is None:
        _log.info("endpoint is back", **where)
    else:
        _log.warning("endpoint is down, single probes will find out when it is back", **where, why=error.message)
