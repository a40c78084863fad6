"""What a provider says about its limits in a response, as data. Adapters parse headers into it; limits consume it."""

from typing import Literal

from msgspec import Struct

LimitKind = Literal["requests", "input_tokens", "output_tokens", "total_tokens"]


class Reading(Struct, frozen=True):
    """One limit as reported: its size, what is left of it, and in how many seconds it is full again.

    A field the provider did not send, or that made no sense, is None. `per` is the limit's span in seconds.
    """

    kind: LimitKind
    limit: float | None = None
    remaining: float | None = None
    reset: float | None = None
    per: float = 60.0
