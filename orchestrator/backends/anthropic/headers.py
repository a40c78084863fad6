"""The headers of requests to Anthropic: the endpoint's own, and what a program said of how its request is meant.

A program's `anthropic-version` stands instead of the endpoint's; its `anthropic-beta` features are added to them. No
other header of a program goes on, above all no key.
"""

from collections.abc import Iterable, Mapping

import httpx2

from agents.errors import InvalidLimits
from orchestrator.backends.anthropic.config import AnthropicConfig
from orchestrator.backends.http_endpoint import add_headers, usual_headers
from orchestrator.backends.secret import Secret
from orchestrator.dialects.base import Untranslatable

VERSION = "anthropic-version"
BETA = "anthropic-beta"

_LONGEST = 4096


def endpoint_headers(where: str, config: AnthropicConfig, key: Secret | None) -> httpx2.Headers:
    """What goes with every request. Raises `InvalidLimits`."""
    headers = usual_headers()
    for field, value in (("version", config.version), *(("beta", feature) for feature in config.beta)):
        if not _fits(value) or not value.strip():
            raise InvalidLimits(f"{where}.{field}", "must be printable ASCII, and not empty")
    headers[VERSION] = config.version
    if config.beta:
        headers[BETA] = _joined(config.beta)
    if key is not None:
        headers["x-api-key"] = key.reveal()
    add_headers(where, headers, config.headers)
    return headers


def request_headers(own: httpx2.Headers, program: Mapping[str, str]) -> httpx2.Headers:
    """The endpoint's headers with those of a program's that mean something here. Raises `Untranslatable`."""
    version, beta = program.get(VERSION, ""), program.get(BETA, "")
    if not (version or beta):
        return own
    headers = own.copy()
    for name, value in ((VERSION, version), (BETA, beta)):
        if not _fits(value):
            raise Untranslatable(name, f"must be printable ASCII of at most {_LONGEST} characters")
    if version:
        headers[VERSION] = version
    if beta:
        headers[BETA] = _joined([*own.get(BETA, "").split(","), *beta.split(",")])
    return headers


def _fits(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value) and len(value) <= _LONGEST


def _joined(features: Iterable[str]) -> str:
    """Each of them once, in their order."""
    return ",".join(dict.fromkeys(feature.strip() for feature in features if feature.strip()))
