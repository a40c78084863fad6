"""Moments as people write them."""

import datetime
import math
import re
from typing import Final

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def moment(text: str, now: float) -> float:
    """Seconds since the epoch: `2026-01-31T14:00` (UTC unless it says otherwise), `90m` (so long before `now`), or
    the seconds themselves. Raises `ValueError` with what would be right.
    """
    ago = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if ago is not None:
        return now - int(ago[1]) * _UNITS[ago[2]]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment like 2026-01-31T14:00, 90m (ago) or seconds since 1970") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)).timestamp()
