"""Failures of an OpenAI-compatible server, as the table of `orchestrator.dialects.failures` splits them."""

from collections.abc import Sequence
from typing import Any

from agents.errors import ModelError
from agents.messages import Usage
from orchestrator.backends.headers import exhausted_kinds, time_to_room
from orchestrator.backends.place import Place
from orchestrator.dialects.chat_wire import NotJSON, loads
from orchestrator.dialects.failures import Facts, error_of, facts_of
from orchestrator.policy.feedback import LimitKind, Reading

_LIMIT_OF_WORD: dict[str, LimitKind] = {
    "requests": "requests",
    "tokens": "total_tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}


def error_from_response(
    status: int, body: bytes, place: Place, readings: Sequence[Reading] = (), retry_after: float | None = None
) -> ModelError:
    """The error that a response with this status stands for."""
    try:
        facts = facts_of(loads(body))
    except NotJSON:
        facts = Facts(text=body.decode("utf-8", "replace"))
    return _error(status, facts, f"{place.host} answered {status}", place, readings, retry_after)


def error_from_event(value: Any, place: Place, usage: Usage | None, partial: str) -> ModelError:
    """The error that an error object inside a successful response stands for, with what had come before it."""
    facts = facts_of(value)
    error = _error(facts.meant(), facts, f"{place.host} broke off with an error", place, (), None)
    error.usage = usage
    error.partial = partial
    return error


def _error(
    status: int | None,
    facts: Facts,
    said: str,
    place: Place,
    readings: Sequence[Reading],
    retry_after: float | None,
) -> ModelError:
    code = facts.code
    message = f"{said} ({place.quote(code)})" if code else said
    if facts.text.strip():
        message = f"{message}: {place.quote(facts.text)}"
    if status == 429:
        named = {_LIMIT_OF_WORD[word] for word in facts.words if word in _LIMIT_OF_WORD}
        exhausted = exhausted_kinds(readings) | named
        wait = retry_after if retry_after is not None else time_to_room(readings, exhausted)
        return error_of(status, facts, message, retry_after=wait, exhausted=frozenset(exhausted))
    return error_of(status, facts, message, retry_after=retry_after)
