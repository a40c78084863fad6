"""A server's restarts and those who wait for it, in virtual time, with a session that does as it is told."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import trio
from mcp_types import CallToolResult
from trio.testing import MockClock

from orchestrator.tools import mcp_server
from orchestrator.tools.mcp_backoff import Backoff
from orchestrator.tools.mcp_config import McpConfig
from orchestrator.tools.mcp_server import McpServer
from orchestrator.tools.mcp_session import NotSent, ServerFailed, SessionEnded

ANSWER = CallToolResult(content=[])


class Lives:
    """What each life of the server is: how long it takes to start, and how long it then lives, in seconds."""

    def __init__(self, *lives: tuple[float, float]) -> None:
        self.lives = list(lives)
        self.began: list[float] = []

    def __call__(self, config: McpConfig, on_tools: Callable[[tuple[Any, ...]], None]) -> "StagedSession":
        return StagedSession(self, on_tools)


class StagedSession:
    def __init__(self, lives: Lives, on_tools: Callable[[tuple[Any, ...]], None]) -> None:
        self._lives = lives
        self._on_tools = on_tools
        self._open = False

    async def run(self) -> None:
        start, life = self._lives.lives[len(self._lives.began)]
        self._lives.began.append(trio.current_time())
        await trio.sleep(start)
        if life:
            self._open = True
            self._on_tools(())
            await trio.sleep(life)
            self._open = False
            await trio.sleep(1)  # an end takes its time
        raise ServerFailed("ended")

    async def call(self, tool: str, arguments: dict[str, Any], meta: Any) -> CallToolResult:
        if not self._open:
            raise SessionEnded("its connection has ended")
        await trio.lowlevel.checkpoint()
        return ANSWER


class Unlucky(random.Random):
    def random(self) -> float:
        return 0.0


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[McpServer, Lives]]:
    def make(*lives: tuple[float, float], **options: Any) -> tuple[McpServer, Lives]:
        script = Lives(*lives)
        monkeypatch.setattr(mcp_server, "Session", script)
        config = McpConfig(name="t", command=("x",), **options)
        return McpServer(config, lambda tools: None, Unlucky()), script

    return make


Staged = Callable[..., tuple[McpServer, Lives]]


async def test_the_wait_doubles_up_to_a_minute(staged: Staged, autojump_clock: MockClock) -> None:
    """A server that never starts is tried again for ever, and ever more rarely."""
    server, lives = staged(*[(0, 0)] * 50)
    with trio.move_on_after(300):
        await server.run()
    gaps = [later - earlier for earlier, later in zip(lives.began, lives.began[1:], strict=False)]
    assert gaps[:8] == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 60])
    assert server.status(()).state == "closed"


def test_a_server_that_lived_long_is_started_again_at_once() -> None:
    """Failures of an hour ago are no reason to wait, and those of a server that dies soon are."""
    backoff = Backoff(Unlucky())
    assert [backoff.failed(lived) for lived in (0, 0, 59, 60, 0)] == [0.5, 1, 2, 0.5, 1]


async def test_a_call_waits_for_a_server_that_starts(staged: Staged, autojump_clock: MockClock) -> None:
    """It is answered as soon as the server is there."""
    server, _ = staged((5, 100))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        assert await server.call("add", {}, {}) is ANSWER
        assert trio.current_time() == pytest.approx(autojump_clock.current_time())
        assert server.status(()).state == "ready"
        nursery.cancel_scope.cancel()


async def test_a_call_waits_no_longer_than_its_timeout_allows(staged: Staged, autojump_clock: MockClock) -> None:
    """It fails as never sent, before it would be cut off with an unknown effect."""
    server, _ = staged((100, 100), timeout=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        begun = trio.current_time()
        with pytest.raises(NotSent, match="still starting"):
            await server.call("add", {}, {})
        assert trio.current_time() - begun == pytest.approx(9)
        nursery.cancel_scope.cancel()


async def test_a_call_that_finds_its_connection_ended_goes_with_the_next(
    staged: Staged, autojump_clock: MockClock
) -> None:
    """What was not sent is sent once there is a server again, while the first failure is being mended."""
    server, lives = staged((0, 5), (2, 100))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await trio.sleep(5.5)
        assert server.status(()).state == "ready"
        assert await server.call("add", {}, {}) is ANSWER
        assert trio.current_time() - lives.began[0] == pytest.approx(5 + 1 + 0.5 + 2)
        nursery.cancel_scope.cancel()


async def test_a_call_to_a_server_that_failed_twice_is_refused_at_once(
    staged: Staged, autojump_clock: MockClock
) -> None:
    """It is told when the server is tried again."""
    server, _ = staged((0, 0), (0, 0), (0, 100))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)
        await trio.sleep(0.75)
        with pytest.raises(NotSent, match=r"its server ended; it is started again in 0\.[78] s"):
            await server.call("add", {}, {})
        assert (server.status(()).state, server.status(()).problem) == ("waiting", "ended")
        await trio.sleep(1)
        assert await server.call("add", {}, {}) is ANSWER
        nursery.cancel_scope.cancel()


async def test_who_waits_is_told_when_the_service_ends(staged: Staged, autojump_clock: MockClock) -> None:
    """No call hangs on a server that will never come."""
    server, _ = staged((100, 100))
    told = []

    async def wait() -> None:
        with pytest.raises(NotSent, match="closed") as raised:
            await server.call("add", {}, {})
        told.append(raised)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        with trio.move_on_after(1):
            await server.run()
    assert told
