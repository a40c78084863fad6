"""What names in the file must be like, and what they must lead to.

These checks look at the parsed document, not at the structs made of it, so that they find what they can also where
something else is wrong.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agents.errors import InvalidLimits
from orchestrator.catalogue import ANY_MODEL
from orchestrator.config.problems import Path, no_such, words_of
from orchestrator.views.names import check_name

Wrong = Callable[[Path, str], object]
Document = Mapping[str, Any]

OWN_NAME: Final = ("local", "simulated")
"""Kinds of backend that serve any model name, and are the default model themselves where they are alone."""

OF_SERVER: Final = "__"
"""Stands between the name of an MCP server and that of one of its tools."""

_SERVER: Final = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
_LONGEST_SERVER: Final = 32

EVERY_ADDRESS: Final = ("0.0.0.0", "::")
"""Hosts that stand for all addresses of a machine, and for none of them in particular."""

_TOOL: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def default_model(given: str, models: Sequence[str], kinds: Sequence[str]) -> str:
    """The model of agents and requests that name none; empty if there is none.

    `given` is what the file says. Otherwise it is the only model, or an only backend that serves any name.
    """
    named = [name for name in models if name != ANY_MODEL]
    if given:
        return given
    if len(named) == 1:
        return named[0]
    return kinds[0] if not named and len(kinds) == 1 and kinds[0] in OWN_NAME else ""


def check_document(document: Document, wrong: Wrong) -> None:
    """Tells `wrong` of every name that cannot be one, and of every name that leads nowhere."""
    _check_names(document, wrong)
    _check_models(document, wrong)
    _check_agents(document, wrong)
    _check_tenants(document, wrong)
    _check_pool(document, wrong)


def _check_names(document: Document, wrong: Wrong) -> None:
    for table in ("backends", "agents", "tenants"):
        for name in _tables(document, table):
            _check_name((table, name), name, wrong)
    for backend, keys in _tables(document, "backends").items():
        for name in _tables(keys, "endpoints"):
            _check_name(("backends", backend, "endpoints", name), name, wrong)
    _check_tools(document, wrong)
    if "" in _tables(document, "models"):
        wrong(("models", ""), "a model's name is not empty")


def _check_tools(document: Document, wrong: Wrong) -> None:
    tools, agents = _tables(document, "tools"), list(_tables(document, "agents"))
    servers = _servers(document)
    for name, keys in tools.items():
        if not _TOOL.fullmatch(name):
            wrong(("tools", name), "a tool's name has 1 to 64 letters, digits, underscores and dashes")
        elif name in servers and (len(name) > _LONGEST_SERVER or not _SERVER.fullmatch(name)):
            message = f"an MCP server's name has 1 to {_LONGEST_SERVER} letters, digits, dashes and single underscores"
            wrong(("tools", name), f"{message} between them, since its tools are called NAME{OF_SERVER}TOOL")
        elif name.partition(OF_SERVER)[0] in servers - {name}:
            wrong(("tools", name), f"is a name for a tool of the MCP server {name.partition(OF_SERVER)[0]!r}")
        agent = keys.get("agent")
        if isinstance(agent, str) and agent not in agents:
            wrong(("tools", name, "agent"), no_such("agent", agent, agents))


def _servers(document: Document) -> set[str]:
    """The tools that are MCP servers."""
    return {name for name, keys in _tables(document, "tools").items() if "mcp" in keys}


def _check_name(path: Path, name: str, wrong: Wrong) -> None:
    try:
        check_name("", name)
    except InvalidLimits as error:
        wrong(path, f"the name {words_of(error)}")


def _check_models(document: Document, wrong: Wrong) -> None:
    backends, models = list(_tables(document, "backends")), _tables(document, "models")
    if not document.get("backends"):
        wrong(("backends",), "there is none; a daemon needs one at least, as [backends.NAME] with its kind")
    elif len(backends) > 1 and not document.get("models"):
        wrong(("models",), f'say which backends serve which models: [models."*"] with backends = {backends}')
    for model, keys in models.items():
        path, names = ("models", model, "backends"), _texts(keys.get("backends"))
        for place, name in names:
            if name not in backends:
                wrong((*path, place), no_such("backend", name, backends))
            elif name in [before for _, before in names if _ < place]:
                wrong((*path, place), f"backend {name!r} is given twice")
        called = keys.get("name")
        for name in called if isinstance(called, dict) else ():
            if name not in [known for _, known in names]:
                wrong(("models", model, "name", name), no_such("backend of this model", name, [n for _, n in names]))
    default = _tables(document, "daemon", whole=True).get("default_model")
    if isinstance(default, str) and default:
        _check_model(document, ("daemon", "default_model"), default, wrong)


def _check_agents(document: Document, wrong: Wrong) -> None:
    tools, servers = list(_tables(document, "tools")), _servers(document)
    kinds = [str(keys.get("kind")) for keys in _tables(document, "backends").values()]
    given = _tables(document, "daemon", whole=True).get("default_model")
    fallback = default_model(given if isinstance(given, str) else "", list(_tables(document, "models")), kinds)
    for agent, keys in _tables(document, "agents").items():
        model = keys.get("model") or fallback
        if not model:
            wrong(("agents", agent, "model"), "is missing, and there is no daemon.default_model to take its place")
        elif isinstance(model, str):
            if keys.get("model"):
                _check_model(document, ("agents", agent, "model"), model, wrong)
            _check_price(document, ("agents", agent), keys, model, wrong)
            for tool, table in _tables(document, "tools").items():
                if table.get("agent") == agent:
                    _check_price(document, ("tools", tool), table, model, wrong)
        names = _texts(keys.get("tools"))
        for place, name in names:
            path = ("agents", agent, "tools", place)
            server = name.partition(OF_SERVER)[0]
            if name not in tools and server not in servers - {name}:
                wrong(path, no_such("tool", name, tools))
            elif name in [before for _, before in names if _ < place]:
                wrong(path, f"tool {name!r} is given twice")
            elif server in servers - {name} and server in [known for _, known in names]:
                wrong(path, f"tool {name!r} is among those of {server!r}, which are all given")


def _check_model(document: Document, path: Path, model: str, wrong: Wrong) -> None:
    models = _tables(document, "models")
    if models and model not in models and ANY_MODEL not in models:
        wrong(path, no_such("model", model, list(models)))


def _check_price(document: Document, path: Path, keys: Document, model: str, wrong: Wrong) -> None:
    models = _tables(document, "models")
    served = models.get(model, models.get(ANY_MODEL, {} if not models else None))
    if served is not None and "dollars" in _tables(keys, "budget", whole=True) and not served.get("price"):
        name = model if model in models else ANY_MODEL
        message = f"money cannot be limited, since model {model!r} has no price"
        wrong((*path, "budget", "dollars"), f'{message}; give it one in [models."{name}"]')


def _check_tenants(document: Document, wrong: Wrong) -> None:
    models = _tables(document, "models")
    unpriced = [model for model, keys in models.items() if not keys.get("price")] if models else [ANY_MODEL]
    for tenant, keys in _tables(document, "tenants").items():
        if unpriced and "dollars" in _tables(keys, "budget", whole=True):
            names = ", ".join(map(repr, unpriced))
            message = f"money cannot be limited, since a tenant may use any model, and these have no price: {names}"
            wrong(("tenants", tenant, "budget", "dollars"), f'{message}; give each one in [models."NAME"]')


def _check_pool(document: Document, wrong: Wrong) -> None:
    """Workers on other machines need an address of the daemon that leads to it from there."""
    pool, daemon = (_tables(document, key, whole=True) for key in ("pool", "daemon"))
    host = daemon.get("host", "")
    if pool.get("kind") == "ray" and "url" not in pool and host in EVERY_ADDRESS:
        message = f"is missing: the daemon listens on {host}, so say under which address workers reach it"
        wrong(("pool", "url"), f"{message}, as http://host:port")


def _tables(document: object, key: str, *, whole: bool = False) -> Mapping[str, Any]:
    """The tables in a table of tables, or the table itself if it is wanted whole; what is none is not looked at."""
    found = document.get(key) if isinstance(document, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return found if whole else {name: table for name, table in found.items() if isinstance(table, Mapping)}


def _texts(value: object) -> list[tuple[int, str]]:
    """The texts in an array, with their places."""
    items = value if isinstance(value, list) else []
    return [(place, item) for place, item in enumerate(items) if isinstance(item, str)]
