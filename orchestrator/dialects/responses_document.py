"""The response that a translated answer is described by: what its request said, and what became of it.

It has every member that the provider's own has, so that a program finds what it looks for. Nothing is stored here, and
`store` says so.

Source: the OpenAI API reference, "The response object".
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw, Struct

from agents.messages import FinishReason, WireRequest

_DEFAULTS: Final[Mapping[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Members that repeat the request, and what they are where it said nothing."""

_STATUS: Final[Mapping[FinishReason, tuple[str, str | None]]] = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "length": ("incomplete", "max_output_tokens"),
    "content_filter": ("incomplete", "content_filter"),
}


class _InputDetails(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None


class ChatUsage(Struct):
    """Tokens as chat completions report them."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _OutputDetails | None = None

    def as_response(self) -> dict[str, Any] | None:
        """Tokens as responses report them; None unless input and output are both known."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        given, made = self.prompt_tokens_details, self.completion_tokens_details
        return {
            "input_tokens": self.prompt_tokens,
            "input_tokens_details": {
                "cached_tokens": (given.cached_tokens if given is not None else None) or 0,
                "cache_write_tokens": (given.cache_write_tokens if given is not None else None) or 0,
            },
            "output_tokens": self.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": (made.reasoning_tokens if made is not None else None) or 0},
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


class Description:
    """Describes one response as it goes on. `created` is in seconds since the epoch."""

    def __init__(self, wire: WireRequest, *, response_id: str, model: str, created: int) -> None:
        self._repeated = {name: _said(wire.fields, name, default) for name, default in _DEFAULTS.items()}
        self._head: dict[str, Any] = {"id": response_id, "object": "response", "created_at": created}
        self._model = model

    def so_far(self) -> dict[str, Any]:
        """Before anything was said."""
        return self._describe("in_progress", None, [], None)

    def at_the_end(
        self, finish: FinishReason | None, output: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        """When all is said. Without a `finish` it was broken off."""
        status, reason = ("incomplete", None) if finish is None else _STATUS[finish]
        return self._describe(status, reason, output, usage)

    def _describe(
        self, status: str, reason: str | None, output: list[dict[str, Any]], usage: dict[str, Any] | None
    ) -> dict[str, Any]:
        return {
            **self._head,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if status == "incomplete" else None,
            "model": self._model,
            "output": output,
            **self._repeated,
            "store": False,
            "usage": usage,
        }


def _said(fields: Mapping[str, Raw], name: str, default: Any) -> Any:
    raw = fields.get(name)
    if raw is None or bytes(raw) == b"null":
        return default
    return Raw(bytes(raw))
