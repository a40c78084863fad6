"""What the file says of models, agents, tools, tenants and prices, as the daemon's catalogue."""

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence

from agents.amounts import UNLIMITED
from agents.errors import HeadraceError, InvalidLimits
from agents.money import Price
from agents.port import Priority
from agents.spec import AgentSpec
from agents.tools import BaseTool
from orchestrator.budgets import TenantBudget
from orchestrator.catalogue import ANY_MODEL, Catalogue, Target, TenantRules
from orchestrator.config.agent_tables import AgentTable
from orchestrator.config.find import folder
from orchestrator.config.problems import ConfigError, Problem, show_path, words_of
from orchestrator.config.references import OF_SERVER, default_model
from orchestrator.config.schema import Config, ModelTable, TenantTable
from orchestrator.config.tools import make_tool
from orchestrator.prices import PriceEntry, PriceTable
from orchestrator.tools.output import Blobs


class ModelPrices:
    """Prices as of one day; a model without a table of its own has the price of any model."""

    __slots__ = ("_named", "_table")

    def __init__(self, entries: Iterable[PriceEntry], named: Iterable[str], day: datetime.date) -> None:
        self._named = frozenset(named)
        self._table = PriceTable(entries, day)

    def price(self, model: str) -> Price | None:
        """The price of a model's tokens on that day; None where it is not known."""
        return self._table.price(model if model in self._named else ANY_MODEL)


def build_catalogue(
    config: Config,
    today: datetime.date,
    *,
    environ: Mapping[str, str] = os.environ,
    blobs: Blobs | None = None,
) -> Catalogue:
    """The catalogue with the prices of `today`; imports the functions of tools.

    `blobs` take what commands write beyond what a model is told. Raises `ConfigError` with all that is wrong with them.

    A module that was imported before is not read again, so a reload does not see a changed source.
    """
    problems: list[Problem] = []
    tools = _tools(config, environ, blobs, problems)
    models = targets_of(config)
    default = default_of(config)
    agents: dict[str, AgentSpec] = {}
    for name, agent in config.agents.items():
        if all(tool in tools or is_elsewhere(config, tool) for tool in agent.tools):
            try:
                agents[name] = _agent(name, agent, tools, default)
            except HeadraceError as error:
                problems.append(Problem(show_path(("agents", name)), error.message))
    if problems:
        raise ConfigError(problems, config.source)
    return Catalogue(
        models=models,
        default_model=default,
        agents=agents,
        elsewhere={
            name: names
            for name, agent in config.agents.items()
            if (names := tuple(tool for tool in agent.tools if is_elsewhere(config, tool)))
        },
        tenants={name: _rules(table) for name, table in config.tenants.items()},
        prices=prices_of(config, today),
        max_output={name: table.max_output for name, table in config.models.items() if table.max_output is not None},
    )


def default_of(config: Config) -> str:
    """The model of agents and requests that name none; empty if there is none."""
    kinds = [str(table.__struct_config__.tag) for table in config.backends.values()]
    return default_model(config.daemon.default_model, list(config.models), kinds)


def targets_of(config: Config) -> Mapping[str, Sequence[Target]]:
    """For each model its backends in order of preference, and its name there; `*` is whatever was asked for."""
    if not config.models:
        return {ANY_MODEL: tuple(Target(backend, ANY_MODEL) for backend in config.backends)}
    return {
        model: tuple(Target(backend, _called(model, table, backend)) for backend in table.backends)
        for model, table in config.models.items()
    }


def budgets_of(config: Config) -> Mapping[str, TenantBudget]:
    """The budgets of tenants that have one."""
    found = {}
    for name, table in config.tenants.items():
        limits = table.budget.limits()
        if limits != UNLIMITED:
            found[name] = TenantBudget(
                micro_dollars=limits.micro_dollars, tokens=limits.tokens, per=table.budget.per or "ever"
            )
    return found


def _called(model: str, table: ModelTable, backend: str) -> str:
    name = table.name.get(backend) if isinstance(table.name, dict) else table.name
    return model if name is None else name


def is_elsewhere(config: Config, tool: str) -> bool:
    """Whether what an agent names so is an MCP server or one of a server's tools."""
    server = config.tools.get(tool) or config.tools.get(tool.partition(OF_SERVER)[0])
    return server is not None and server.kind == "mcp"


def _tools(
    config: Config, environ: Mapping[str, str], blobs: Blobs | None, problems: list[Problem]
) -> dict[str, BaseTool]:
    tools: dict[str, BaseTool] = {}
    for name, table in config.tools.items():
        try:
            made = make_tool(name, table, folder(config), environ=environ, blobs=blobs)
        except InvalidLimits as error:
            problems.append(Problem(show_path(("tools", name, error.field)), words_of(error)))
        else:
            if made is not None:
                tools[name] = made
    return tools


def _agent(name: str, table: AgentTable, tools: Mapping[str, BaseTool], default: str) -> AgentSpec:
    return AgentSpec(
        name=name,
        model=table.model or default,
        system=table.system,
        tools=tuple(tools[tool] for tool in table.tools if tool in tools),
        limits=table.budget.limits(),
        demonstration=table.demonstration,
        max_tokens=table.max_tokens,
        temperature=table.temperature,
        seed=table.seed,
        stop=table.stop,
        tool_choice=table.tool_choice,
        response_format=table.response_format,
        on_tool_error=table.on_tool_error,
        tool_concurrency=table.tool_concurrency,
        extra=table.extra,
        compact_at=table.compact_at,
        compact_keep=table.compact_keep,
    )


def _rules(table: TenantTable) -> TenantRules:
    return TenantRules(
        highest_priority=Priority[table.highest_priority.upper()],
        default_priority=Priority[table.default_priority.upper()],
    )


def prices_of(config: Config, today: datetime.date) -> ModelPrices:
    """What models cost on that day."""
    entries = [price.entry(model) for model, table in config.models.items() for price in table.prices]
    return ModelPrices(entries, config.models, today)
