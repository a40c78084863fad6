"""Names that people and programs choose: tenants, jobs, runs, agents. They end up in flows, labels, URLs and files."""

import re
from typing import Annotated, Final

from msgspec import Meta

from agents.errors import InvalidLimits

Key = Annotated[str, Meta(max_length=200)]
"""An id of a client's own choice for what it asks for: asked for again under the same one, it is done once."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(field: str, name: str) -> str:
    """The name, if it is one. Raises `InvalidLimits`."""
    if not _NAME.fullmatch(name):
        raise InvalidLimits(
            field,
            f"must be 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first, not {name[:80]!r}",
        )
    return name
