"""A tool of an MCP server as an agent sees it.

The server's `isError` is what the tool answers, and its text is the model's to read. An error of the protocol is told
as one. A call that was never sent failed; one that was lost after sending has an unknown effect, unless the operator
declared the tool repeatable. The server is told the call's key (`headrace/key` in `_meta`), so that it may do what the
call asks for once.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

import trio

from agents.approval_rule import read_approval
from agents.context import ToolContext
from agents.messages import ToolSpec
from agents.tools import BaseTool, EffectUnknown, ToolError
from orchestrator.tools.mcp_arguments import ArgumentSchema
from orchestrator.tools.mcp_content import capped, result_text
from orchestrator.tools.mcp_server import McpServer
from orchestrator.tools.mcp_session import Lost, NotSent, ProtocolFailure

if TYPE_CHECKING:
    from mcp_types import RequestParamsMeta, Tool

KEY: Final = "headrace/key"
MOST_DESCRIPTION: Final = 8 * 1024
MOST_REASON: Final = 4 * 1024


class McpTool(BaseTool):
    """The server's tool `listed`, called `name` here. Raises `InvalidTool` for a schema that is none."""

    __slots__ = ("_remote", "_schema", "_server", "_trace")

    def __init__(
        self,
        name: str,
        listed: "Tool",
        server: McpServer,
        limiter: trio.CapacityLimiter,
        trace: Callable[[str], str] = lambda key: "",
    ) -> None:
        config = server.config
        self._trace = trace
        self._remote = listed.name
        self._server = server
        self._schema = ArgumentSchema(name, listed.input_schema)
        super().__init__(
            ToolSpec(name, capped(listed.description or listed.title or "", MOST_DESCRIPTION), self._schema.schema),
            kind="mcp",
            timeout=config.timeout,
            idempotent=config.declares(config.idempotent, listed.name),
            read_only=config.declares(config.read_only, listed.name),
            expires_in=config.expires_in,
        )
        # not held against the parameters: one rule is for all tools of the server, and asks where it does not apply
        self.approval = read_approval(config.approval)
        self.limiter = limiter

    def decode(self, arguments: str) -> dict[str, object]:
        return self._schema.decode(self.name, arguments)

    def bind(self, arguments: Mapping[str, object], context: ToolContext) -> Callable[[], object]:
        return lambda: self._call(dict(arguments), context.key)

    async def _call(self, arguments: dict[str, object], key: str) -> str:
        try:
            traceparent = self._trace(key)
            meta = {KEY: key, "traceparent": traceparent} if traceparent else {KEY: key}
            result = await self._server.call(self._remote, arguments, cast("RequestParamsMeta", meta))
        except NotSent as error:
            raise ToolError(capped(f"{self.name} was not called: {error}", MOST_REASON)) from error
        except Lost as error:
            raise EffectUnknown(capped(str(error), MOST_REASON)) from error
        except ProtocolFailure as error:
            raise ToolError(capped(f"{self.name} failed: {error}", MOST_REASON)) from error
        text = result_text(result)
        if result.is_error:
            raise ToolError(text or f"{self.name} failed, and does not say why")
        return text
