"""One connection to an MCP server, owned by the task that runs it; everybody else reaches it by its channel.

The owner takes calls from the channel and makes each in a task of its own, inside the connection. So a call that is
cut off is cancelled where it was made, which tells the server, and a caller never enters the SDK's tasks. What became
of a call is one of: an answer; an error of the protocol; not sent; lost after it was sent.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import trio
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolResult,
    Implementation,
    RequestParamsMeta,
    Tool,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from agents.errors import HeadraceError
from orchestrator.tools.mcp_config import McpConfig
from orchestrator.tools.mcp_transport import Line
from orchestrator.version import version

MOST_TOOLS: Final = 1_000
MOST_PAGES: Final = 100

SETTLE: Final = 0.5
"""Seconds that calls under way have to learn their own ends when their connection has ended."""

SILENCE = 10.0
"""Seconds in which a server that let a call run out of time must list its tools, or it is taken for dead."""


class NotSent(HeadraceError):
    """The server has not seen the call; the message says why, as part of a sentence."""

    blame = "provider"


class SessionEnded(NotSent):
    """The connection had ended before the call was sent; another may come."""


class Lost(HeadraceError):
    """The call was sent, and nothing will ever be known of its end."""

    blame = "provider"


class ProtocolFailure(HeadraceError):
    """The server answered the call with an error of the protocol, or with what the protocol does not allow."""

    blame = "provider"


class ServerFailed(HeadraceError):
    """The server did not start, could not be connected to, ended, or fell silent."""

    blame = "provider"


class _Call:
    """One call on its way. `result` and `error` are set when it is `done`; with neither, it is lost."""

    __slots__ = ("arguments", "done", "error", "meta", "result", "scope", "tool")

    def __init__(self, tool: str, arguments: dict[str, Any], meta: RequestParamsMeta) -> None:
        self.tool = tool
        self.arguments = arguments
        self.meta = meta
        self.scope = trio.CancelScope()
        self.done = trio.Event()
        self.result: CallToolResult | None = None
        self.error: HeadraceError | None = None


class Session:
    """A connection, from its opening to its end. `on_tools` is told the server's tools, again when they change."""

    def __init__(self, config: McpConfig, on_tools: Callable[[tuple[Tool, ...]], None]) -> None:
        self._config = config
        self._on_tools = on_tools
        self._line = Line(config)
        self._calls, self._incoming = trio.open_memory_channel[_Call](0)
        self._look = trio.Event()
        self._why_ended = "ended"

    async def call(self, tool: str, arguments: dict[str, Any], meta: RequestParamsMeta) -> CallToolResult:
        """One call to its end. Raises `NotSent`, `Lost`, `ProtocolFailure`; cancelled, it tells the server."""
        call = _Call(tool, arguments, meta)
        try:
            await self._calls.send(call)
        except trio.BrokenResourceError:
            raise SessionEnded("its connection has ended") from None
        try:
            await call.done.wait()
        except trio.Cancelled:
            call.scope.cancel()
            self._look.set()  # a server that let a call run out of time may have fallen silent
            raise
        if call.error is not None:
            raise call.error
        if call.result is None:
            raise Lost("the connection to its server ended while it ran")
        return call.result

    async def run(self) -> None:
        """Opens the connection and serves calls until it ends. Raises `ServerFailed`, always but for cancellation."""
        clock = trio.CancelScope(deadline=trio.current_time() + self._config.start_timeout)
        try:
            with clock:
                await self._serve(clock)
        except Exception as error:
            raise ServerFailed(self._described(error)) from error
        if clock.cancelled_caught:
            raise ServerFailed(self._with_last_words(f"did not start within {self._config.start_timeout:g} s"))
        raise ServerFailed(self._with_last_words(self._why_ended))

    async def _serve(self, clock: trio.CancelScope) -> None:
        client = Client(
            _Opened(self._line),
            client_info=Implementation(name="headrace", version=version()),
            message_handler=self._heard,
            cache=None,
        )
        async with client:
            self._on_tools(await list_tools(client))
            clock.deadline = math.inf
            await self._until_ended(client)

    async def _until_ended(self, client: Client) -> None:
        async with trio.open_nursery() as calls:
            # closed before the connection is, which may take its time: who comes then is told at once
            with self._incoming:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._take_calls, client, calls)
                    nursery.start_soon(self._look_again, client)
                    nursery.start_soon(self._hear_changes, client)
                    await self._line.ended.wait()
                    nursery.cancel_scope.cancel()
            # a call that is failing by itself knows better what became of it
            calls.cancel_scope.deadline = trio.current_time() + SETTLE

    async def _take_calls(self, client: Client, nursery: trio.Nursery) -> None:
        async for call in self._incoming:
            nursery.start_soon(self._make, client, call)

    async def _make(self, client: Client, call: _Call) -> None:
        try:
            with call.scope:
                if self._line.ended.is_set():
                    call.error = SessionEnded("its connection has ended")
                    return
                call.result = await client.call_tool(call.tool, call.arguments, meta=call.meta)
        except MCPError as error:
            call.error = self._judge(error)
        except ValidationError:
            call.error = ProtocolFailure("the server's answer is none that the protocol knows")
        except RuntimeError as error:  # the SDK's word for an answer that the tool's own schema does not allow
            call.error = ProtocolFailure(f"the server's answer does not fit what it declares: {error}")
        except Exception as error:  # nothing of the SDK's may end the calls of others
            call.error = Lost(f"it ended with {type(error).__name__}: {error}")
        finally:
            call.done.set()

    def _judge(self, error: MCPError) -> HeadraceError:
        if self._line.not_sent is not None and error.data == self._line.not_sent:
            self._look.set()
            return NotSent(error.message)
        if error.code == CONNECTION_CLOSED:
            # a server may use this code for an error of its own; then too little is claimed, never too much
            self._look.set()
            return Lost(f"the connection to its server ended while it ran: {error.message}")
        return ProtocolFailure(f"the server answered with error {error.code}: {error.message}")

    async def _look_again(self, client: Client) -> None:
        """Asks for the tools again when they changed, or when there is doubt whether the server still answers.

        One that does not ends the connection, and with it the calls under way: they wait for the same server.
        """
        while not self._line.ended.is_set():
            await self._look.wait()
            self._look = trio.Event()
            try:
                with trio.fail_after(SILENCE):
                    self._on_tools(await list_tools(client))
            except trio.TooSlowError:
                self._give_up(f"did not answer within {SILENCE:g} s")
            except MCPError as error:
                self._give_up(f"did not list its tools: {error}")

    def _give_up(self, why: str) -> None:
        self._why_ended = why
        self._line.ended.set()

    async def _hear_changes(self, client: Client) -> None:
        """Listens for changes of the tools, where the protocol has a stream for it (else they come as messages)."""
        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._look.set()
        except ListenNotSupportedError:
            return
        except (MCPError, SubscriptionLost):
            self._look.set()  # it may be gone altogether

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._look.set()
        await trio.lowlevel.checkpoint()

    def _described(self, error: Exception) -> str:
        found = _innermost(error)
        if isinstance(found, OSError):
            return f"could not be started: {found.strerror or found}"
        what = str(found) if isinstance(found, MCPError) else f"{type(found).__name__}: {found}"
        return self._with_last_words(f"could not be talked to: {what}")

    def _with_last_words(self, what: str) -> str:
        words = self._line.last_words
        return f"{what}; it last said: {words}" if words else what


class _Opened:
    """A line as the SDK's client wants a transport: opened when it is entered."""

    def __init__(self, line: Line) -> None:
        self._opened = line.open()

    async def __aenter__(self) -> Any:
        return await self._opened.__aenter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._opened.__aexit__(*error)


async def list_tools(client: Client) -> tuple[Tool, ...]:
    """All tools of a server, page by page, as far as is bearable."""
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tuple(tools[:MOST_TOOLS])


def _innermost(error: BaseException) -> BaseException:
    """The first error in what nurseries wrapped, cancellations aside."""
    while isinstance(error, BaseExceptionGroup):
        parts = [part for part in error.exceptions if not isinstance(part, trio.Cancelled)]
        error = (parts or list(error.exceptions))[0]
    return error
