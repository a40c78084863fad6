"""The state of a daemon as gauges, read when a scrape comes: budgets, people, tool servers, jobs, workers, itself."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from orchestrator.instruments.books import TenantLabels
from orchestrator.instruments.families import counter, gauge
from orchestrator.views.queue import BudgetView, PoolView


class DaemonState(Struct, frozen=True, kw_only=True):
    """A daemon at one moment.

    `budgets` are those of tenants; `refused` counts calls that a tenant's budget refused. `approvals` people have not
    answered, the oldest of them for `oldest_approval` seconds. `tool_servers` says of each whether it can be used;
    `items` counts the items of live jobs by what became of them; `pool` is None where the daemon drives runs itself.
    """

    version: str
    draining: bool
    budgets: Sequence[BudgetView]
    refused: Mapping[str, int]
    approvals: int
    oldest_approval: float
    tool_servers: Mapping[str, bool]
    live_jobs: int
    items: Mapping[str, int]
    pool: PoolView | None
    lost_rows: int


class DaemonGauges(Collector):
    """Reads `state` at every scrape; before `watch` there is nothing to read."""

    def __init__(self, registry: CollectorRegistry, labels: TenantLabels) -> None:
        self._labels = labels
        self._state: Callable[[], DaemonState] | None = None
        registry.register(self)

    def watch(self, state: Callable[[], DaemonState]) -> None:
        """Whose state is read."""
        self._state = state

    def collect(self) -> Iterable[Metric]:
        """What a scrape reads."""
        if self._state is None:
            return
        state = self._state()
        yield from _itself(state)
        yield from self._tenants(state)
        yield gauge("approvals_open", "Requests that people have not answered.", (), [((), state.approvals)])
        yield gauge(
            "oldest_approval_seconds",
            "How long the oldest request has waited for people; 0 where none does.",
            (),
            [((), state.oldest_approval)],
        )
        yield gauge(
            "tool_server_up",
            "1 while a tool server can be used, else 0.",
            ("server",),
            (((server,), float(up)) for server, up in state.tool_servers.items()),
        )
        yield gauge("live_jobs", "Jobs that have not ended.", (), [((), state.live_jobs)])
        yield gauge(
            "live_job_items",
            "Items of jobs that have not ended, by where they are: done, failed, cancelled, live, waiting.",
            ("state",),
            (((name,), count) for name, count in state.items.items()),
        )
        if state.pool is not None:
            yield from _pool(state.pool)

    def _tenants(self, state: DaemonState) -> Iterable[Metric]:
        used: dict[tuple[str, str, str], float] = {}
        for budget in state.budgets:
            key = (self._labels.label(budget.tenant), budget.period, budget.amount)
            ratio = (budget.used + budget.reserved) / budget.allowed if budget.allowed else 1.0
            used[key] = max(used.get(key, 0.0), ratio)
        yield gauge(
            "budget_used_ratio",
            "Part of a tenant's budget that is used, or reserved for what is under way; of tenants that share a label "
            "the fullest.",
            ("tenant", "period", "amount"),
            used.items(),
        )
        refused = dict.fromkeys([(self._labels.label(budget.tenant),) for budget in state.budgets], 0)
        for tenant, count in state.refused.items():
            label = (self._labels.label(tenant),)
            refused[label] = refused.get(label, 0) + count
        yield counter(
            "budget_refused_total",
            "Calls and runs that were refused or stopped because their tenant's budget is used up.",
            ("tenant",),
            refused.items(),
        )


def _itself(state: DaemonState) -> Iterable[Metric]:
    yield gauge("build_info", "Always 1; the label says which version runs.", ("version",), [((state.version,), 1)])
    yield gauge("draining", "1 while the daemon is ending and takes nothing new.", (), [((), float(state.draining))])
    yield counter("ledger_lost_rows_total", "Rows of the ledger that could not be kept.", (), [((), state.lost_rows)])


def _pool(pool: PoolView) -> Iterable[Metric]:
    yield gauge("pool_workers", "Worker processes that say they are alive.", (), [((), pool.workers)])
    yield gauge("pool_waiting_runs", "Runs that want a worker and have none.", (), [((), pool.waiting)])
