"""Virtual time: hours of waiting in seconds, and the same every time.

Everything runs in one thread under trio's `MockClock`, which jumps to the next deadline as soon as every task waits.
So a scenario takes as long as its computation, and its clock shows what it would have taken. Sockets, threads and the
wall clock have no place in it: they know nothing of the jump.

trio runs the tasks that are ready in a random order, so that nobody relies on one. Here that order comes from `seed`:
the same scenario with the same seed gives the same result to the byte, in any process.
"""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import trio
from trio.testing import MockClock

T = TypeVar("T")

# trio keeps its generator and the switch that makes its order depend on nothing else private; hypothesis' plug-in for
# trio uses the same two.
_SCHEDULER: Final[Any] = trio._core._run


def in_virtual_time(scenario: Callable[[], Awaitable[T]], *, seed: int = 0) -> T:
    """The result of `scenario`, run to its end under a clock that begins at 0 and jumps over all waiting."""
    with _ordered_by(seed):
        return trio.run(scenario, clock=MockClock(autojump_threshold=0))


@contextmanager
def _ordered_by(seed: int) -> Generator[None, None, None]:
    state, deterministic = _SCHEDULER._r.getstate(), _SCHEDULER._ALLOW_DETERMINISTIC_SCHEDULING
    _SCHEDULER._r.seed(seed)
    _SCHEDULER._ALLOW_DETERMINISTIC_SCHEDULING = True
    try:
        yield
    finally:
        _SCHEDULER._r.setstate(state)
        _SCHEDULER._ALLOW_DETERMINISTIC_SCHEDULING = deterministic
