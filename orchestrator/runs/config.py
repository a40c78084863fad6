"""How many runs there may be."""

from typing import Final

from msgspec import Struct

from agents.errors import InvalidLimits


class RunsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many runs are driven at once, how many a tenant and all together may have, how many that ended are kept.

    Raises `InvalidLimits`.
    """

    max_live: int = 10_000
    per_tenant: int = 10_000
    in_all: int = 50_000
    keep_ended: int = 1_000

    def __post_init__(self) -> None:
        for field, least in (("max_live", 1), ("per_tenant", 1), ("in_all", 1), ("keep_ended", 0)):
            value = getattr(self, field)
            if type(value) is not int or value < least:
                raise InvalidLimits(field, f"a whole number, {least} or more, not {value!r}")


DEFAULTS: Final = RunsConfig()
