"""Which assembler puts the events of which dialect together."""

from collections.abc import Callable, Mapping
from typing import Final

from agents.messages import Dialect
from orchestrator.dialects.base import Assembler
from orchestrator.dialects.chat_assembler import ChatAssembler
from orchestrator.dialects.messages_assembler import MessagesAssembler
from orchestrator.dialects.responses_assembler import ResponsesAssembler

ASSEMBLERS: Final[Mapping[Dialect, Callable[[], Assembler]]] = {
    "chat": ChatAssembler,
    "messages": MessagesAssembler,
    "responses": ResponsesAssembler,
}


def assembler(dialect: Dialect) -> Assembler:
    """An assembler for one answer in the program's dialect; KeyError for a dialect that has no stream."""
    return ASSEMBLERS[dialect]()
