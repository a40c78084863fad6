"""One MCP server for as long as the service runs: started, served, and started again with backoff when it fails."""

import math
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import trio

from orchestrator.tools.mcp_backoff import Backoff
from orchestrator.tools.mcp_config import McpConfig, McpState, McpStatus
from orchestrator.tools.mcp_session import NotSent, ServerFailed, Session, SessionEnded

if TYPE_CHECKING:
    from mcp_types import CallToolResult, RequestParamsMeta, Tool

SHARE_OF_TIMEOUT: Final = 0.9
"""Of a call's timeout, how much it may wait for its server: what was never sent must end before it is cut off."""


class McpServer:
    """A server by its config. `on_tools` is told its tools at each connection, and when they change."""

    def __init__(self, config: McpConfig, on_tools: Callable[[tuple["Tool", ...]], None], rng: random.Random) -> None:
        self.config = config
        self.starts = 0
        self.tried = trio.Event()
        """Set when it is known whether the first start succeeded."""
        self._on_tools = on_tools
        self._backoff = Backoff(rng)
        self._ready_since = math.inf
        self._session: Session | None = None
        self._state: McpState = "starting"
        self._failures = 0
        self._problem = ""
        self._next_try = 0.0
        self._changed = trio.Event()

    async def run(self) -> None:
        """Keeps the server running until cancelled. Then every call under way has failed as `Lost`."""
        try:
            while True:
                self._problem = await self._once()
                self.tried.set()
                delay = self._backoff.failed(trio.current_time() - self._ready_since)
                self._failures += 1
                self._next_try = trio.current_time() + delay
                self._become("waiting")
                await trio.sleep(delay)
        finally:
            self._become("closed")

    async def _once(self) -> str:
        """One life of the server; how it ended, as part of a sentence."""
        self.starts += 1
        self._ready_since = math.inf
        self._become("starting")

        def listed(tools: tuple["Tool", ...]) -> None:
            self._on_tools(tools)
            if self._session is None:
                self._session, self._failures, self._problem = session, 0, ""
                self._ready_since = trio.current_time()
                self._become("ready")
                self.tried.set()

        session = Session(self.config, listed)
        try:
            await session.run()
        except ServerFailed as error:
            return error.message
        finally:
            self._session = None
        raise AssertionError("a session ends with why")

    async def call(self, tool: str, arguments: dict[str, Any], meta: "RequestParamsMeta") -> "CallToolResult":
        """One call to its end. Raises what `Session.call` raises.

        It waits for a server that is starting, or that has failed once; one that keeps failing refuses at once.
        """
        deadline = trio.current_time() + min(self.config.start_timeout, SHARE_OF_TIMEOUT * self.config.timeout)
        while True:
            session = await self._ready(deadline)
            try:
                return await session.call(tool, arguments, meta)
            except SessionEnded:
                with trio.move_on_at(deadline) as waiting:
                    while self._session is session:
                        await self._changed.wait()
                if waiting.cancelled_caught:
                    raise

    async def _ready(self, deadline: float) -> Session:
        with trio.move_on_at(deadline):
            while self._session is None and self._coming:
                await self._changed.wait()
        if self._session is not None:
            return self._session
        if self._state == "waiting":
            seconds = max(0.0, self._next_try - trio.current_time())
            raise NotSent(f"its server {self._problem}; it is started again in {seconds:.1f} s")
        raise NotSent("its server is closed" if self._state == "closed" else "its server is still starting")

    @property
    def _coming(self) -> bool:
        return self._state == "starting" or (self._state == "waiting" and self._failures == 1)

    def _become(self, state: McpState) -> None:
        self._state = state
        self._changed.set()
        self._changed = trio.Event()

    def status(self, tools: tuple[str, ...]) -> McpStatus:
        return McpStatus(
            name=self.config.name,
            state=self._state,
            tools=tools,
            starts=self.starts,
            problem=self._problem,
            next_try=max(0.0, self._next_try - trio.current_time()) if self._state == "waiting" else None,
        )
