"""What a server's tools are called here: `SERVER__TOOL`, in the characters and the length that providers take.

A server's own names may be longer, and have dots and slashes. One that must be changed ends in a digest of the
original, so that its name here depends on nothing else and is the same after every restart.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

OF_SERVER: Final = "__"
"""Between the server's name, which has none, and its tool's."""

LONGEST: Final = 64
_DIGEST: Final = 8
_STRANGE: Final = re.compile(r"[^a-zA-Z0-9_-]")


def local_name(server: str, tool: str) -> str:
    """The name by which a model calls this tool."""
    name = f"{server}{OF_SERVER}{_STRANGE.sub('_', tool)}"
    if name == f"{server}{OF_SERVER}{tool}" and len(name) <= LONGEST:
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST - _DIGEST - 1]}_{digest}"


def local_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """The tools' own names by their names here; of two that would be called the same, the first."""
    names: dict[str, str] = {}
    for tool in tools:
        names.setdefault(local_name(server, tool), tool)
    return names
