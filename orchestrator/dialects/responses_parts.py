"""Content of the responses dialect as content of chat completions, part by part.

A text alone becomes a plain string, which every server takes; several parts stay parts. What a part says besides is
translated, or refused with its path; only what an answer said of itself (annotations, probabilities) is left behind.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from orchestrator.dialects.base import Untranslatable

_TEXTS: Final = ("input_text", "output_text", "text")
_OF_AN_ANSWER: Final = ("annotations", "logprobs")


def only(value: Mapping[str, Any], path: str, known: Collection[str]) -> None:
    """Raises for a member that is given, says something, and is not `known`."""
    for name, member in value.items():
        if name not in known and member is not None:
            raise Untranslatable(f"{path}.{name}", "the model's backend has no counterpart for it; leave it out")


def text_of(value: Mapping[str, Any], name: str, path: str) -> str:
    """The member as a string. Raises where it is none."""
    text = value.get(name)
    if not isinstance(text, str):
        raise Untranslatable(f"{path}.{name}", "must be a string")
    return text


def objects(value: Any, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The objects of a list, each with its path. Raises where it is no such list."""
    if not isinstance(value, list):
        raise Untranslatable(path, "must be a list of objects")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise Untranslatable(f"{path}[{index}]", "must be an object")
    return [(f"{path}[{index}]", item) for index, item in enumerate(value)]


def chat_content(content: Any, path: str) -> str | list[dict[str, Any]]:
    """What a message says."""
    if isinstance(content, str):
        return content
    parts = [_part(part, where) for where, part in objects(content, path)]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def plain_text(content: Any, path: str) -> str:
    """Content of which chat completions take nothing but text. Raises for any other part."""
    if isinstance(content, str):
        return content
    return "".join(_plain(part, where) for where, part in objects(content, path))


def assistant_content(content: Any, path: str) -> dict[str, Any]:
    """The members `content` and `refusal` of what the model said before."""
    if isinstance(content, str):
        return {"content": content}
    texts, refusals = [], []
    for where, part in objects(content, path):
        if part.get("type") == "refusal":
            refusals.append(text_of(part, "refusal", where))
        else:
            texts.append(_plain(part, where))
    if refusals:
        return {"content": "".join(texts) or None, "refusal": "".join(refusals)}
    return {"content": "".join(texts)}


def _plain(part: Mapping[str, Any], path: str) -> str:
    if part.get("type") not in _TEXTS:
        raise Untranslatable(f"{path}.type", "the model's backend takes nothing but text here")
    only(part, path, ("type", "text", *_OF_AN_ANSWER))
    return text_of(part, "text", path)


def _part(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind in _TEXTS:
        only(part, path, ("type", "text", "prompt_cache_breakpoint", *_OF_AN_ANSWER))
        translated: dict[str, Any] = {"type": "text", "text": text_of(part, "text", path)}
    elif kind == "input_image":
        translated = _image(part, path)
    elif kind == "input_file":
        translated = _file(part, path)
    elif kind == "input_audio":
        only(part, path, ("type", "input_audio"))
        translated = {"type": "input_audio", "input_audio": part.get("input_audio")}
    else:
        raise Untranslatable(f"{path}.type", "must be input_text, input_image, input_file or input_audio")
    if part.get("prompt_cache_breakpoint") is not None:
        translated["prompt_cache_breakpoint"] = part["prompt_cache_breakpoint"]
    return translated


def _image(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    if part.get("file_id") is not None:
        raise Untranslatable(f"{path}.file_id", "files are not stored here; give the image in image_url")
    only(part, path, ("type", "image_url", "detail", "prompt_cache_breakpoint"))
    image: dict[str, Any] = {"url": text_of(part, "image_url", path)}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}


def _file(part: Mapping[str, Any], path: str) -> dict[str, Any]:
    for name in ("file_id", "file_url"):
        if part.get(name) is not None:
            raise Untranslatable(f"{path}.{name}", "the model's backend cannot fetch it; give the file in file_data")
    if part.get("detail") not in (None, "auto"):
        raise Untranslatable(f"{path}.detail", "the model's backend has no counterpart for it; leave it out")
    only(part, path, ("type", "file_data", "filename", "detail", "prompt_cache_breakpoint"))
    file = {"file_data": text_of(part, "file_data", path)}
    if part.get("filename") is not None:
        file["filename"] = text_of(part, "filename", path)
    return {"type": "file", "file": file}
