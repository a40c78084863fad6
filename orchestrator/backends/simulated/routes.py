"""What the simulated provider answers to: OpenAI's resources and Anthropic's, side by side under `/v1`.

| resource | |
|---|---|
| `POST /v1/chat/completions`, `POST /v1/responses` | OpenAI, streamed and whole |
| `POST /v1/embeddings` | OpenAI |
| `POST /v1/messages`, `POST /v1/messages/count_tokens` | Anthropic, the first one streamed and whole |
| `GET /v1/models`, `GET /v1/models/{id}` | either, as the header `anthropic-version` says |
| `GET /healthz` | |

OpenAI's clients have the base URL with `/v1`, Anthropic's the one without. A key comes as `Authorization: Bearer` or
`x-api-key`. Errors that no resource has made are of the dialect that the request seems to speak.
"""

import hmac
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import unquote

from orchestrator.backends.simulated.anthropic import AnthropicManners
from orchestrator.backends.simulated.chat import ask_chat
from orchestrator.backends.simulated.dialect import Asked, Headers, Manners, streamed
from orchestrator.backends.simulated.embeddings import ask_embedding
from orchestrator.backends.simulated.errors import SimError
from orchestrator.backends.simulated.http import HttpConnection, HttpRequest
from orchestrator.backends.simulated.messages import ask_count, ask_messages, check_version, count_document
from orchestrator.backends.simulated.models import DEFAULT, model_document, models_document
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.responses import ask_responses
from orchestrator.backends.simulated.sink import JSON, DocumentSink, StreamSink
from orchestrator.backends.simulated.wire import OpenAIManners

T = TypeVar("T")
Ask = Callable[[SimProvider, bytes, int], Asked]

_ANSWERED: dict[str, Ask] = {
    "/v1/chat/completions": ask_chat,
    "/v1/responses": ask_responses,
    "/v1/messages": ask_messages,
}
_MODELS = "/v1/models"
_OPENAI = OpenAIManners()
_ANTHROPIC = AnthropicManners()


class Exchange:
    """One request and its answer. `number` is the request's, over all connections."""

    def __init__(self, provider: SimProvider, http: HttpConnection, request: HttpRequest, number: int) -> None:
        self._provider = provider
        self._http = http
        self._request = request
        self._number = number
        self._anthropic = "anthropic-version" in request.headers or request.path.startswith("/v1/messages")
        self._manners: Manners = _ANTHROPIC if self._anthropic else _OPENAI
        self._id = f"req_sim{number:08d}"
        self._asked: Asked | None = None

    async def answer(self) -> None:
        """Answers. Raises `Hangup` where the connection is to end, and what the connection raises."""
        try:
            await self._route()
        except SimError as error:
            await self.refuse(error)

    async def refuse(self, error: SimError, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Answers with an error: as a document, or as the last event of a stream that began well."""
        if self._http.answered and self._asked is not None:
            await self._http.data(streamed(self._asked.writer.broken(error)))
            await self._http.end()
            return
        found: Headers = [*JSON, *self._headers, *headers]
        if error.readings is not None:
            found += self._manners.limit_headers(error.readings)
        if error.retry_after is not None:
            found += self._manners.retry_headers(error.retry_after)
        await self._http.respond(error.status, found, self._manners.error_body(error, self._id))

    @property
    def _headers(self) -> Headers:
        return self._manners.request_headers(self._id)

    async def _route(self) -> None:
        method, path = self._request.method, self._request.path
        if (method, path) == ("GET", "/healthz"):
            await self._http.respond(200, JSON, b'{"status":"ok"}')
            return
        self._check_key()
        if method == "GET" and (path == _MODELS or path.startswith(f"{_MODELS}/")):
            await self._models(unquote(path.removeprefix(_MODELS).removeprefix("/")))
        elif method == "POST" and path in _ANSWERED:
            await self._answered(_ANSWERED[path])
        elif (method, path) == ("POST", "/v1/embeddings"):
            await self._embeddings()
        elif (method, path) == ("POST", "/v1/messages/count_tokens"):
            await self._count_tokens()
        else:
            raise SimError(404, f"no such resource: {method} {path}", code="unknown_url")

    def _check_key(self) -> None:
        keys, headers = self._provider.config.api_keys, self._request.headers
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if keys and not any(hmac.compare_digest(given.encode("latin-1"), key.encode()) for key in keys):
            self._provider.statistics().refused["key"] += 1
            raise SimError(401, "no valid API key was given", code="invalid_api_key")

    async def _models(self, name: str) -> None:
        served = self._provider.config.models or (DEFAULT,)
        if not name:
            document = models_document(served, anthropic=self._anthropic)
        else:
            self._provider.check_model(name)
            document = model_document(name, anthropic=self._anthropic)
        await self._http.respond(200, JSON + self._headers, document)

    async def _answered(self, ask: Ask) -> None:
        asked = self._understood(lambda: ask(self._provider, self._request.body, self._number))
        self._asked = asked
        if asked.stream:
            stream = StreamSink(self._http, self._manners, self._headers, asked)
            await stream.finish(await self._provider.serve(asked.request, stream, asked.wishes))
            return
        sink = self._document_sink()
        answer = await self._provider.serve(asked.request, sink, asked.wishes)
        await sink.finish(asked.writer.document(answer))

    async def _embeddings(self) -> None:
        asked = self._understood(lambda: ask_embedding(self._provider, self._request.body))
        sink = self._document_sink()
        await self._provider.embed(asked.request.model, asked.tokens, sink)
        await sink.finish(asked.document())

    async def _count_tokens(self) -> None:
        request, wishes = self._understood(lambda: ask_count(self._request.body))
        sink = self._document_sink()
        tokens = await self._provider.count(request, sink, wishes)
        await sink.finish(count_document(tokens))

    def _document_sink(self) -> DocumentSink:
        return DocumentSink(self._http, self._manners, self._headers)

    def _understood(self, read: Callable[[], T]) -> T:
        """What the request asks for; one that makes no sense is counted, and told of the limits like any other."""
        try:
            if self._anthropic:
                check_version(self._request.headers)
            return read()
        except SimError as error:
            self._provider.count_invalid(error)
            raise
