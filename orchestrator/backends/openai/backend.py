"""Any server that speaks OpenAI's dialects: hosted APIs, gateways, llama.cpp, vLLM, Ollama.

Each slot gets a connection of its own; answers are always streamed, but for dialects that have no stream. The adapter
has no clocks for the call: connecting, silence and the whole call are timed by the attempt, which cancels `send`.
Proxies named in the environment are not used.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import httpx2
import trio

from agents.errors import InvalidLimits, ModelError
from agents.messages import Dialect, ModelReply, ModelRequest
from orchestrator.backends.base import Capabilities, Progress
from orchestrator.backends.connection import SlotTransport
from orchestrator.backends.exchange import Exchange
from orchestrator.backends.headers import read_retry_after
from orchestrator.backends.http_answer import Sending
from orchestrator.backends.http_endpoint import (
    add_headers,
    check_numbers,
    checked_url,
    host_of,
    secrets_of,
    tls_context,
    usual_headers,
)
from orchestrator.backends.openai.config import OpenAIConfig
from orchestrator.backends.openai.errors import error_from_response
from orchestrator.backends.openai.operation import Operation, estimated_count, operation_of
from orchestrator.backends.place import Place
from orchestrator.backends.secret import checked_key, load_key
from orchestrator.policy.feedback import Reading

__all__ = ["OpenAIBackend", "OpenAIConfig", "OpenAIConnection"]

BETA: Final = "openai-beta"
"""The header by which a program asks for features of its dialect; it goes on with a request that is not translated."""

_PATHS: dict[Dialect, str] = {
    "chat": "/chat/completions",
    "responses": "/responses",
    "embeddings": "/embeddings",
}
_NUMBERS = ("keepalive_seconds", "grace_seconds", "max_line_bytes", "max_document_bytes", "max_tokens")


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
        self.base_url = checked_url(where, config.base_url, "https://host/v1")
        check_numbers(where, config, _NUMBERS)
        if config.dialects is not None and not config.dialects:
            raise InvalidLimits(f"{where}.dialects", "must name at least one of chat, responses, embeddings")
        key = config.api_key or load_key(where, env=config.api_key_env, file=config.api_key_file, environ=environ)
        self.headers = usual_headers()
        if key is not None:
            checked_key(f"{where}.api_key", "the key", key.reveal())
            self.headers["authorization"] = f"Bearer {key.reveal()}"
        add_headers(where, self.headers, config.headers)
        self.urls = {dialect: httpx2.URL(f"{self.base_url}{path}") for dialect, path in _PATHS.items()}
        self.rules = config.rules()
        self.dialects = config.spoken()
        self.place = Place(host_of(self.base_url), secrets_of(key, config.headers))
        self.ssl_context = tls_context(where, self.base_url, config.ca_file)
        self.sending = Sending(self.place.host, config.grace_seconds, wall, self._failure)

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def url(self) -> httpx2.URL:
        """Where chat completions go."""
        return self.urls["chat"]

    def capabilities(self) -> Capabilities:
        return Capabilities("openai", reports_cached=self.config.reports_cached, dialects=self.dialects)

    def connect(self) -> "OpenAIConnection":
        return OpenAIConnection(self)

    def operation(self, request: ModelRequest) -> Operation:
        """What the request comes to here. Raises `Refused` for one that this server has no words for."""
        return operation_of(request, self.rules, self.dialects, self.place)

    def _failure(
        self, status: int, body: bytes, headers: Mapping[str, str], readings: Sequence[Reading], now: float
    ) -> ModelError:
        return error_from_response(status, body, self.place, readings, read_retry_after(headers, now))

    def __repr__(self) -> str:
        return f"<OpenAIBackend {self.name} {self.base_url}>"


class OpenAIConnection:
    """One request at a time to one endpoint; the socket opens with the first and is kept between them."""

    def __init__(self, backend: OpenAIBackend) -> None:
        self._backend = backend
        self._transport = SlotTransport(backend.base_url, backend.ssl_context, backend.config.keepalive_seconds)
        self._busy = False

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        """Sends one request; see `orchestrator.backends.base.Connection`."""
        if self._busy:
            raise trio.BusyResourceError("this connection is already sending a request")
        backend, config = self._backend, self._backend.config
        wire = request.wire
        if wire is not None and wire.dialect == "count_tokens":
            progress.connected()
            await trio.lowlevel.checkpoint()
            return estimated_count(wire, request.model)
        operation = backend.operation(request)
        headers = backend.headers
        if wire is not None and operation.dialect == wire.dialect and BETA in wire.headers:
            headers = httpx2.Headers([*headers.multi_items(), (BETA, wire.headers[BETA])])
        http_request = httpx2.Request(
            "POST", backend.urls[operation.dialect], headers=headers, content=operation.content
        )
        document = config.max_document_bytes if operation.dialect == "embeddings" else None
        exchange = Exchange(progress, backend.place, config.max_line_bytes, operation.answer, document)
        self._busy = True
        try:
            return await backend.sending.send(self._transport, http_request, exchange, progress)
        finally:
            self._busy = False

    async def aclose(self) -> None:
        """Closes the socket."""
        await self._transport.aclose()

    def __repr__(self) -> str:
        return f"<OpenAIConnection {self._backend.name} {'sending' if self._busy else 'idle'}>"
