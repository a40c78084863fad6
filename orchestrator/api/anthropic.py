"""`/v1` as Anthropic's SDK speaks it: messages, and the count of their tokens.

A program sets `base_url` to this daemon's address. Source of the shapes: the Claude API reference.
"""

from typing import Any

from msgspec import Struct
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from orchestrator.api.gateway import JSON, Gateway
from orchestrator.api.openai import PROBLEMS, Post
from orchestrator.api.operations import Operation
from orchestrator.api.services import Services


class MessagesDocument(Struct, frozen=True, kw_only=True):
    """What is read of a request for a message; everything else goes to the backend as it is."""

    model: str
    messages: list[dict[str, Any]]
    max_tokens: int
    stream: bool | None = False


class CountTokensDocument(Struct, frozen=True, kw_only=True):
    """What is read of a request to count tokens; everything else goes to the backend as it is."""

    model: str
    messages: list[dict[str, Any]]


def routes(services: Services) -> list[Route]:
    """Anthropic's routes, but for the list of models, which has one path for both."""
    gateway = Gateway(services)

    async def messages(request: Request, body: bytes) -> ASGIApp:
        return await gateway.answer(request, "messages", body)

    async def count_tokens(request: Request, body: bytes) -> ASGIApp:
        return await gateway.answer(request, "count_tokens", body)

    posts: list[tuple[Post, str, str, type[Struct]]] = [
        (messages, "/v1/messages", "Create a message", MessagesDocument),
        (count_tokens, "/v1/messages/count_tokens", "Count a message's tokens", CountTokensDocument),
    ]
    problems = {**PROBLEMS, 529: JSON}
    return [
        Operation("POST", path, handler, summary, document=document, media_type=JSON, problems=problems).route()
        for handler, path, summary, document in posts
    ]
