"""Any server that speaks OpenAI's chat completions: hosted APIs, gateways, llama.cpp, vLLM, Ollama.

Each slot gets a connection of its own; answers are always streamed. The adapter has no clocks for the call: connecting,
silence and the whole call are timed by the attempt, which cancels `send`. Only after the outcome is decided does it
wait, for `grace_seconds` at most, for the end of a body: an error's text, or the last bytes that let the connection be
used again. Proxies named in the environment are not used.
"""

import math
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal

import httpx2
import trio
from msgspec import Struct

from agents.errors import InvalidLimits, Unavailable
from agents.messages import ModelReply, ModelRequest
from orchestrator.backends.base import Capabilities, Progress
from orchestrator.backends.connection import SlotTransport
from orchestrator.backends.headers import read_limits, read_retry_after
from orchestrator.backends.openai_answer import CanonicalAnswer
from orchestrator.backends.openai_encode import EncodingRules, encode_request
from orchestrator.backends.openai_errors import Place, error_from_response
from orchestrator.backends.openai_exchange import Exchange
from orchestrator.backends.secret import Secret, checked_key, load_key
from orchestrator.backends.sse import MAX_LINE_BYTES
from orchestrator.backends.unreachable import error_from_transport

_ERROR_BODY_BYTES = 64 * 1024
_KEY_LENGTH = 16


class OpenAIConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One endpoint.

    `base_url` is the URL before `/chat/completions`, usually ending in `/v1`. The key comes from `api_key`, else from
    the environment variable `api_key_env`, else from the file `api_key_file`; with none of them no key is sent.
    `models` maps the names that callers use to the server's (`*` stands for any other). `headers` are sent with every
    request. `null_content`, `include_usage`, `max_tokens`, `max_tokens_field` and `reasoning_field` fit the request to
    the server, see `EncodingRules`. `max_line_bytes` bounds one chunk of an answer. `ca_file` names certificates to
    trust instead of the system's.
    """

    name: str
    base_url: str
    api_key: Secret | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    models: dict[str, str] = {}
    headers: dict[str, str] = {}
    null_content: Literal["empty", "keep"] = "empty"
    include_usage: bool = True
    max_tokens: int | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    reasoning_field: str | None = None
    reports_cached: bool = False
    max_line_bytes: int = MAX_LINE_BYTES
    keepalive_seconds: float = 30.0
    grace_seconds: float = 0.25
    ca_file: str | None = None

    def rules(self) -> EncodingRules:
        return EncodingRules(
            models=self.models,
            null_content=self.null_content,
            include_usage=self.include_usage,
            max_tokens=self.max_tokens,
            max_tokens_field=self.max_tokens_field,
            reasoning_field=self.reasoning_field,
        )

    def __repr__(self) -> str:
        return f"<OpenAIConfig {self.name} {self.base_url}>"


class OpenAIBackend:
    """A factory of connections to one endpoint.

    `wall` gives the time of day, needed for limits that reset at a date. Raises `InvalidLimits` for a configuration
    that cannot work: a URL without a host, a key that is not where it should be.
    """

    def __init__(
        self,
        config: OpenAIConfig,
        *,
        environ: Mapping[str, str] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        where = f"backends.{config.name}"
        self.config = config
        self.wall = wall
        self.url = _completions_url(where, config.base_url)
        _check_numbers(where, config)
        key = config.api_key or load_key(where, env=config.api_key_env, file=config.api_key_file, environ=environ)
        if key is not None:
            checked_key(f"{where}.api_key", "the key", key.reveal())
        self.headers = _headers(where, config, key)
        self.rules = config.rules()
        self.place = Place(_host(self.url), _secrets(config, key))
        self.ssl_context = _ssl_context(where, config) if self.url.scheme == "https" else None

    @property
    def name(self) -> str:
        return self.config.name

    def capabilities(self) -> Capabilities:
        return Capabilities("openai", reports_cached=self.config.reports_cached)

    def connect(self) -> "OpenAIConnection":
        return OpenAIConnection(self)

    def __repr__(self) -> str:
        return f"<OpenAIBackend {self.name} {self.url}>"


class OpenAIConnection:
    """One request at a time to one endpoint; the socket opens with the first and is kept between them."""

    def __init__(self, backend: OpenAIBackend) -> None:
        self._backend = backend
        self._transport = SlotTransport(backend.url, backend.ssl_context, backend.config.keepalive_seconds)
        self._busy = False

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        """Sends one request; see `orchestrator.backends.base.Connection`."""
        if self._busy:
            raise trio.BusyResourceError("this connection is already sending a request")
        backend = self._backend
        content = encode_request(request, backend.rules)
        http_request = httpx2.Request("POST", backend.url, headers=backend.headers, content=content)
        exchange = Exchange(progress, backend.place, backend.config.max_line_bytes, CanonicalAnswer(backend.place))
        self._busy = True
        self._transport.watch = exchange
        try:
            return await self._send(http_request, exchange, progress)
        finally:
            self._transport.watch = None
            self._busy = False

    async def aclose(self) -> None:
        """Closes the socket."""
        await self._transport.aclose()

    async def _send(self, request: httpx2.Request, exchange: Exchange, progress: Progress) -> ModelReply:
        backend = self._backend
        try:
            response = await self._transport.handle_async_request(request)
        except httpx2.TransportError as exc:
            raise error_from_transport(exc, backend.place.host, written=exchange.sent) from exc
        body = response.stream
        assert isinstance(body, httpx2.AsyncByteStream)
        chunks = body.__aiter__()
        try:
            headers = {name.lower(): value for name, value in response.headers.multi_items()}
            now = backend.wall()
            readings = read_limits(headers, now)
            progress.headers(readings)
            if response.status_code != 200:
                text = await self._error_body(chunks, exchange)
                raise error_from_response(
                    response.status_code, text, backend.place, readings, read_retry_after(headers, now)
                )
            encoding = headers.get("content-encoding", "identity")
            if encoding != "identity":
                raise Unavailable(f"{backend.place.host} compressed its answer ({encoding}), which was not asked for")
            reply = await exchange.read_reply(chunks, headers.get("content-type", ""))
            await self._drain(chunks)
            return reply
        finally:
            await body.aclose()

    async def _error_body(self, chunks: AsyncIterator[bytes], exchange: Exchange) -> bytes:
        """The beginning of an error's body. The status has decided already, so nothing here can fail or hang."""
        text = b""
        with trio.move_on_after(self._backend.config.grace_seconds):
            try:
                async for chunk in chunks:
                    exchange.heard()
                    text += chunk
                    if len(text) > _ERROR_BODY_BYTES:
                        break
            except httpx2.TransportError:
                pass
        return text

    async def _drain(self, chunks: AsyncIterator[bytes]) -> None:
        """Reads on to the body's end, so that the connection can be used again; what doesn't end is closed."""
        with trio.move_on_after(self._backend.config.grace_seconds):
            try:
                async for _ in chunks:
                    pass
            except httpx2.TransportError:
                pass

    def __repr__(self) -> str:
        return f"<OpenAIConnection {self._backend.name} {'sending' if self._busy else 'idle'}>"


def _completions_url(where: str, base_url: str) -> httpx2.URL:
    try:
        url = httpx2.URL(base_url.rstrip("/") + "/chat/completions")
    except httpx2.InvalidURL as exc:
        raise InvalidLimits(f"{where}.base_url", f"{exc}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidLimits(f"{where}.base_url", "must look like https://host/v1")
    if url.userinfo or url.query or url.fragment:
        raise InvalidLimits(f"{where}.base_url", "takes no user, password, query or fragment; use api_key_env")
    return url


def _host(url: httpx2.URL) -> str:
    host = f"[{url.host}]" if ":" in url.host else url.host
    return host if url.port is None else f"{host}:{url.port}"


def _headers(where: str, config: OpenAIConfig, key: Secret | None) -> httpx2.Headers:
    headers = httpx2.Headers(
        {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "headrace",
        }
    )
    if key is not None:
        headers["authorization"] = f"Bearer {key.reveal()}"
    for name, value in config.headers.items():
        if not (name.isascii() and value.isascii() and value.isprintable()):
            raise InvalidLimits(f"{where}.headers.{name!r}", "names and values must be printable ASCII")
        headers[name] = value
    return headers


def _secrets(config: OpenAIConfig, key: Secret | None) -> tuple[Secret, ...]:
    """What no message may quote: the key, and extra headers long enough to be one."""
    values = [Secret(value) for value in config.headers.values() if len(value) >= _KEY_LENGTH]
    return (key, *values) if key is not None else tuple(values)


def _check_numbers(where: str, config: OpenAIConfig) -> None:
    for field in ("keepalive_seconds", "grace_seconds", "max_line_bytes", "max_tokens"):
        value: float | None = getattr(config, field)
        if value is not None and not (value >= 0 and math.isfinite(value)):
            raise InvalidLimits(f"{where}.{field}", f"must be a number of at least 0, not {value}")


def _ssl_context(where: str, config: OpenAIConfig) -> ssl.SSLContext:
    if config.ca_file is None:
        return httpx2.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=config.ca_file)
    except OSError as exc:
        raise InvalidLimits(f"{where}.ca_file", f"cannot read {config.ca_file}: {exc.strerror or exc}") from None
