"""What an answer means for the run, and what the want of one does: decided from structure, never from words."""

import json
from collections.abc import Mapping
from typing import Final

from agents.errors import ModelError, Overloaded, QueueFull, Refused, Throttled
from agents.lifecycle import StopReason
from agents.open_step import OpenStep
from agents.result import Stop

CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
REFUSAL_CODES: Final = frozenset({"content_filter", "content_policy_violation"})


def stop_for(error: ModelError) -> Stop:
    """The stop reason of a model call's error; decided from its type and structured code."""
    if isinstance(error, Throttled | Overloaded | QueueFull):
        return Stop(StopReason.OVERLOADED, error.message)
    if isinstance(error, Refused):
        if error.code in CONTEXT_CODES:
            return Stop(StopReason.CONTEXT_LIMIT, error.message)
        if error.code in REFUSAL_CODES:
            return Stop(StopReason.REFUSAL, error.message)
    again = error.retryable or error.blame == "queue"
    return Stop(StopReason.PLANNER_ERROR, error.message, next="retry" if again else "human")


def judge(step: OpenStep, response_format: Mapping[str, object] | None) -> Stop | None:
    """What a reply means for the run: a reason to stop, or None where there are tool calls to make."""
    reply = step.reply
    message = reply.message
    if reply.finish_reason == "length":
        if step.shrunk_by is not None:
            return Stop.exhausted(step.shrunk_by)
        return Stop(StopReason.OUTPUT_LIMIT, "the answer was cut off at its output limit")
    if reply.finish_reason == "content_filter":
        return Stop(StopReason.REFUSAL, "the provider withheld the answer")
    if message.tool_calls:
        ids = [call.id for call in message.tool_calls]
        if not all(ids) or len(set(ids)) < len(ids):
            return Stop(StopReason.INVALID_ACTION, "the answer's tool calls have no ids of their own")
        return None
    if reply.finish_reason == "tool_calls":
        return Stop(StopReason.INVALID_ACTION, "the answer announces tool calls and has none")
    if not message.content.strip():
        return Stop(StopReason.INVALID_ACTION, "the answer is empty")
    if _wants_json(response_format) and not _is_json(message.content):
        return Stop(StopReason.MALFORMED_OUTPUT, "the answer is not the JSON that was asked for")
    return Stop(StopReason.FINAL_ANSWER)


def _wants_json(response_format: Mapping[str, object] | None) -> bool:
    return response_format is not None and response_format.get("type") in {"json_object", "json_schema"}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
