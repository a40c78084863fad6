"""`/v1` as OpenAI's SDK speaks it: chat completions, responses, embeddings, models.

A program sets `base_url` to this daemon's address with `/v1` behind it. Source of the shapes: the OpenAI API reference.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from orchestrator.api.gateway import JSON, Gateway
from orchestrator.api.gateway_models import list_models, one_model
from orchestrator.api.operations import Operation
from orchestrator.api.services import Services

Post = Callable[[Request, bytes], Awaitable[ASGIApp]]

PROBLEMS = dict.fromkeys((400, 401, 404, 408, 413, 422, 429, 500, 502, 503, 504), JSON)


class ChatDocument(Struct, frozen=True, kw_only=True):
    """What is read of a chat completion's request; everything else goes to the backend as it is."""

    model: str
    messages: list[dict[str, Any]]
    stream: bool | None = False
    stream_options: dict[str, Any] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = 1


class ResponsesDocument(Struct, frozen=True, kw_only=True):
    """What is read of a response's request; everything else goes to the backend as it is."""

    model: str
    input: str | list[dict[str, Any]] | None = None
    stream: bool | None = False
    max_output_tokens: int | None = None


class EmbeddingsDocument(Struct, frozen=True, kw_only=True):
    """What is read of a request for embeddings; everything else goes to the backend as it is."""

    model: str
    input: str | list[Any]


def routes(services: Services) -> list[Route]:
    """OpenAI's routes. The list of models answers Anthropic's SDK as well."""
    gateway = Gateway(services)

    async def chat_completions(request: Request, body: bytes) -> ASGIApp:
        return await gateway.answer(request, "chat", body)

    async def responses(request: Request, body: bytes) -> ASGIApp:
        return await gateway.answer(request, "responses", body)

    async def embeddings(request: Request, body: bytes) -> ASGIApp:
        return await gateway.answer(request, "embeddings", body)

    async def models(request: Request) -> Response:
        return list_models(services, request)

    async def model(request: Request) -> Response:
        return one_model(services, request, request.path_params["model"])

    posts: list[tuple[Post, str, str, type[Struct]]] = [
        (chat_completions, "/v1/chat/completions", "Complete a chat", ChatDocument),
        (responses, "/v1/responses", "Create a response", ResponsesDocument),
        (embeddings, "/v1/embeddings", "Embed texts", EmbeddingsDocument),
    ]
    return [
        *(
            Operation("POST", path, handler, summary, document=document, media_type=JSON, problems=PROBLEMS).route()
            for handler, path, summary, document in posts
        ),
        Operation("GET", "/v1/models", models, "List the models", media_type=JSON, problems=PROBLEMS).route(),
        Operation("GET", "/v1/models/{model:path}", model, "Show a model", media_type=JSON, problems=PROBLEMS).route(),
    ]
