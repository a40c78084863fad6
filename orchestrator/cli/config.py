"""`headrace config`: what a configuration means, or what is wrong with it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from orchestrator.cli.exits import DONE, USAGE, complain, say
from orchestrator.cli.render import console, print_json
from orchestrator.config.decode import load
from orchestrator.config.environment import require_all
from orchestrator.config.find import require_config
from orchestrator.config.problems import ConfigError
from orchestrator.config.summary import ConfigView, EndpointView, LimitView, summarise

app = typer.Typer(help="The configuration file.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """The configuration file."""


@app.command()
def check(
    path: Annotated[
        Path | None, typer.Argument(help="The file. Without it, the one that `headrace serve` would take.")
    ] = None,
    file_only: Annotated[
        bool, typer.Option("--file-only", help="Read no keys and import no tools, for a machine that has none.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Says what a configuration means, or everything that is wrong with it.

    Keys are read and tools are imported, as `headrace serve` would do; nothing is started or asked.

    \b
    headrace config check
    headrace config check ./headrace.toml --json

    Exit codes: 0 it can be served, 2 it cannot.
    """
    try:
        config = load(require_config(path))
        if not file_only:
            require_all(config)
    except ConfigError as error:
        if json:
            print_json({"valid": False, "source": error.where, "problems": error.problems})
        else:
            complain(error.message)
        raise typer.Exit(USAGE) from None
    view = summarise(config)
    if json:
        print_json({"valid": True, **msgspec.structs.asdict(view)})
    else:
        _print(view)
    raise typer.Exit(DONE)


def _print(view: ConfigView) -> None:
    out = console()
    out.print(f"{view.source} can be served at {view.listens}, with its data in {view.data_dir}.")
    _table("backend  kind  endpoint  limits  calls in flight", _endpoint_rows(view))
    models = (
        (
            f"{model.name}{' (default)' if model.name == view.default_model else ''}",
            _backends(model.backends),
            _price(model.price),
        )
        for model in view.models
    )
    _table("model  backends, first choice first  dollars per million tokens", models)
    agents = ((agent.name, agent.model, ", ".join(agent.tools) or "-", _amounts(agent.budget)) for agent in view.agents)
    _table("agent  model  tools  budget of a run", agents)
    tools = ((name, tool.kind, tool.what, tool.approval) for name, tool in view.tools.items())
    _table("tool  kind  what it is  approval by people", tools)
    tenants = (
        (
            tenant.name,
            f"{tenant.weight:g}",
            f"{tenant.default_priority}, up to {tenant.highest_priority}",
            _limits(tenant.limits),
            f"{_amounts(tenant.budget)}{f' a {tenant.budget_per}' * bool(tenant.budget_per)}",
        )
        for tenant in view.tenants
    )
    _table("tenant  weight  priority  limits on each backend  budget", tenants)
    for note in view.notes:
        say(f"note: {note}")


def _table(headings: str, rows: Iterable[Sequence[str]]) -> None:
    """A table, unless it would be empty. Headings are two spaces apart."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in headings.split("  "):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        out = console()
        out.print()
        out.print(table)


def _endpoint_rows(view: ConfigView) -> Iterable[Sequence[str]]:
    for backend in view.backends:
        for place, endpoint in enumerate(backend.endpoints):
            first = place == 0
            where = endpoint.address or "in this machine"
            shown = where if len(backend.endpoints) == 1 else f"{endpoint.name}: {where}"
            yield (
                backend.name if first else "",
                backend.kind if first else "",
                shown,
                _limits(endpoint.limits),
                _room(endpoint),
            )


def _room(endpoint: EndpointView) -> str:
    calls = "found by trying" if endpoint.concurrency is None else f"{endpoint.concurrency}"
    return calls if endpoint.tokens_in_flight is None else f"{calls}, {endpoint.tokens_in_flight:,.0f} tokens"


def _limits(limits: Sequence[LimitView]) -> str:
    return ", ".join(f"{limit.amount:,g} {limit.name}" for limit in limits) or "none"


def _backends(names: dict[str, str]) -> str:
    return ", ".join(backend if model == "*" else f"{backend} as {model}" for backend, model in names.items())


def _price(price: dict[str, str]) -> str:
    return ", ".join(f"{kind} {amount}" for kind, amount in price.items()) or "unknown"


def _amounts(budget: dict[str, float]) -> str:
    return ", ".join(f"{name} {amount:,.15g}" for name, amount in budget.items()) or "no limit"
