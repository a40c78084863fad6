"""Answers are not stored here, so a request that refers to a stored one is refused, whichever dialect serves it.

`store: true` refers to nothing and is let through: it asks for a copy that nobody can ask for later. A backend that
speaks `responses` itself may even keep one; only reaching it through here is refused, since the next request may be
served by another account.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from agents.errors import Refused

_ANSWERS: Final = "answers are not stored here; send the whole conversation in input"
_REFERENCES: Final = {
    "previous_response_id": _ANSWERS,
    "conversation": _ANSWERS,
}
_NOTHING: Final = (b"null", b"false")


class Stored(Refused):
    """The request refers to something that would have to be stored here. `field` is its path in the body."""

    kind = "refused"

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}", status=400, code="unsupported_parameter")
        self.field = field


def refuse_stored(fields: Mapping[str, msgspec.Raw]) -> None:
    """Raises `Stored` for a request of `responses` that needs what an earlier request left behind."""
    for name, why in _REFERENCES.items():
        if _says(fields, name):
            raise Stored(name, why)
    if _says(fields, "background"):
        raise Stored("background", "an answer in the background could not be fetched; leave it out or set it to false")


def _says(fields: Mapping[str, msgspec.Raw], name: str) -> bool:
    raw = fields.get(name)
    return raw is not None and bytes(raw) not in _NOTHING
