"""The messages of chat completions as the system prompt and the turns of a messages request.

- System and developer messages before all others are the system prompt; one that comes later stays where it is, as a
  system message.
- Messages of one side that follow one another are one turn: the results of all tools that an assistant called, and what
  the user then says. Results come first, as the dialect wants them.
- `reasoning_content` is left out. Anthropic takes thinking back only with its signature, for which chat has no member,
  and does not show models the thinking of earlier turns.
- Empty text is left out where anything else is said, since the dialect refuses empty blocks. How finely an image is
  looked at (`detail`) has no counterpart and is the provider's choice.
- Arguments that are no JSON object are wrapped, see `messages_assembler.tool_input`.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from orchestrator.dialects.base import Untranslatable
from orchestrator.dialects.messages_assembler import tool_input
from orchestrator.dialects.said import Said, objects

BACKEND: Final = "its model's backend speaks Anthropic's messages, which"

Block = dict[str, Any]

_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,", re.ASCII | re.IGNORECASE)
_SYSTEM: Final = frozenset({"system", "developer"})


def turns(messages: Any) -> dict[str, Any]:
    """The members `system`, if there is any, and `messages`. Raises `Untranslatable`."""
    system: list[Block] = []
    made: list[dict[str, Any]] = []
    for message in objects(messages if messages is not None else [], "messages"):
        role = message.needed("role")
        if role in _SYSTEM:
            blocks = list(_content(message, ("text",)))
            if made:
                _say(made, "system", blocks)
            else:
                system.extend(blocks)
        elif role == "user":
            _say(made, "user", list(_content(message, ("text", "image_url", "file"))))
        elif role == "tool":
            _say(made, "user", [_result(message)])
        elif role == "assistant":
            _say(made, "assistant", _assistant(message))
        else:
            raise message.wrong("role", f"{BACKEND} knows system, developer, user, assistant and tool only")
        message.end(BACKEND)
    for turn in made:
        turn["content"] = _tidied(turn["content"])
    said: dict[str, Any] = {"messages": made}
    system = [block for block in system if block["text"]]
    if system:
        said["system"] = _tidied(system)
    return said


def _say(made: list[dict[str, Any]], role: str, blocks: list[Block]) -> None:
    """Adds what is said to the turn of that side, or begins it."""
    if made and made[-1]["role"] == role:
        made[-1]["content"].extend(blocks)
    else:
        made.append({"role": role, "content": blocks})


def _tidied(blocks: list[Block]) -> str | list[Block]:
    """A turn's blocks, results first and without empty text; text alone as a plain string."""
    kept = [block for block in blocks if block["type"] != "text" or block["text"]]
    kept.sort(key=lambda block: block["type"] != "tool_result")
    if not kept:
        return ""
    return kept[0]["text"] if len(kept) == 1 and kept[0]["type"] == "text" else kept


def _assistant(message: Said) -> list[Block]:
    message.drop("reasoning_content", "reasoning", "reasoning_details")
    if message.left.get("annotations") == []:
        message.drop("annotations")
    blocks = list(_content(message, ("text", "refusal")))
    refusal = message.text("refusal")
    if refusal:
        blocks.append({"type": "text", "text": refusal})
    blocks.extend(_call(call) for call in message.each("tool_calls"))
    return blocks


def _call(call: Said) -> Block:
    kind = call.text("type") or "function"
    function = call.inner("function")
    if kind != "function" or function is None:
        raise call.wrong("type", f"{BACKEND} knows calls of functions only")
    made = {
        "type": "tool_use",
        "id": call.needed("id"),
        "name": function.needed("name"),
        "input": tool_input(function.text("arguments") or ""),
    }
    call.drop("index")
    function.end(BACKEND)
    call.end(BACKEND)
    return made


def _result(message: Said) -> Block:
    made: Block = {"type": "tool_result", "tool_use_id": message.needed("tool_call_id")}
    # Its name is that of the function, which the call itself has said.
    message.drop("name")
    blocks = _tidied(list(_content(message, ("text", "image_url"))))
    return {**made, "content": blocks} if blocks else made


def _content(message: Said, kinds: tuple[str, ...]) -> Iterator[Block]:
    content, path = message.take("content"), message.at("content")
    if content is None:
        return
    if isinstance(content, str):
        yield {"type": "text", "text": content}
        return
    if not isinstance(content, list):
        raise Untranslatable(path, "must be a string or a list of parts")
    for part in objects(content, path):
        kind = part.needed("type")
        if kind not in kinds:
            raise part.wrong("type", f"{BACKEND} takes {' and '.join(kinds)} here, not {kind}")
        yield _block(part, kind)
        part.end(BACKEND)


def _block(part: Said, kind: str) -> Block:
    if kind == "image_url":
        return _image(part)
    if kind == "file":
        return _document(part)
    return {"type": "text", "text": part.needed(kind)}


def _image(part: Said) -> Block:
    image = part.inner("image_url")
    if image is None:
        raise part.wrong("image_url", "must be an object, and is missing")
    url = image.needed("url")
    image.drop("detail")
    image.end(BACKEND)
    if url.startswith(("http://", "https://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    return {"type": "image", "source": _base64(url, image.at("url"))}


def _document(part: Said) -> Block:
    file = part.inner("file")
    if file is None:
        raise part.wrong("file", "must be an object, and is missing")
    source = _base64(file.needed("file_data"), file.at("file_data"))
    if source["media_type"] != "application/pdf":
        raise file.wrong("file_data", f"{BACKEND} takes PDF files only")
    made: Block = {"type": "document", "source": source}
    name = file.text("filename")
    if name:
        made["title"] = name
    file.end(BACKEND)
    return made


def _base64(url: str, path: str) -> dict[str, str]:
    head = _DATA_URL.match(url)
    if head is None:
        raise Untranslatable(path, "must be an http(s) URL or data:TYPE/SUBTYPE;base64,...")
    return {"type": "base64", "media_type": head[1].lower(), "data": url[head.end() :]}
