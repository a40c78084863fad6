"""Who may ask at all, before any route is looked at.

On loopback this daemon asks for no key: whoever is on this machine may use it. A web page in a browser on this machine
is not meant by that, and gets in by two ways:

- **DNS rebinding**: the page's own name is made to point to 127.0.0.1, so the browser takes the daemon for the page's
  server. The request then carries that name in `Host`; so on loopback only names of this machine are answered, and
  those configured (`daemon.allowed_hosts`). An address other than loopback's has keys instead.
- **Cross-site requests**: the page simply sends to 127.0.0.1; it cannot read the answer, but a POST has its effect all
  the same. Browsers send `Origin` with it, or `Sec-Fetch-Site`; so what comes from another origin than the daemon's own
  is refused under `/api`. Programs send neither.

Only HTTP/1 is spoken: HTTP/2 would need bounds of its own and has no use here.
"""

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from agents.errors import HeadraceError
from orchestrator.api.surface import HttpConfig, is_loopback

GUARDED: Final = ("/api", "/v1")


class ForeignHost(HeadraceError):
    """The request was meant for a host of another name."""


class ForeignOrigin(HeadraceError):
    """The request was made by a web page of another origin."""


class WrongVersion(HeadraceError):
    """A version of HTTP that is not spoken here."""


def check_request(scope: Scope, config: HttpConfig) -> None:
    """Raises `WrongVersion`, `ForeignHost` or `ForeignOrigin` for a request that must not go further."""
    version = scope["http_version"]
    if not version.startswith("1"):
        raise WrongVersion(f"HTTP/{version} is not spoken here; use HTTP/1.1")
    headers = Headers(scope=scope)
    if config.loopback:
        _check_host(headers.getlist("host"), config)
    if scope["path"].startswith(GUARDED):
        _check_origin(headers)


def _check_host(hosts: list[str], config: HttpConfig) -> None:
    host = host_name(hosts[0]) if len(hosts) == 1 else ""
    if not is_loopback(host) and host not in config.allowed_hosts:
        said = repr(hosts[0][:80]) if hosts else "none"
        raise ForeignHost(
            f"Host: must name this machine (localhost, 127.0.0.1, [::1]), not {said};"
            " a proxy's name can be allowed in daemon.allowed_hosts"
        )


def _check_origin(headers: Headers) -> None:
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        raise ForeignOrigin(f"Origin: a page of {origin[:80]!r} may not use this daemon")
    if origin is None and headers.get("sec-fetch-site") == "cross-site":
        raise ForeignOrigin("Sec-Fetch-Site: a page of another site may not use this daemon")


def host_name(host: str) -> str:
    """The name in a Host header, in small letters, without its port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0].lstrip("[")
    return host.partition(":")[0]
