"""What `headrace check` checks: a backend of the configuration file, or a server named on the command line."""

import datetime
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from msgspec import Struct, structs

from agents.errors import HeadraceError, InvalidLimits, ModelError
from agents.money import Price
from orchestrator.backend_choice import BackendError
from orchestrator.backends.anthropic.backend import AnthropicBackend
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import NotInstalled
from orchestrator.backends.local.process import ServerFailed
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.catalogue import ANY_MODEL, Catalogue
from orchestrator.check.models import NoModelList, list_models
from orchestrator.check.report import CheckReport
from orchestrator.check.run import Subject
from orchestrator.config.build import build_backends, build_catalogue
from orchestrator.config.decode import load
from orchestrator.config.find import find_config, require_config
from orchestrator.config.flags import UPSTREAM, Flags, config_from_flags
from orchestrator.config.problems import ConfigError, no_such
from orchestrator.config.schema import Config
from orchestrator.groups import only

_Remote = OpenAIBackend | AnthropicBackend
"""What is somewhere else, and can be asked for its models."""

_LISTED = 12
"""Names of models in one message."""


class CheckOptions(Struct, frozen=True, kw_only=True):
    """The options as given. `timeout` is in seconds, `price` of the model's tokens."""

    backend: str = ""
    config: Path | None = None
    upstream: str = ""
    model: str = ""
    endpoint: str = ""
    api_key_env: str | None = None
    price: Price | None = None
    timeout: float = 60.0


class NoSubject(BackendError):
    """The backend cannot be used, which showed before the check began; `report` says so."""

    def __init__(self, backend: str, why: str, requests: int) -> None:
        super().__init__(why)
        self.report = CheckReport(
            backend=backend, model="", verdict="unusable", message=why, findings=(), requests=requests
        )


class Found(Struct, frozen=True):
    """What is checked, and the lines that begin its table (None where there is one already)."""

    subject: Subject
    table: tuple[str, ...] | None = None


@asynccontextmanager
async def open_subject(options: CheckOptions, note: Callable[[str], None]) -> AsyncGenerator[Found, None]:
    """Finds what is meant, and keeps a local server running until the block ends.

    Raises `InvalidLimits` or `ConfigError` for options and files that make no sense, `NoSubject` where nothing can be
    asked.
    """
    if bool(options.backend) == bool(options.upstream):
        raise InvalidLimits("BACKEND", "name either a backend of the configuration file, or a server with --upstream")
    chosen = _of_flags(options) if options.upstream else _of_file(options)
    try:
        async with trio.open_nursery() as nursery:
            for backend in chosen.endpoints:
                if isinstance(backend, LocalBackend):
                    note("starting the local model ...")
                    await nursery.start(backend.run)
            yield await _with_model(chosen, options)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = only(group, HeadraceError)
        if error is None:
            raise
        if isinstance(error, NotInstalled | ServerFailed):
            raise NoSubject(chosen.shown, error.message, 0) from error
        raise error from None


class _Chosen(Struct, frozen=True, kw_only=True):
    """Before a model is known. `backend` is its name in the configuration, `shown` what a person called it."""

    backend: str
    shown: str
    endpoints: tuple[Backend, ...]
    catalogue: Catalogue
    table: tuple[str, ...] | None = None


def _of_file(options: CheckOptions) -> _Chosen:
    if options.api_key_env is not None:
        raise InvalidLimits("--api-key-env", "goes with --upstream; a configured backend names its own")
    config = load(require_config(options.config))
    if options.backend not in config.backends:
        raise InvalidLimits(
            "BACKEND", f"{no_such('backend', options.backend, list(config.backends))} ({config.source})"
        )
    return _choose(config, options.backend, options, shown=options.backend)


def _of_flags(options: CheckOptions) -> _Chosen:
    if options.config is not None or options.endpoint:
        raise InvalidLimits("--config, --endpoint", "go with a backend of the configuration file, not with --upstream")
    name = options.upstream.rstrip("/")
    lines = [f'kind = "{name}"'] if name in ("local", "simulated") else ['kind = "openai"', f'base_url = "{name}"']
    if options.api_key_env is not None:
        lines.append(f'api_key_env = "{options.api_key_env}"')
    try:
        config = config_from_flags(Flags(upstream=name, api_key_env=options.api_key_env))
        return structs.replace(_choose(config, UPSTREAM, options, shown=name), table=tuple(lines))
    except ConfigError as error:
        raise _as_option(error) from None


def _as_option(error: ConfigError) -> HeadraceError:
    """A complaint about a key that an option stands for, as one about the option."""
    path, message = error.problems[0].path, error.problems[0].message
    if not path:
        return InvalidLimits(*message.split(": ", 1)) if message.startswith("--") else error
    option = "--" + path.rpartition(".")[2].lstrip("-").replace("_", "-")
    return InvalidLimits("--upstream" if option == "--base-url" else option, message)


def _choose(config: Config, backend: str, options: CheckOptions, *, shown: str) -> _Chosen:
    """One backend of a configuration: the others' keys need not be there, and no tool is imported."""
    (plan,) = build_backends(structs.replace(config, backends={backend: config.backends[backend]}))
    names = [endpoint.name for endpoint in plan.endpoints]
    if options.endpoint and options.endpoint not in names:
        raise InvalidLimits("--endpoint", no_such("endpoint", options.endpoint, names))
    endpoints = tuple(one.backend for one in plan.endpoints if options.endpoint in ("", one.name))
    catalogue = build_catalogue(structs.replace(config, agents={}, tools={}), datetime.date.today())
    return _Chosen(backend=backend, shown=shown, endpoints=endpoints, catalogue=catalogue)


async def _with_model(chosen: _Chosen, options: CheckOptions) -> Found:
    """Where no model is named or configured, the backend is asked for its models. That costs one request."""
    public, model = _configured_model(chosen.catalogue, chosen.backend, options.model)
    spent = 0
    if not model:
        model = await _only_model(chosen, options.timeout)
        public, spent = model, 1 if isinstance(chosen.endpoints[0], _Remote) else 0
    own_names = any(isinstance(one, _Remote) and "*" in one.config.models for one in chosen.endpoints)
    subject = Subject(
        backend=chosen.shown,
        model=model,
        endpoints=chosen.endpoints,
        price=options.price or chosen.catalogue.prices.price(public),
        spent=spent,
        has_own_names=own_names,
    )
    return Found(subject, chosen.table)


def _configured_model(catalogue: Catalogue, backend: str, wanted: str) -> tuple[str, str]:
    """A model's name for callers, and what the backend calls it; both empty where nothing says which."""
    if wanted:
        targets = catalogue.models.get(wanted, ())
        return wanted, next((target.model for target in targets if target.backend == backend), wanted)
    served = {
        name: target.model
        for name, targets in catalogue.models.items()
        for target in targets
        if target.backend == backend and target.model != ANY_MODEL
    }
    name = catalogue.default_model if catalogue.default_model in served else next(iter(served), "")
    return name, served.get(name, "")


async def _only_model(chosen: _Chosen, timeout: float) -> str:
    server = chosen.endpoints[0]
    if not isinstance(server, _Remote):
        return "local" if isinstance(server, LocalBackend) else "simulated"
    try:
        names = await list_models(server, timeout)
    except NoModelList as error:
        raise InvalidLimits("--model", f"needed: {error.message}") from None
    except ModelError as error:
        raise NoSubject(chosen.shown, error.message, 1) from error
    if len(names) == 1:
        return names[0]
    raise InvalidLimits("--model", f"needed: {server.place.host} has {_listed(names)}")


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "a list of models with nothing in it"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{len(names)} models: {', '.join(names[:_LISTED])}{more}"


def known_backends(incomplete: str) -> list[str]:
    """Names of configured backends, for the shell's completion. Never fails: there may be no file, or a broken one."""
    try:
        path = find_config()
        names = load(path).backends if path is not None else {}
    except HeadraceError:
        return []
    return [name for name in names if name.startswith(incomplete)]
