"""The turns of Anthropic's messages: content in blocks, checked as the provider does, and in the model's own words."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Raw, Struct

from agents.messages import Message, ToolCall
from orchestrator.backends.simulated.errors import wrong
from orchestrator.backends.simulated.messages_writer import signature

IMAGE_TOKENS = 1100
"""What an image counts as input: about (width * height) / 750 by the guide "Vision", of a middling one."""

_SOURCES = ("base64", "url", "file", "text", "content")


_ABSENT = Raw()


class Block(Struct):
    """One block of content, of any type; what a type does not have is left at its default."""

    type: str
    text: str | None = None
    source: dict[str, Any] | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = _ABSENT
    tool_use_id: str | None = None
    content: str | list["Block"] | dict[str, Any] | None = None
    thinking: str | None = None
    signature: str | None = None
    cache_control: dict[str, Any] | None = None


class Turn(Struct):
    """One message of the request."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]

    @property
    def blocks(self) -> list[Block]:
        return [Block("text", self.content)] if isinstance(self.content, str) else self.content

    @property
    def marked(self) -> bool:
        """Whether what comes up to here is to be cached."""
        return any(block.cache_control for block in self.blocks)


_NEEDED: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id",),
    "thinking": ("thinking", "signature"),
}


def check_turns(turns: Sequence[Turn]) -> None:
    """Raises `SimError` 400 for a conversation that makes no sense."""
    if not turns:
        raise wrong("messages", "at least one message is required")
    if turns[0].role != "user":
        raise wrong("messages.0.role", 'the first message must use the "user" role')
    for place, turn in enumerate(turns):
        last = place == len(turns) - 1
        if not turn.content and not (last and turn.role == "assistant"):
            raise wrong(f"messages.{place}.content", "all messages must have non-empty content")
        for at, block in enumerate(turn.blocks):
            _check_block(block, f"messages.{place}.content.{at}")
    final = turns[-1]
    if final.role == "assistant" and text_of(final.blocks).rstrip() != text_of(final.blocks):
        raise wrong("messages", "final assistant content cannot end with trailing whitespace")
    _check_results(turns)


def _check_block(block: Block, path: str) -> None:
    for member in _NEEDED.get(block.type, ()):
        if getattr(block, member) in (None, _ABSENT):
            raise wrong(f"{path}.{block.type}.{member}", "Field required")
    if block.type == "text" and not block.text:
        raise wrong(f"{path}.text", "text content blocks must be non-empty")
    if block.type in ("image", "document") and block.source and block.source.get("type") not in _SOURCES:
        raise wrong(f"{path}.{block.type}.source.type", f"must be one of {', '.join(_SOURCES)}")
    if block.type == "tool_use" and not bytes(block.input).lstrip().startswith(b"{"):
        raise wrong(f"{path}.tool_use.input", "Input should be a valid dictionary")
    if block.type == "thinking" and block.signature != signature(block.thinking or ""):
        raise wrong(f"{path}.thinking.signature", "invalid `signature` in `thinking` block")


def _check_results(turns: Sequence[Turn]) -> None:
    """Tool uses are answered in the very next turn, and nothing else is. System messages may stand between."""
    open_ids: list[str] = []
    for place, role, blocks in _merged(turns):
        path = f"messages.{place}"
        answered = [block.tool_use_id or "" for block in blocks if block.type == "tool_result"]
        if role == "user":
            for tool_id in answered:
                if tool_id not in open_ids:
                    raise wrong(path, f"unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}")
        missing = [tool_id for tool_id in open_ids if tool_id not in answered]
        if missing:
            raise wrong(path, f"`tool_use` ids without `tool_result` blocks immediately after: {', '.join(missing)}")
        open_ids = [block.id or "" for block in blocks if block.type == "tool_use"] if role == "assistant" else []
    if open_ids:
        raise wrong("messages", f"`tool_use` ids without `tool_result` blocks immediately after: {', '.join(open_ids)}")


def _merged(turns: Sequence[Turn]) -> list[tuple[int, str, list[Block]]]:
    """Turns of one role in a row as one, with the place of the first."""
    merged: list[tuple[int, str, list[Block]]] = []
    for place, turn in enumerate(turns):
        if turn.role == "system":
            continue
        if merged and merged[-1][1] == turn.role:
            merged[-1][2].extend(turn.blocks)
        else:
            merged.append((place, turn.role, list(turn.blocks)))
    return merged


def messages_of(turns: Iterable[Turn]) -> Iterator[Message]:
    """The turns as the model's own messages: what tools gave comes first, one message each."""
    for turn in turns:
        blocks = turn.blocks
        for block in blocks:
            if block.type == "tool_result":
                yield Message("tool", _result(block), tool_call_id=block.tool_use_id)
        text = text_of(blocks)
        calls = tuple(_call(block) for block in blocks if block.type == "tool_use")
        if text or calls or any(block.type not in ("tool_result", "thinking") for block in blocks):
            yield Message(turn.role, text, calls)


def text_of(blocks: Iterable[Block]) -> str:
    """The text of some blocks."""
    return "".join(block.text or "" for block in blocks if block.type == "text")


def image_tokens(turns: Iterable[Turn]) -> int:
    """What the images of a conversation count, those that tools gave among them."""
    return IMAGE_TOKENS * sum(_images(turn.blocks) for turn in turns)


def _images(blocks: Iterable[Block]) -> int:
    found = 0
    for block in blocks:
        found += block.type == "image"
        if block.type == "tool_result" and isinstance(block.content, list):
            found += _images(block.content)
    return found


def _result(block: Block) -> str:
    content = block.content
    return text_of(content) if isinstance(content, list) else content if isinstance(content, str) else ""


def _call(block: Block) -> ToolCall:
    return ToolCall(block.id or "", block.name or "", bytes(block.input).decode())
