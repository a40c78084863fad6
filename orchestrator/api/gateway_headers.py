"""Headers that every answer of the gateway has, errors included.

`x-request-id` names the request, as OpenAI's SDK shows it (`_request_id`), and `request-id` the same for Anthropic's.
Log lines about a request have it. Once the tenant and the model are known, the limits stand beside it, in the form that
the dialect's provider gives them, and `x-headrace-call`: the key by which the ledger and `headrace explain` know the
call.
"""

import random
from collections.abc import Callable, Iterable
from typing import Final

from starlette.types import Message, Scope, Send

Headers = Iterable[tuple[bytes, bytes]]

_ids: Final = random.Random()
_ID: Final = "headrace.request_id"
_LIMITS: Final = "headrace.limits"
_CALL: Final = "headrace.call"

CALL_HEADER: Final = "x-headrace-call"


def request_id(scope: Scope) -> str:
    """The request's id, given when it is first asked for."""
    known = scope.get(_ID)
    if known is None:
        known = scope[_ID] = f"req_{_ids.getrandbits(96):024x}"
    return str(known)


def show_limits(scope: Scope, limits: Callable[[], Headers]) -> None:
    """These headers, as they are when the answer begins, go with it."""
    scope[_LIMITS] = limits


def show_call(scope: Scope, key: str) -> None:
    """The call's key goes with the answer."""
    scope[_CALL] = key


def stamped(scope: Scope, send: Send) -> Send:
    """A `send` that puts them on the answer."""

    async def stamping(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = request_id(scope).encode()
            limits: Callable[[], Headers] | None = scope.get(_LIMITS)
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", named),
                (b"request-id", named),
                *([(CALL_HEADER.encode(), scope[_CALL].encode())] if scope.get(_CALL) else ()),
                *(limits() if limits is not None else ()),
            ]
        await send(message)

    return stamping
