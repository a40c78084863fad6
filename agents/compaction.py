"""When a transcript is shortened, where it is cut, and what takes the place of what is cut off. Pure.

A long run sends its whole transcript with every step. Past `compact_at` input tokens the oldest part, behind the system
prompt and the demonstration, is replaced by a summary that the same model writes. The last `compact_keep` messages stay
as they are, and more where the cut would take a tool call away from its result.

The summary's request is the transcript up to the cut and a word of ours behind it, with the same system prompt and
tools: a provider's cache has that prefix already, and some providers refuse tool calls in a transcript without tools.

What was asked for last goes before the summary word for word where it is short enough, since a model that sums up its
own work loses its task first. A cut that would take away little is not worth a call: at least half as many messages go
as stay.

Known limits: between two answers of the provider the size is guessed from the text, at four bytes a token. A transcript
whose last messages alone are larger than `compact_at` stays so.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from agents.messages import Message, ModelReply, ModelRequest
from agents.spec import AgentSpec

BYTES_PER_TOKEN: Final = 4
SUMMARY_TOKENS: Final = 2048
"""What a summary may take at most."""
QUOTED: Final = 4000
"""The longest request, in characters, that is quoted beside its summary."""

ASK: Final = (
    "Stop here for a moment. This conversation becomes too long, and what you write now will stand in the place of all "
    "that was said so far. Sum it up for whoever goes on with the work and knows nothing else: what was asked for; "
    "what was done and found out, with the names, numbers, paths and identifiers that are needed again, exactly; what "
    "failed; what was decided and why; what comes next. Say nothing else and use no tools. At most 600 words."
)
SUMMARY: Final = "What was said before this was too long to keep. This is its summary:\n\n"
QUOTE: Final = "The last request in it was, word for word:\n\n"


def summary_message(summary: str) -> Message:
    """The message that stands for what was cut off."""
    return Message("user", SUMMARY + summary)


def context_size(messages: Sequence[Message], counted: int | None) -> int:
    """About how many input tokens these messages are. `counted` is what the provider counted up to its last answer."""
    new = 0
    for message in reversed(messages):
        if counted is not None and message.role == "assistant":
            break
        new += _size(message)
    return (counted or 0) + new // BYTES_PER_TOKEN


def _size(message: Message) -> int:
    calls = sum(len(call.name) + len(call.arguments.encode(errors="surrogatepass")) for call in message.tool_calls)
    return len(message.content.encode(errors="surrogatepass")) + calls


def cut(messages: Sequence[Message], opening: int, keep: int) -> int:
    """How many messages behind the first `opening` ones a summary should stand for; 0 where it isn't worth it.

    Every tool call must be followed by its results. At least `keep` messages stay.
    """
    end = len(messages) - keep
    while end > opening and messages[end : end + 1] and messages[end].role == "tool":
        end -= 1
    least = max(2, keep // 2)
    return end - opening if end - opening >= least else 0


def compaction_due(agent: AgentSpec, messages: Sequence[Message], opening: int, counted: int | None) -> int:
    """How many messages are to be summed up now; 0 for none."""
    if agent.compact_at is None or context_size(messages, counted) < agent.compact_at:
        return 0
    return cut(messages, opening, agent.compact_keep)


def summary_request(agent: AgentSpec, messages: Sequence[Message], end: int, max_tokens: int | None) -> ModelRequest:
    """Asks for the summary of the first `end` messages."""
    request = agent.request((*messages[:end], Message("user", ASK)), max_tokens)
    return replace(request, tool_choice="none" if request.tools else None, response_format=None, stop=())


def summary_of(reply: ModelReply, replaced: Sequence[Message]) -> str | None:
    """The summary in this reply, with the last request that it replaces; None where the reply is none.

    A reply that was cut off is none, since what it left out would be lost without a trace; nor is one that is no
    shorter than what it stands for.
    """
    text = reply.message.content.strip()
    if not text or reply.finish_reason != "stop" or reply.message.tool_calls:
        return None
    if len(text) >= sum(map(_size, replaced)):
        return None
    asked = next((message.content for message in reversed(replaced) if message.role == "user"), "")
    if asked.startswith(SUMMARY):
        asked = asked.partition(QUOTE)[2]
    return f"{text}\n\n{QUOTE}{asked}" if 0 < len(asked) <= QUOTED else text
