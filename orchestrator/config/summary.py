"""What a configuration means, in short."""

from collections.abc import Sequence

from msgspec import Struct, structs

from orchestrator.catalogue import ANY_MODEL
from orchestrator.config.build import address_of
from orchestrator.config.catalogue import default_of, targets_of
from orchestrator.config.find import data_dir
from orchestrator.config.policy import EndpointRules, rules_of
from orchestrator.config.references import OF_SERVER
from orchestrator.config.schema import Config, ModelTable
from orchestrator.config.words import said_keys
from orchestrator.policy.limits import LimitSpec


class LimitView(Struct, frozen=True):
    """One limit: `name` is like `requests/min`."""

    name: str
    amount: float
    counted: str


class EndpointView(Struct, frozen=True):
    """One endpoint. `address` is empty for what is in this machine; `concurrency` None is found by trying."""

    name: str
    address: str
    limits: list[LimitView]
    concurrency: int | None
    tokens_in_flight: float | None


class BackendView(Struct, frozen=True):
    """One backend."""

    name: str
    kind: str
    endpoints: list[EndpointView]


class ModelView(Struct, frozen=True):
    """One model: `backends` in order, and what it is called there. `price` is in dollars per million tokens."""

    name: str
    backends: dict[str, str]
    price: dict[str, str]


class AgentView(Struct, frozen=True):
    """One agent."""

    name: str
    model: str
    tools: list[str]
    budget: dict[str, float]


class ToolView(Struct, frozen=True):
    """One tool: `what` is the function, the program, the address or the agent; `approval` who must be asked, and when.

    A function that is a tool already may ask for approval itself, which is not seen here.
    """

    kind: str
    what: str
    approval: str


class TenantView(Struct, frozen=True):
    """One tenant; its limits hold on each backend. `budget` is what it may use in each `budget_per`, or in all."""

    name: str
    weight: float
    highest_priority: str
    default_priority: str
    limits: list[LimitView]
    budget: dict[str, float]
    budget_per: str


class ConfigView(Struct, frozen=True, kw_only=True):
    """The whole configuration. `notes` are what is allowed, and probably not meant."""

    source: str
    listens: str
    data_dir: str
    store: str
    pool: str
    default_model: str
    backends: list[BackendView]
    models: list[ModelView]
    agents: list[AgentView]
    tools: dict[str, ToolView]
    tenants: list[TenantView]
    notes: list[str]


def summarise(config: Config) -> ConfigView:
    """The configuration for people; no keys, no headers."""
    host = config.daemon.host
    return ConfigView(
        source=config.source,
        listens=f"http://{f'[{host}]' if ':' in host else host}:{config.daemon.port}",
        data_dir=str(data_dir(config)),
        store=config.store.kind,
        pool=config.pool.kind,
        default_model=default_of(config),
        backends=[_backend(config, name) for name in config.backends],
        models=[
            ModelView(name, {target.backend: target.model for target in targets}, _price(config.models.get(name)))
            for name, targets in targets_of(config).items()
        ],
        agents=[
            AgentView(name, agent.model or default_of(config), list(agent.tools), _numbers(agent.budget))
            for name, agent in config.agents.items()
        ],
        tools={name: ToolView(tool.kind, tool.what, tool.approval or "never") for name, tool in config.tools.items()},
        tenants=[
            TenantView(
                name,
                table.weight,
                table.highest_priority,
                table.default_priority,
                _limits(table.specs()),
                _numbers(structs.replace(table.budget, per=None)),
                table.budget.per or "",
            )
            for name, table in config.tenants.items()
        ],
        notes=_notes(config),
    )


def _backend(config: Config, name: str) -> BackendView:
    table = config.backends[name]
    endpoints = [_endpoint(config, name, endpoint, rules) for endpoint, rules in rules_of(config, name).items()]
    return BackendView(name, str(table.__struct_config__.tag), endpoints)


def _endpoint(config: Config, backend: str, name: str, rules: EndpointRules) -> EndpointView:
    tokens = None if rules.in_flight is None else rules.in_flight.tokens
    return EndpointView(name, address_of(config, backend, name), _limits(rules.limits), rules.concurrency.fixed, tokens)


def _limits(specs: Sequence[LimitSpec]) -> list[LimitView]:
    return [LimitView(spec.name, spec.amount, spec.counted) for spec in specs]


def _price(table: ModelTable | None) -> dict[str, str]:
    """The last price of those that are dated."""
    return (
        {}
        if table is None or not table.prices
        else {key: str(value) for key, value in said_keys(table.prices[-1]).items()}
    )


def _numbers(table: Struct) -> dict[str, float]:
    return {key: float(str(value)) for key, value in said_keys(table).items()}


def _notes(config: Config) -> list[str]:
    serving = {target.backend for targets in targets_of(config).values() for target in targets}
    notes = [f"backend {name} serves no model" for name in config.backends if name not in serving]
    servers = {tool.partition(OF_SERVER)[0] for agent in config.agents.values() for tool in agent.tools}
    used = {tool for agent in config.agents.values() for tool in agent.tools}
    notes += [f"tool {name} belongs to no agent" for name in config.tools if name not in used | servers]
    if not default_of(config) and ANY_MODEL not in config.models:
        notes.append("there is no default model: whoever names none is refused; set daemon.default_model")
    return notes
