"""From a configuration to backends and their owners' configuration. Adapters are made; nothing connects or starts."""

import os
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct, structs

from agents.errors import InvalidLimits
from orchestrator.backend_choice import OPENAI_URL, enforced, faster, usual_key
from orchestrator.backends.anthropic.backend import AnthropicBackend, AnthropicConfig
from orchestrator.backends.anthropic.config import ANTHROPIC_URL
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import LocalConfig
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.simulated.backend import SimProvider, SimulatedBackend
from orchestrator.backends.simulated.config import SimConfig
from orchestrator.backends.simulated.script import Script
from orchestrator.config.backend_tables import (
    AnthropicTable,
    LocalTable,
    OpenAITable,
    RemoteTable,
    SimulatedTable,
)
from orchestrator.config.catalogue import ModelPrices, build_catalogue, default_of
from orchestrator.config.find import beside, folder
from orchestrator.config.named import find_named
from orchestrator.config.policy import EndpointRules, dispatch_of, policy_of, rules_of
from orchestrator.config.problems import ConfigError, Problem, show_path, words_of
from orchestrator.config.schema import Config
from orchestrator.owner_config import Endpoint, OwnerConfig

__all__ = ["BackendPlan", "ModelPrices", "build_backends", "build_catalogue", "default_of", "policy_of"]


class BackendPlan(Struct, frozen=True):
    """What one owner is made from."""

    owner: OwnerConfig
    endpoints: tuple[Endpoint, ...]


def build_backends(config: Config, environ: Mapping[str, str] = os.environ) -> list[BackendPlan]:
    """The backends in the order of the file. Raises `ConfigError` with every key and address that cannot be used."""
    problems: list[Problem] = []
    plans = [_plan(config, backend, environ, problems) for backend in config.backends]
    if problems:
        raise ConfigError(problems, config.source)
    return plans


def _plan(config: Config, backend: str, environ: Mapping[str, str], problems: list[Problem]) -> BackendPlan:
    endpoints = []
    for name, rules in rules_of(config, backend).items():
        try:
            endpoints.append(_endpoint(config, backend, name, rules, environ))
        except InvalidLimits as error:
            problems.append(_problem(config, backend, name, error))
    owner = OwnerConfig(name=backend, dispatch=dispatch_of(config, backend), clocks=config.backends[backend].clocks)
    return BackendPlan(owner, tuple(endpoints))


def _endpoint(config: Config, backend: str, name: str, rules: EndpointRules, environ: Mapping[str, str]) -> Endpoint:
    table = config.backends[backend]
    adapter: Backend
    if isinstance(table, OpenAITable):
        adapter = OpenAIBackend(server_config(config, backend, name), environ=environ)
    elif isinstance(table, AnthropicTable):
        adapter = AnthropicBackend(anthropic_config(config, backend, name), environ=environ)
    elif isinstance(table, LocalTable):
        adapter = LocalBackend(_engine(config, table, name))
    else:
        script = None if table.script is None else _script(table.script, config)
        adapter = SimulatedBackend(name, SimProvider(_provider(table, rules), script=script))
    return Endpoint(
        name=name,
        backend=adapter,
        limits=rules.limits,
        in_flight=rules.in_flight,
        concurrency=rules.concurrency,
        breaker=rules.breaker,
        headroom=rules.headroom,
    )


def server_config(config: Config, backend: str, endpoint: str) -> OpenAIConfig:
    """How one endpoint is reached: what it says itself before what its backend says."""
    table = config.backends[backend]
    assert isinstance(table, OpenAITable)
    return OpenAIConfig(name=_full_name(backend, endpoint), **_reached(config, table, endpoint, OPENAI_URL))


def anthropic_config(config: Config, backend: str, endpoint: str) -> AnthropicConfig:
    """The same for an endpoint of Anthropic's; answers are bounded by what the backend's policy predicts at most."""
    table = config.backends[backend]
    assert isinstance(table, AnthropicTable)
    said = _reached(config, table, endpoint, ANTHROPIC_URL)
    return AnthropicConfig(name=_full_name(backend, endpoint), default_max_tokens=table.default_max_tokens, **said)


def address_of(config: Config, backend: str, endpoint: str) -> str:
    """The base URL of one endpoint; empty for what is in this machine."""
    table = config.backends[backend]
    if isinstance(table, OpenAITable):
        return server_config(config, backend, endpoint).base_url
    return anthropic_config(config, backend, endpoint).base_url if isinstance(table, AnthropicTable) else ""


def _full_name(backend: str, endpoint: str) -> str:
    return endpoint if endpoint == backend else f"{backend}.{endpoint}"


def _reached(config: Config, table: RemoteTable, endpoint: str, usual_url: str) -> dict[str, Any]:
    """What is said of one endpoint, by itself or by its backend, and the usual address and key where nothing is."""
    default = table.server.given()
    given = table.endpoints[endpoint].server.given() if table.endpoints else {}
    if given.keys() & {"api_key_env", "api_key_file"}:
        default = {name: value for name, value in default.items() if name not in ("api_key_env", "api_key_file")}
    said = {"base_url": usual_url, **default, **given}
    for name in ("api_key_file", "ca_file"):
        if name in said:
            said[name] = str(beside(config, said[name]))
    if "api_key_file" not in said:
        said.setdefault("api_key_env", usual_key(said["base_url"]))
    return said


def _engine(config: Config, table: LocalTable, name: str) -> LocalConfig:
    paths = {key: getattr(table.engine, key) for key in ("weights", "chat_template")}
    found = {key: str(beside(config, path)) for key, path in paths.items() if path is not None}
    return structs.replace(table.engine, name=name, **found)


def _provider(table: SimulatedTable, rules: EndpointRules) -> SimConfig:
    return structs.replace(
        table.provider,
        latency=faster(table.provider.latency, table.speed),
        limits=enforced(rules.limits) if table.enforces is None else table.enforces,
    )


def _script(reference: str, config: Config) -> Script:
    """The function. Raises `InvalidLimits`."""
    found = find_named(reference, folder(config), "script")
    if not callable(found):
        raise InvalidLimits("script", f"{reference} is no function")
    return cast(Script, found)


def _problem(config: Config, backend: str, endpoint: str, error: InvalidLimits) -> Problem:
    """The adapter's complaint, at the key's place in the file: with the endpoint that says it, or with its backend."""
    field = error.field.removeprefix(f"backends.{backend}.").removeprefix(f"{endpoint}.")
    path: tuple[str, ...] = ("backends", backend)
    table = config.backends[backend]
    if isinstance(table, RemoteTable) and endpoint in table.endpoints:
        key, own = field.partition(".")[0], table.endpoints[endpoint].server.given()
        if key in own or key not in table.server.given():
            path = (*path, "endpoints", endpoint)
    return Problem(f"{show_path(path)}.{field}", words_of(error))
