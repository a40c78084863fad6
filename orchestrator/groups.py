"""What a nursery wrapped, unwrapped."""

from typing import TypeVar

import trio

E = TypeVar("E", bound=BaseException)


def only(group: BaseExceptionGroup[BaseException], kind: type[E]) -> E | None:
    """The first error of the group if all of them are of this kind, cancellations aside; else None."""
    found: list[BaseException] = []
    _leaves(group, found)
    errors = [error for error in found if not isinstance(error, trio.Cancelled)]
    wanted = [error for error in errors if isinstance(error, kind)]
    return wanted[0] if wanted and len(wanted) == len(errors) else None


def _leaves(error: BaseException, found: list[BaseException]) -> None:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            _leaves(part, found)
    else:
        found.append(error)
