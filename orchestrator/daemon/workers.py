"""The pool that the configuration asks for, and who places its workers."""

import socket
from collections.abc import Callable, Sequence

from orchestrator.config.schema import Config
from orchestrator.pools.placement import Placement, WorkerSettings
from orchestrator.pools.pool import Pool
from orchestrator.pools.ray_pool import RayPool, pool_name
from orchestrator.views.workers import ToolTables


def pool_of(config: Config, tools: Callable[[], ToolTables]) -> Pool | None:
    """Where runs are driven; None for this process itself."""
    return None if config.pool.kind == "local" else Pool(tools, config.pool.lease_seconds, hint_of(config))


def hint_of(config: Config) -> str:
    """How workers come, for people who wait for one."""
    table, daemon = config.pool, config.daemon
    if table.kind == "ray":
        return f"the Ray cluster at {table.address} is to place {table.workers}: see this daemon's log"
    url = f"http://{_host(daemon.host)}:{daemon.port}" if daemon.port else "URL"
    return f"start one: headrace worker --daemon {url}"


def _host(host: str) -> str:
    """What it listens on, as somebody else would call it; an address of its own where it listens on all of them."""
    if host in ("0.0.0.0", "::", ""):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def ray_pool_of(config: Config, urls: Sequence[str], pool: Pool | None) -> RayPool | None:
    """What has workers placed on a Ray cluster, where they are wanted there. `urls` are this daemon's own.

    Raises `RayNotInstalled`.
    """
    table = config.pool
    if pool is None or table.kind != "ray":
        return None
    url = (table.url or urls[0]).rstrip("/")
    settings = WorkerSettings(
        daemons=(url,), runs=table.runs, patience=table.patience, key_env=table.key_env, key_file=table.key_file
    )
    placement = Placement(
        address=table.address, name=pool_name(url), workers=table.workers, cpus=table.cpus, settings=settings
    )
    return RayPool(placement, lambda: [worker.worker for worker in pool.seen().workers])
