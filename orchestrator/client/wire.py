"""HTTP between a client and a daemon: requests whose answers are decoded, streams of bytes, errors by what helps.

Answers are decoded tolerantly: fields this version doesn't know are skipped, so that a client can talk to a newer
daemon. Proxies from the environment are not used: the daemon is nearly always on this machine, where a proxy can only
be in the way.
"""

import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from orchestrator.backends.connection import SlotTransport
from orchestrator.backends.secret import Secret
from orchestrator.client.errors import BadAddress, BadAnswer, ClientError, DaemonLost, NoDaemon, Quiet, Refusal
from orchestrator.views.errors import ErrorAnswer

T = TypeVar("T")
Params = Mapping[str, str | int | list[str]]

DEFAULT_URL: Final = "http://127.0.0.1:8700"
CONNECT_SECONDS: Final = 5.0
QUIET_SECONDS: Final = 60.0
"""Silence after which a request has failed, and after which a stream is opened again where it stood."""

KEPT_CONNECTIONS: Final = 8
ERROR_BYTES: Final = 64 * 1024
JSON: Final = {"content-type": "application/json"}


class Wire:
    """One daemon over HTTP, asked with `key` if it wants one. `met` says that it has answered at least once, `keep` is
    how many connections are kept for the next request.

    Raises `BadAddress`.
    """

    def __init__(
        self,
        url: str,
        transport: httpx2.AsyncBaseTransport | None = None,
        *,
        key: Secret | None = None,
        keep: int = KEPT_CONNECTIONS,
    ) -> None:
        self.url = check_url(url)
        self.met = False
        self._transport = transport
        self._ssl: ssl.SSLContext | None = None
        self._http = httpx2.AsyncClient(
            base_url=self.url,
            transport=transport,
            trust_env=False,
            verify=self.url.startswith("https:"),  # certificates take a while to load
            timeout=httpx2.Timeout(QUIET_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=keep, keepalive_expiry=5.0),
            headers={"accept-encoding": "identity", **_authorization(key)},
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        type: type[T],
        method: str,
        path: str,
        *,
        params: Params | None = None,
        content: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = True,
    ) -> T:
        """One request and its decoded answer. `repeat`: it may be sent twice, since doing it twice changes nothing.

        A kept connection may have been closed by the daemon in the very moment it is used again, so one lost request
        says little.
        """
        try:
            return await self._ask(type, method, path, params, content, headers)
        except Quiet:
            raise
        except DaemonLost:
            if not repeat:
                raise
        return await self._ask(type, method, path, params, content, headers)

    async def _ask(
        self,
        type: type[T],
        method: str,
        path: str,
        params: Params | None,
        content: bytes | AsyncIterable[bytes] | None,
        headers: Mapping[str, str] | None,
    ) -> T:
        try:
            response = await self._http.request(method, path, params=params, content=content, headers=headers)
        except httpx2.TransportError as error:
            raise self._translate(error) from error
        self._check(response, response.content)
        try:
            return msgspec.json.decode(response.content or b"null", type=type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadAnswer(f"{self.url} does not answer like a Headrace daemon of this version: {error}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Params | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        """The bytes of a long answer as they come, over a connection of its own, closed when the block is left.

        httpx2's own streaming leaves its inner generators unfinished when a reader has had enough, so it is not used.
        """
        request = self._http.build_request("GET", path, params=params, headers=headers)
        transport = self._transport or SlotTransport(request.url, self._ssl_context(), 0.0)
        try:
            try:
                response = await transport.handle_async_request(request)
            except httpx2.TransportError as error:
                raise self._translate(error) from error
            body = response.stream
            assert isinstance(body, httpx2.AsyncByteStream)
            async with aclosing(self._chunks(body)) as chunks:
                if response.status_code >= 300:
                    self._check(response, await _beginning(chunks))
                self.met = True
                yield chunks
        finally:
            if transport is not self._transport:
                await transport.aclose()

    async def _chunks(self, body: httpx2.AsyncByteStream) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in body:
                yield chunk
        except httpx2.TransportError as error:
            raise self._translate(error) from error
        finally:
            await body.aclose()

    def _ssl_context(self) -> ssl.SSLContext | None:
        if self._ssl is None and self.url.startswith("https:"):
            self._ssl = httpx2.create_ssl_context()
        return self._ssl

    def _check(self, response: httpx2.Response, body: bytes) -> None:
        status = response.status_code
        if status < 300:
            self.met = True
            return
        try:
            error = refusal(body, status)
        except BadAnswer:
            raise BadAnswer(
                f"{self.url} answered {status}, and not like a Headrace daemon; is that its address?"
            ) from None
        self.met = True
        if error.retry_after is None:
            error.retry_after = _seconds(response.headers.get("retry-after", ""))
        raise error

    def _translate(self, error: httpx2.TransportError) -> ClientError:
        if isinstance(error, httpx2.ConnectTimeout):
            return NoDaemon(f"no daemon answers at {self.url} within {CONNECT_SECONDS:g} s")
        if isinstance(error, httpx2.ConnectError):
            return NoDaemon(f"there is no daemon at {self.url} ({_connect_reason(error)})")
        if isinstance(error, httpx2.TimeoutException):
            return Quiet(f"the daemon at {self.url} said nothing for {QUIET_SECONDS:g} s")
        return DaemonLost(f"the connection to the daemon at {self.url} broke off")


def _authorization(key: Secret | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key.reveal()}"}


def check_url(url: str) -> str:
    """The address without a slash at its end. Raises `BadAddress`."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise BadAddress(f"{url!r} is no address of a daemon: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise BadAddress(f"{url!r} is no address of a daemon; one looks like {DEFAULT_URL}")
    if parsed.userinfo:
        raise BadAddress("an address with a password in it is not taken: it would end up in messages and logs")
    return str(parsed).rstrip("/")


async def _beginning(chunks: AsyncGenerator[bytes, None]) -> bytes:
    """What an error says, which is short."""
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) > ERROR_BYTES:
            break
    return body


def refusal(body: bytes, status: int) -> Refusal:
    """What an `ErrorAnswer` says. Raises `BadAnswer` where it is none."""
    try:
        error = msgspec.json.decode(body, type=ErrorAnswer).error
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise BadAnswer(f"an error was answered in a way that this version cannot read: {problem}") from problem
    return Refusal(error.message, status=status, kind=error.kind, field=error.field, retry_after=error.retry_after)


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _connect_reason(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
            continue
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return str(error) or "no connection"
