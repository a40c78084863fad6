"""An error as a client sees it: what every failed request to `/api` answers."""

from msgspec import Struct


class ErrorBody(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`kind` is a stable word for programs, `message` one sentence for people; `field` names what was wrong.

    `retry_after` is in seconds, as in the header of that name.
    """

    kind: str
    message: str
    field: str = ""
    retry_after: float | None = None


class ErrorAnswer(Struct, frozen=True, kw_only=True):
    """The body of every answer with a status of 400 or more."""

    error: ErrorBody
