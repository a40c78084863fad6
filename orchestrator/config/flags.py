"""The configuration that a few options of `headrace serve` mean, without a file."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.config.decode import decode_table
from orchestrator.config.problems import ConfigError, Problem, words_of
from orchestrator.config.schema import Config
from orchestrator.config.write import as_toml
from orchestrator.policy.limitspec import Counted

UPSTREAM: Final = "upstream"
"""The one backend's name."""

_OPTIONS: Final = {
    f"backends.{UPSTREAM}.rpm": "--rpm",
    f"backends.{UPSTREAM}.tpm": "--tpm",
    f"backends.{UPSTREAM}.concurrency": "--concurrency",
    "daemon.default_model": "--model",
}


class Flags(Struct, frozen=True, kw_only=True):
    """What was said. `upstream` is the URL of an OpenAI-compatible server, or `local` or `simulated`.

    `model` is the default model. `weights` are `TENANT=N`. `daemon` are further keys of `[daemon]`; None among them is
    not said.
    """

    upstream: str
    rpm: float | None = None
    tpm: float | None = None
    counted: Counted | None = None
    concurrency: int | None = None
    model: str = ""
    api_key_env: str | None = None
    weights: Sequence[str] = ()
    daemon: Mapping[str, Any] = {}


def config_from_flags(flags: Flags) -> Config:
    """One backend that serves every model. Raises `ConfigError`, naming the options."""
    document, problems = _document(flags)
    try:
        config = decode_table(document, "")
    except ConfigError as error:
        problems += [Problem(_option(problem.path), problem.message) for problem in error.problems]
        raise ConfigError(problems, "these options") from None
    if problems:
        raise ConfigError(problems, "these options")
    return config


def file_from_flags(flags: Flags) -> str:
    """The configuration file that means the same. Raises `ConfigError`, naming the options."""
    config_from_flags(flags)
    document, _ = _document(flags)
    return as_toml(document)


def _document(flags: Flags) -> tuple[dict[str, Any], list[Problem]]:
    problems: list[Problem] = []
    backend: dict[str, Any] = {}
    try:
        backend |= _kind(flags.upstream, flags.api_key_env)
    except InvalidLimits as error:
        problems.append(Problem(error.field, words_of(error)))
        backend["kind"] = "simulated"
    for name in ("rpm", "tpm", "counted", "concurrency"):
        backend[name] = getattr(flags, name)
    document = {
        "daemon": _said({"default_model": flags.model or None, **flags.daemon}),
        "backends": {UPSTREAM: _said(backend)},
        "tenants": _tenants(flags.weights, problems),
    }
    return {name: table for name, table in document.items() if table}, problems


def _kind(upstream: str, api_key_env: str | None) -> dict[str, Any]:
    if upstream in ("local", "simulated"):
        if api_key_env is not None:
            raise InvalidLimits("--api-key-env", f"the {upstream} backend has no key")
        return {"kind": upstream}
    if urlsplit(upstream).scheme not in ("http", "https"):
        raise InvalidLimits("--upstream", f"must be a URL like https://host/v1, local or simulated, not {upstream!r}")
    return {"kind": "openai", "base_url": upstream, "api_key_env": api_key_env}


def _tenants(weights: Sequence[str], problems: list[Problem]) -> dict[str, Any]:
    tenants: dict[str, Any] = {}
    for text in weights:
        tenant, equals, number = text.partition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = None
        if not (tenant and equals) or weight is None:
            problems.append(Problem("--weight", f"must look like TENANT=2, not {text!r}"))
        elif tenant in tenants:
            problems.append(Problem("--weight", f"tenant {tenant!r} is given twice"))
        else:
            tenants[tenant] = {"weight": weight}
    return tenants


def _option(path: str) -> str:
    """The option that stands for a key."""
    if path.startswith("tenants."):
        return f"--weight {path.removeprefix('tenants.').removesuffix('.weight')}"
    return _OPTIONS.get(path) or "--" + path.rpartition(".")[2].replace("_", "-")


def _said(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}
