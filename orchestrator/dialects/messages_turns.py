"""The conversation of a messages request as the messages of chat completions.

- `system` becomes a system message before all others. One block of text is a plain string, since every server takes
  that; several stay several parts.
- Chat gives a tool's result a message of its own, right behind the turn that called, so the results of a user turn
  come before what else it says. A result holds text only there: its images follow in the user message, named by the
  call. An error has no mark in chat, so the text says it.
- `thinking` goes back as `reasoning_content`, without its signature. A server of this dialect has it from itself: what
  comes from Anthropic's own API and cannot be read elsewhere (`redacted_thinking`) is refused.
- A conversation that ends with the assistant's turn asks for that turn to be continued, which chat has no words for.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.said import Said, objects

BACKEND = "its model's backend speaks chat completions, which"

Part = dict[str, Any]


def chat_messages(system: Any, messages: Any) -> list[dict[str, Any]]:
    """The messages. Raises `Untranslatable`."""
    made: list[dict[str, Any]] = []
    if system is not None and system != []:
        made.append({"role": "system", "content": _content(_texts(system, "system"))})
    role = ""
    path = "messages"
    for message in objects(messages if messages is not None else [], "messages"):
        role, path = message.needed("role"), message.path
        if role == "user":
            made.extend(_user(message))
        elif role == "assistant":
            made.append(_assistant(message))
        elif role == "system":
            made.append({"role": "system", "content": _content(_texts(message.take("content"), message.at("content")))})
        else:
            raise message.wrong("role", "must be user, assistant or system")
        message.end(BACKEND)
    if role == "assistant":
        raise Untranslatable(f"{path}.role", f"{BACKEND} cannot continue an assistant's turn; end with a user's")
    return made


def _user(message: Said) -> Iterator[dict[str, Any]]:
    parts: list[Part] = []
    results = 0
    for block in _blocks(message):
        kind = block.needed("type")
        if kind == "tool_result":
            result, images = _result(block)
            results += 1
            yield result
            parts.extend(images)
        else:
            parts.append(_part(block, kind))
            block.end(BACKEND)
    if parts or not results:
        yield {"role": "user", "content": _content(parts)}


def _assistant(message: Said) -> dict[str, Any]:
    parts: list[Part] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block in _blocks(message):
        kind = block.needed("type")
        if kind == "tool_use":
            calls.append(_call(block))
        elif kind == "thinking":
            thoughts.append(block.needed("thinking"))
            block.drop("signature")
        elif kind == "text":
            parts.append(_part(block, kind))
        else:
            raise block.wrong("type", f"{BACKEND} has nothing like {kind!r} in an assistant's turn")
        block.end(BACKEND)
    made: dict[str, Any] = {"role": "assistant", "content": _content(parts) if parts else None}
    if thoughts:
        made["reasoning_content"] = "".join(thoughts)
    if calls:
        made["tool_calls"] = calls
    elif not parts:
        made["content"] = ""
    return made


def _call(block: Said) -> dict[str, Any]:
    arguments = block.take("input")
    if not isinstance(arguments, dict):
        raise block.wrong("input", "must be an object")
    caller = block.inner("caller")
    if caller is not None and caller.text("type") != "direct":
        raise block.wrong("caller", f"{BACKEND} has no tools that call tools")
    function = {"name": block.needed("name"), "arguments": msgspec.json.encode(arguments).decode()}
    return {"id": block.needed("id"), "type": "function", "function": function}


def _result(block: Said) -> tuple[dict[str, Any], list[Part]]:
    """A tool's result as its message, and what the user message has to show of it."""
    call = block.needed("tool_use_id")
    failed = block.flag("is_error")
    texts: list[Part] = []
    images: list[Part] = []
    for inner in _blocks(block):
        kind = inner.needed("type")
        part = _part(inner, kind)
        (texts if kind == "text" else images).append(part)
        inner.end(BACKEND)
    block.end(BACKEND)
    if failed:
        texts[:1] = [_text_part(f"The tool failed: {texts[0]['text']}" if texts else "The tool failed.")]
    if images:
        images.insert(0, _text_part(f"The images that tool call {call} returned:"))
    return {"role": "tool", "tool_call_id": call, "content": _content(texts) if texts else ""}, images


def _part(block: Said, kind: str) -> Part:
    """A block of text or an image as a part."""
    if kind == "text":
        if not block.left.get("citations"):
            block.drop("citations")
        return _text_part(block.needed("text"))
    if kind != "image":
        raise block.wrong("type", f"{BACKEND} has nothing like {kind!r}; text and image are understood")
    source = block.inner("source")
    if source is None:
        raise block.wrong("source", "must be an object, and is missing")
    form = source.needed("type")
    if form == "base64":
        url = f"data:{source.needed('media_type')};base64,{source.needed('data')}"
    elif form == "url":
        url = source.needed("url")
    else:
        raise source.wrong("type", f"{BACKEND} takes images as base64 or url, not as {form!r}")
    source.end(BACKEND)
    return {"type": "image_url", "image_url": {"url": url}}


def _blocks(holder: Said) -> Iterator[Said]:
    """The blocks of a `content`, a plain string as one of text."""
    return _as_blocks(holder.take("content"), holder.at("content"))


def _as_blocks(content: Any, path: str) -> Iterator[Said]:
    if isinstance(content, str):
        return iter([Said({"type": "text", "text": content}, path)] if content else [])
    if content is None:
        return iter(())
    if not isinstance(content, list):
        raise Untranslatable(path, "must be a string or a list of blocks")
    return objects(content, path)


def _texts(content: Any, path: str) -> list[Part]:
    parts = []
    for block in _as_blocks(content, path):
        kind = block.needed("type")
        if kind != "text":
            raise block.wrong("type", "must be text")
        parts.append(_part(block, kind))
        block.end(BACKEND)
    return parts


def _content(parts: list[Part]) -> str | list[Part]:
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}
