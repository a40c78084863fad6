"""What every endpoint over HTTP has: an address, headers, secrets, TLS. Checked here, used by its connections.

`where` is the configuration path for messages (`backends.NAME`). Everything raises `InvalidLimits` for what cannot
work, and never quotes what may be a key.
"""

import math
import ssl
from collections.abc import Iterable, Mapping

import httpx2

from agents.errors import InvalidLimits
from orchestrator.backends.secret import Secret

_KEY_LENGTH = 16


def checked_url(where: str, base_url: str, like: str) -> httpx2.URL:
    """The base URL without a slash at its end; `like` shows a person what it has to look like."""
    try:
        url = httpx2.URL(base_url.rstrip("/"))
    except httpx2.InvalidURL as exc:
        raise InvalidLimits(f"{where}.base_url", f"{exc}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidLimits(f"{where}.base_url", f"must look like {like}")
    if url.userinfo or url.query or url.fragment:
        raise InvalidLimits(f"{where}.base_url", "takes no user, password, query or fragment; use api_key_env")
    return url


def host_of(url: httpx2.URL) -> str:
    """The host as people write it, with its port where that is not the usual one."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host if url.port is None else f"{host}:{url.port}"


def usual_headers() -> httpx2.Headers:
    """What goes with every request: a body in JSON, and an answer that nothing has compressed."""
    return httpx2.Headers(
        {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "headrace",
        }
    )


def add_headers(where: str, headers: httpx2.Headers, extra: Mapping[str, str]) -> None:
    """Adds configured headers, which replace those of the same name."""
    for name, value in extra.items():
        if not (name.isascii() and value.isascii() and value.isprintable()):
            raise InvalidLimits(f"{where}.headers.{name!r}", "names and values must be printable ASCII")
        headers[name] = value


def secrets_of(key: Secret | None, headers: Mapping[str, str]) -> tuple[Secret, ...]:
    """What no message may quote: the key, and extra headers long enough to be one."""
    values = [Secret(value) for value in headers.values() if len(value) >= _KEY_LENGTH]
    return (key, *values) if key is not None else tuple(values)


def check_numbers(where: str, config: object, fields: Iterable[str]) -> None:
    """Each of these fields is None or a finite number of at least 0."""
    for field in fields:
        value: float | None = getattr(config, field)
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise InvalidLimits(f"{where}.{field}", f"must be a number of at least 0, not {value}")


def tls_context(where: str, url: httpx2.URL, ca_file: str | None) -> ssl.SSLContext | None:
    """How the server's certificate is judged; None for an address without TLS."""
    if url.scheme != "https":
        return None
    if ca_file is None:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as exc:
        raise InvalidLimits(f"{where}.ca_file", f"cannot read {ca_file}: {exc.strerror or exc}") from None
