"""Which reader reads the answers of which dialect."""

from collections.abc import Callable, Mapping
from typing import Final

from agents.messages import Dialect
from orchestrator.dialects.base import Reader
from orchestrator.dialects.chat_reader import ChatReader
from orchestrator.dialects.failures import Failed, broke_off
from orchestrator.dialects.messages_reader import MessagesReader
from orchestrator.dialects.responses_reader import ResponsesReader

READERS: Final[Mapping[Dialect, Callable[[Failed], Reader]]] = {
    "chat": ChatReader,
    "messages": MessagesReader,
    "responses": ResponsesReader,
}


def reader(native: Dialect, failed: Failed = broke_off) -> Reader:
    """A reader for one answer of a backend that speaks `native`; KeyError for a dialect that has no stream.

    `failed` makes the error for an error object inside the answer: an adapter passes its own, which names the endpoint
    and quotes no secret.
    """
    return READERS[native](failed)
