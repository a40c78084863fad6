"""Virtual time and threads do not go together: the clock would jump while a thread works."""

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio

T = TypeVar("T")


async def _at_once(work: Callable[..., T], *args: object, **_: object) -> T:
    await trio.lowlevel.checkpoint()
    return work(*args)


@pytest.fixture(autouse=True)
def no_threads_in_virtual_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `autojump_clock`, what would go to a thread is done in place."""
    if "autojump_clock" in request.fixturenames:
        monkeypatch.setattr(trio.to_thread, "run_sync", _at_once)
