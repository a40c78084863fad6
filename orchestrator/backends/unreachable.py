"""Failures before an answer began, in one clear sentence each.

trio reports a failed connect as an `OSError` with a group of one error per address tried, a failed handshake as a
broken resource; what went wrong is among the causes.
"""

import errno
import socket
import ssl
from collections.abc import Iterator

import httpx2

from agents.errors import Unavailable


def error_from_transport(exc: httpx2.TransportError, host: str, *, written: bool) -> Unavailable:
    """The error for a request that got no response. `written` is whether all of it had been sent."""
    if isinstance(exc, httpx2.ConnectError):
        return Unavailable(_no_connection(exc, host), worked=False)
    if isinstance(exc, httpx2.LocalProtocolError):
        return Unavailable(f"the request to {host} breaks HTTP's rules: {exc}", worked=False)
    if not written:
        return Unavailable(f"{host} closed the connection while the request was being sent", worked=False)
    if isinstance(exc, httpx2.RemoteProtocolError) and "disconnected" not in str(exc):
        return Unavailable(f"{host} does not answer in HTTP: {str(exc).rstrip('.')}")
    return Unavailable(f"{host} closed the connection without an answer")


def _no_connection(exc: BaseException, host: str) -> str:
    causes = list(_leaves(exc))
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return f"the name of {host} cannot be resolved: {cause.strerror}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"TLS with {host} failed: its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, ssl.SSLError):
            return f"TLS with {host} failed: {_tls_reason(cause)}"
    for cause in causes:
        if isinstance(cause, ConnectionRefusedError):
            return f"{host} refused the connection: nothing listens there"
        if isinstance(cause, OSError) and cause.errno is not None:
            return f"cannot connect to {host}: {cause.strerror or errno.errorcode.get(cause.errno, cause.errno)}"
    return f"cannot connect to {host}: it closed the connection during the handshake"


def _tls_reason(cause: ssl.SSLError) -> str:
    if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS (is the URL http:// rather than https://?)"
    return (cause.reason or cause.strerror or "handshake failed").lower().replace("_", " ")


def _leaves(exc: BaseException) -> Iterator[BaseException]:
    """The exception, its causes, and the members of groups among them."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [exc]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, BaseExceptionGroup):
            todo.extend(current.exceptions)
        yield current
        todo.extend((current.__cause__, current.__context__))
