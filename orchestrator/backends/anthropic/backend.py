"""Anthropic's API: messages, and the count of their tokens.

Each slot gets a connection of its own; answers are always streamed, but for a count of tokens, which has no stream. The
adapter has no clocks for the call: connecting, silence and the whole call are timed by the attempt, which cancels
`send`. Proxies named in the environment are not used.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import httpx2
import trio

from agents.errors import ModelError
from agents.messages import Dialect, ModelReply, ModelRequest
from orchestrator.backends.anthropic.config import AnthropicConfig
from orchestrator.backends.anthropic.errors import error_from_response
from orchestrator.backends.anthropic.headers import endpoint_headers
from orchestrator.backends.anthropic.operation import SPOKEN, operation_of
from orchestrator.backends.base import Capabilities, Progress
from orchestrator.backends.connection import SlotTransport
from orchestrator.backends.exchange import Exchange
from orchestrator.backends.http_answer import Sending
from orchestrator.backends.http_endpoint import check_numbers, checked_url, host_of, secrets_of, tls_context
from orchestrator.backends.place import Place
from orchestrator.backends.secret import checked_key, load_key
from orchestrator.policy.feedback import Reading

__all__ = ["AnthropicBackend", "AnthropicConfig", "AnthropicConnection"]

_PATHS: dict[Dialect, str] = {"messages": "/v1/messages", "count_tokens": "/v1/messages/count_tokens"}
_NUMBERS = ("keepalive_seconds", "grace_seconds", "max_line_bytes", "default_max_tokens")

_BYTES_PER_TOKEN = 2.0
"""At least so many bytes nearly any token of a text has: English has about 4, code 3, Chinese a little over 2."""


class AnthropicBackend:
    """A factory of connections to one endpoint.

    `wall` gives the time of day, needed for limits that reset at a date. Raises `InvalidLimits` for a configuration
    that cannot work: a URL without a host, a key that is not where it should be.
    """

    def __init__(
        self,
        config: AnthropicConfig,
        *,
        environ: Mapping[str, str] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        where = f"backends.{config.name}"
        self.config = config
        self.base_url = checked_url(where, config.base_url, "https://host")
        check_numbers(where, config, _NUMBERS)
        key = config.api_key or load_key(where, env=config.api_key_env, file=config.api_key_file, environ=environ)
        if key is not None:
            checked_key(f"{where}.api_key", "the key", key.reveal())
        self.headers = endpoint_headers(where, config, key)
        root = str(self.base_url).removesuffix("/v1")
        self.urls = {dialect: httpx2.URL(f"{root}{path}") for dialect, path in _PATHS.items()}
        self.rules = config.rules()
        self.place = Place(host_of(self.base_url), secrets_of(key, config.headers))
        self.ssl_context = tls_context(where, self.base_url, config.ca_file)
        self.wall = wall

    @property
    def name(self) -> str:
        return self.config.name

    def capabilities(self) -> Capabilities:
        return Capabilities("anthropic", reports_cached=True, dialects=SPOKEN)

    def connect(self) -> "AnthropicConnection":
        return AnthropicConnection(self)

    def __repr__(self) -> str:
        return f"<AnthropicBackend {self.name} {self.base_url}>"


class AnthropicConnection:
    """One request at a time to one endpoint; the socket opens with the first and is kept between them."""

    def __init__(self, backend: AnthropicBackend) -> None:
        self._backend = backend
        self._transport = SlotTransport(backend.base_url, backend.ssl_context, backend.config.keepalive_seconds)
        self._sending = Sending(backend.place.host, backend.config.grace_seconds, backend.wall, self._failure)
        self._needed = 0.0
        self._busy = False

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        """Sends one request; see `orchestrator.backends.base.Connection`."""
        if self._busy:
            raise trio.BusyResourceError("this connection is already sending a request")
        backend = self._backend
        operation = operation_of(request, backend.rules, backend.headers, backend.place)
        http_request = httpx2.Request(
            "POST", backend.urls[operation.dialect], headers=operation.headers, content=operation.content
        )
        exchange = Exchange(progress, backend.place, backend.config.max_line_bytes, operation.answer)
        self._busy = True
        self._needed = request.input_bytes() / _BYTES_PER_TOKEN
        try:
            return await self._sending.send(self._transport, http_request, exchange, progress)
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Closes the socket."""
        await self._transport.aclose()

    def _failure(
        self, status: int, body: bytes, headers: Mapping[str, str], readings: Sequence[Reading], now: float
    ) -> ModelError:
        return error_from_response(status, body, self._backend.place, headers, readings, now, self._needed)

    def __repr__(self) -> str:
        return f"<AnthropicConnection {self._backend.name} {'sending' if self._busy else 'idle'}>"
