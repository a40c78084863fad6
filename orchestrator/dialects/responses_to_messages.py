"""A request of the responses dialect as one of Anthropic's messages, by way of chat completions."""

from agents.messages import WireRequest
from orchestrator.dialects import chat_to_messages
from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.responses_to_chat import chat_request


def translate(wire: WireRequest) -> WireRequest:
    """Translates a request. Raises `Untranslatable` with the path in the program's body, whichever step says so."""
    request = chat_request(wire)
    try:
        return chat_to_messages.translate(request.wire)
    except Untranslatable as exc:
        raise request.in_the_programs_words(exc) from None
