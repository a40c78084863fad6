"""The configuration as one frozen struct: one TOML file, decoded whole.

Tables that belong to one room are that room's own structs. What a table's keys mean for the daemon is in `build.py`,
`policy.py` and `catalogue.py` beside this file.
"""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from agents.amounts import Limits
from orchestrator.api.surface import HttpConfig
from orchestrator.config.agent_tables import AgentTable, BudgetTable
from orchestrator.config.backend_tables import BackendTable
from orchestrator.config.limit_tables import LimitKeys
from orchestrator.config.numbers import Count, CountOrNone, NotNegative, Positive
from orchestrator.config.pool_table import PoolTable
from orchestrator.config.store_table import StoreTable
from orchestrator.config.telemetry_table import TelemetryTable
from orchestrator.config.tool_table import ToolTable
from orchestrator.instruments.books import TENANT_LABELS
from orchestrator.policy.admission import AdmissionConfig
from orchestrator.prices import PriceEntry
from orchestrator.views.runs import PriorityName

MIB = 1024 * 1024


class DaemonTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[daemon]`.

    `data_dir` is where sessions, jobs and keys are kept; not said, it is `headrace` in `$XDG_STATE_HOME` or
    `~/.local/state`. On a signal live calls have `drain_seconds` to end. `max_live_runs` bounds runs that are live,
    `runs_per_tenant` and `runs_in_all` those that wait or are live, `keep_ended_runs` those that can still be asked
    about where the store is in memory, `job_workers` a job's live runs. `tenant_labels` is how many tenants have labels
    of their own in metrics. With `open_metrics`, `/metrics` asks for no key; without, for an admin's. `http` are the
    surface's further settings, written in the same table; `host`, `port` and `max_body_bytes` hold, and not what it has
    in their place.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8700
    data_dir: str | None = None
    drain_seconds: NotNegative = 30.0
    max_live_runs: Count = 10_000
    runs_per_tenant: Count = 10_000
    runs_in_all: Count = 50_000
    keep_ended_runs: CountOrNone = 1_000
    job_workers: Count = 64
    default_model: str = ""
    log: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    max_body_bytes: Count = 8 * MIB
    tenant_labels: CountOrNone = TENANT_LABELS
    open_metrics: bool = False
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    http: Annotated[HttpConfig, Meta(extra={"flat": ("host", "port", "body_bytes")})] = HttpConfig()


class ModelPrice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model's tokens cost in dollars per million, from the day `since` on, as published at `source`.

    `cached` and `cache_write` default to the price of input. Raises `InvalidLimits` for what is no price.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    cache_write: Decimal | None = None
    since: datetime.date | None = None
    source: str = ""

    def __post_init__(self) -> None:
        self.entry("")

    def entry(self, model: str) -> PriceEntry:
        return PriceEntry(
            model=model,
            since=self.since or datetime.date.min,
            source=self.source,
            input=self.input,
            output=self.output,
            cached=self.cached,
            cache_write=self.cache_write,
        )


class ModelTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[models.NAME]`: the backends that serve a model, the first choice first.

    `name` is what the backends call it, one name for all or a table by backend; not said, it is NAME itself. Under
    `[models."*"]` it is whatever the caller asked for. `price` is one price, or several from different days on.
    `max_output` is how many tokens an answer can have: what a tenant's budget reserves where a program names no bound.
    """

    backends: Annotated[tuple[str, ...], Meta(min_length=1)]
    name: str | dict[str, str] | None = None
    price: ModelPrice | tuple[ModelPrice, ...] = ()
    max_output: Count | None = None

    @property
    def prices(self) -> Sequence[ModelPrice]:
        return (self.price,) if isinstance(self.price, ModelPrice) else self.price


class TenantBudgetTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tenants.NAME.budget]`: what its runs, jobs and calls may use together, in each day or month (UTC), or in all.

    What is not said is not limited.
    """

    dollars: Decimal | None = None
    tokens: Count | None = None
    per: Literal["day", "month"] | None = None

    def __post_init__(self) -> None:
        self.limits()

    def limits(self) -> Limits:
        return BudgetTable(dollars=self.dollars, tokens=self.tokens).limits()


class TenantTable(LimitKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tenants.NAME]`: its weight among tenants, its work's priorities, its limits on each backend, its budget."""

    weight: Positive = 1.0
    highest_priority: PriorityName = "interactive"
    default_priority: PriorityName = "standard"
    budget: TenantBudgetTable = TenantBudgetTable()


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `source` is its path, empty where there is none."""

    daemon: DaemonTable = field(default_factory=DaemonTable)
    store: StoreTable = StoreTable()
    pool: PoolTable = PoolTable()
    telemetry: TelemetryTable = TelemetryTable()
    backends: dict[str, BackendTable] = {}
    models: dict[str, ModelTable] = {}
    agents: dict[str, AgentTable] = {}
    tools: dict[str, ToolTable] = {}
    tenants: dict[str, TenantTable] = {}
    source: Annotated[str, Meta(extra={"hidden": True})] = ""
