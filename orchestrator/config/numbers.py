"""Numbers as configuration has them, so that each one that makes no sense is found, not only the first of its table."""

from typing import Annotated

from msgspec import Meta

Positive = Annotated[float, Meta(gt=0, extra={"finite": True})]
NotNegative = Annotated[float, Meta(ge=0, extra={"finite": True})]
Count = Annotated[int, Meta(ge=1)]
CountOrNone = Annotated[int, Meta(ge=0)]
