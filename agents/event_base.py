"""What all events of a run have in common."""

from msgspec import Struct


class RunEvent(Struct, frozen=True, kw_only=True, tag_field="type"):
    """An event of `run`, appended `at` so many seconds since the epoch, 0 where nobody knew."""

    run: str
    at: float = 0.0
