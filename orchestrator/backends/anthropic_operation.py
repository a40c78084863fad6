"""What a request comes to at Anthropic: where it goes, its body, and what is made of the answer."""

import httpx2
from msgspec import Struct

from agents.messages import Dialect, ModelRequest
from orchestrator.backends.anthropic_answer import MessageAnswer
from orchestrator.backends.anthropic_encode import MessageRules, encode_request
from orchestrator.backends.openai_errors import Place
from orchestrator.backends.openai_exchange import Answer


class Operation(Struct, frozen=True):
    """`dialect` is the one to be spoken: `messages` or `count_tokens`."""

    dialect: Dialect
    headers: httpx2.Headers
    content: bytes
    answer: Answer


def operation_of(request: ModelRequest, rules: MessageRules, headers: httpx2.Headers, place: Place) -> Operation:
    """Raises `Refused` for a request that has no words here."""
    return Operation("messages", headers, encode_request(request, rules), MessageAnswer(place))
