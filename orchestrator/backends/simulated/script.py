"""Answers that somebody else thought of: what a simulated model says where its words are to mean something.

A script is a function of the transcript, so the same conversation gets the same answer whoever asks and however often,
also after a restart. How long the answer takes, what it counts and whether it is let in is the provider's as ever.
"""

from collections.abc import Callable

from agents.messages import Message
from orchestrator.backends.simulated.tokens import Tokenizer

Script = Callable[[tuple[Message, ...]], Message]
"""What is said next in a conversation, as a message of the assistant's: words, tool calls, or both."""

Heads = list[tuple[int, str, str]]


def spoken(message: Message, tokenizer: Tokenizer, digest: int) -> tuple[list[str], Heads]:
    """The message's tokens, and where in them each tool call begins, with its id and name.

    An id is unique to the conversation, as providers' are, whatever the script calls it.
    """
    tokens = tokenizer.pieces(message.content)
    heads: Heads = []
    for index, call in enumerate(message.tool_calls):
        heads.append((len(tokens), call_id(digest, index), call.name))
        tokens += tokenizer.pieces(call.arguments or "{}")
    return tokens, heads


def call_id(digest: int, index: int) -> str:
    """The id of a tool call: that of the request it answers, and its place."""
    return f"call_{digest:016x}_{index}"
