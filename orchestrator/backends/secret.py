"""A value that must not be printed, and the removal of such values from text that came from outside."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from agents.errors import InvalidLimits

_KEY_LIKE = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_][^\s\"',;]{6,}|(?<=\bBearer )[^\s\"',;]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")


class Secret:
    """Holds a string that no repr, log line or traceback shows; `reveal` gives it to whoever must send it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret('***')"

    __str__ = __repr__


def load_key(
    where: str, *, env: str | None, file: str | None, environ: Mapping[str, str] | None = None
) -> Secret | None:
    """The key that an environment variable or else a file holds; None if neither is named.

    `where` is the configuration path for messages. Raises `InvalidLimits` if the named place holds no usable key.
    """
    if env is not None:
        text = (os.environ if environ is None else environ).get(env, "")
        return checked_key(f"{where}.api_key_env", f"the environment variable {env}", text)
    if file is not None:
        try:
            text = Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            problem = exc.strerror if isinstance(exc, OSError) else "it is not text"
            raise InvalidLimits(f"{where}.api_key_file", f"cannot read {file}: {problem}") from None
        return checked_key(f"{where}.api_key_file", file, text)
    return None


def checked_key(field: str, place: str, text: str) -> Secret:
    """A key that can stand in a header. Raises `InvalidLimits`, which names the place and never the value."""
    key = text.strip()
    if not key:
        raise InvalidLimits(field, f"{place} is unset or empty")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidLimits(field, f"{place} holds something that is no key (spaces, line breaks or non-ASCII)")
    return Secret(key)


def excerpt(text: str, secrets: Iterable[Secret] = (), limit: int = 200) -> str:
    """The beginning of foreign text as one line: secrets and whatever looks like a key masked, at most `limit` long.

    Masked before it is cut, so that no cut leaves half a secret behind.
    """
    for secret in secrets:
        text = text.replace(secret.reveal(), "***")
    text = text[: 16 * limit]
    text = _CONTROL.sub(" ", _KEY_LIKE.sub("***", text)).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"
