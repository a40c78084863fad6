"""Tools of real MCP servers, over both transports, when all goes well and when the server is at fault."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from orchestrator.tools import mcp_session
from orchestrator.tools.mcp import McpServers
from orchestrator.tools.mcp_config import McpConfig, McpUnavailable, UnknownServer
from tests.tools.mcp_servers import HttpServer, Watch, serving, stdio, until

Make = Callable[..., McpConfig]


@pytest.fixture(scope="module")
def http_server() -> Iterator[HttpServer]:
    server = HttpServer()
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that do not end by themselves are killed sooner than the SDK would."""
    for name in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT"):
        monkeypatch.setattr(f"mcp.client.stdio.{name}", 0.1)


@pytest.fixture(params=["stdio", "http"])
def make(request: pytest.FixtureRequest) -> Make:
    return stdio if request.param == "stdio" else request.getfixturevalue("http_server").config


async def test_tools_of_a_server_answer(make: Make) -> None:
    """Values, pictures and long texts come to the model as they should, and errors of tool and protocol apart."""
    async with serving(make()) as served:
        assert (await served.call("add", '{"a": 2}')).content == "3"
        assert (await served.call("picture")).content == "look:\n[image, image/png, 5 bytes]"
        assert (await served.call("key", key="run/1/0")).content == "run/1/0"
        assert (await served.call("dotted_name_with-strange-characters_180cf454")).content == "dotted"
        much = await served.call("much", '{"count": 70000}')
        assert much.content.endswith("x\n[cut off here: 4464 of 70000 bytes are left out]")
        assert [tool.kind for tool in served.servers.tools("t")] == ["mcp"] * len(served.status.tools)
        failed = await served.call("fail", '{"why": "no"}')
        assert (failed.finish, failed.content) == ("error", "Error executing tool fail")
        refused = await served.call("refuse")
        assert refused.finish == "error"
        assert refused.content == "t__refuse failed: the server answered with error -32050: not today"


async def test_what_a_server_offers_is_up_to_the_operator() -> None:
    """Only named tools are offered, and one that its server calls read-only is repeatable if the operator says so."""
    async with serving(stdio(idempotent=("much",), only=("add", "much", "gone"))) as served:
        assert {tool.name: tool.repeatable for tool in served.servers.tools("t")} == {"t__add": False, "t__much": True}
        assert served.servers.left_out("t") == ("gone: the server has no such tool",)
        assert [tool.name for tool in served.servers.named(["t__much", "t"])] == ["t__much", "t__add"]
        with pytest.raises(McpUnavailable, match="server t has no tool t__gone; it has t__add, t__much"):
            served.servers.named(["t__gone"])


async def test_a_trace_context_goes_with_the_call(make: Make) -> None:
    """Where somebody traces, the server is told the trace context of the call, and nothing where nobody does."""
    async with serving(make(), trace=lambda key: f"00-trace-of-{key}-01") as served:
        assert (await served.call("traced", key="run/1/0")).content == "00-trace-of-run/1/0-01"
    async with serving(make()) as served:
        assert (await served.call("traced")).content == "None"


async def test_a_command_gets_the_environment_that_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the daemon stay with it, and those of the configuration arrive."""
    monkeypatch.setenv("WITHHELD", "secret")
    async with serving(stdio(env={"GIVEN": "yes"})) as served:
        assert (await served.call("who")).content.split()[1:] == ["yes", "None"]
        assert "GIVEN" not in repr(served.servers.status()) + repr(stdio(env={"GIVEN": "yes"}))


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(make: Make) -> None:
    """The server's own task is cancelled, others of the session go on, and the session with them."""
    async with serving(make()) as served, Watch() as watch, trio.open_nursery() as nursery:
        outcomes: list[str] = []

        async def stays() -> None:
            outcomes.append((await served.call("watched", watch.arguments)).content)

        nursery.start_soon(stays)
        staying = await watch.next_call()
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel_at_start, watch, scope, calls := [])
            await served.call("watched", watch.arguments)
        assert scope.cancelled_caught
        assert await calls[0].says() == "cancelled"
        await staying.tell("done")
        await until(lambda: outcomes == ["done"])
        assert served.status.starts == 1


async def cancel_at_start(watch: Watch, scope: trio.CancelScope, calls: list[Any]) -> None:
    calls.append(await watch.next_call())
    scope.cancel()


async def test_a_call_beyond_its_timeout_ends_with_an_unknown_effect(make: Make) -> None:
    """The server is told, and its next call is answered."""
    async with serving(make(timeout=0.5)) as served, Watch() as watch, trio.open_nursery() as nursery:
        outcomes = []

        async def slow() -> None:
            outcomes.append(await served.call("watched", watch.arguments))

        nursery.start_soon(slow)
        call = await watch.next_call()
        assert await call.says() == "cancelled"
        await until(lambda: bool(outcomes))
        assert outcomes[0].finish == "unknown_effect"
        assert "longer than 0.5 s" in outcomes[0].content
        assert (await served.call("add", '{"a": 2}')).content == "3"


async def test_a_command_killed_in_mid_call_is_started_again() -> None:
    """A repeatable call failed, and no more than that, and the next call finds a new process."""
    async with serving(stdio(idempotent=("watched",))) as served, Watch() as watch, trio.open_nursery() as nursery:
        first = await served.pid()
        outcomes = []

        async def lose() -> None:
            outcomes.append(await served.call("watched", watch.arguments))

        nursery.start_soon(lose)
        await watch.next_call()
        os.kill(first, signal.SIGKILL)
        await until(lambda: bool(outcomes))
        assert outcomes[0].finish == "error"
        assert "the connection to its server ended while it ran" in outcomes[0].content
        assert await served.pid() != first
        assert (served.status.state, served.status.starts) == ("ready", 2)


async def test_a_http_server_killed_in_mid_call_and_gone_afterwards() -> None:
    """The open call is lost, later ones were never sent and say so, and the server is used when it is back."""
    server = HttpServer()
    try:
        async with serving(server.config(timeout=5)) as served, Watch() as watch, trio.open_nursery() as nursery:
            outcomes = []

            async def lose() -> None:
                outcomes.append(await served.call("watched", watch.arguments))

            nursery.start_soon(lose)
            await watch.next_call()
            await trio.to_thread.run_sync(server.kill)
            await until(lambda: bool(outcomes))
            assert outcomes[0].finish == "unknown_effect"
            later = await served.call("add", '{"a": 2}')
            assert later.finish == "error"
            assert later.content.startswith("t__add was not called: ")
            await trio.to_thread.run_sync(server.start)
            await served.until("ready", starts=2)
            assert (await served.call("add", '{"a": 2}')).content == "3"
    finally:
        server.kill()


async def test_a_server_that_falls_silent_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call to a stopped process ends at its timeout, and the next is answered by a new one."""
    monkeypatch.setattr(mcp_session, "SILENCE", 0.2)
    async with serving(stdio(timeout=1)) as served:
        first = await served.pid()
        assert (await served.call("deafen")).finish == "unknown_effect"
        await served.until("ready", starts=2)
        assert await served.pid() != first


async def test_a_server_that_does_not_start_fails_its_calls_and_nothing_else() -> None:
    """The daemon starts, what is asked of the server says why it cannot be had, with its last words."""
    async with serving(stdio("broken"), McpConfig(name="none", command=("/no/such/program",))) as served:
        assert served.status.state == "waiting"
        with pytest.raises(McpUnavailable, match=r"server t are not known, since it .*it last said: no database"):
            served.servers.tools("t")
        with pytest.raises(McpUnavailable, match="could not be started: No such file"):
            served.servers.tools("none")
        with pytest.raises(UnknownServer, match="no MCP server is called 'x'; there are: t, none"):
            served.servers.tools("x")


async def test_a_server_that_never_comes_up_is_given_its_start_timeout() -> None:
    """A process that says nothing is ended after its start timeout, and tried again later."""
    async with serving(stdio("never", start_timeout=0.3)) as served:
        assert served.status.problem == "did not start within 0.3 s"


async def test_a_call_to_a_server_that_keeps_failing_ends_at_once() -> None:
    """Nobody waits for a server that failed more than once: the answer says when it is tried again."""
    async with serving(stdio()) as served:
        tool = served.tool("add")
        served.servers._offers["t"].server.config = McpConfig(
            name="t", command=(sys.executable, "-c", "raise SystemExit")
        )
        os.kill(await served.pid(), signal.SIGKILL)
        await served.until("waiting", starts=2)
        assert tool in served.servers.tools("t")
        outcome = await served.call("add", '{"a": 1}')
        assert outcome.finish == "error"
        assert "was not called: its server could not be talked to" in outcome.content
        assert "; it is started again in " in outcome.content


async def test_a_server_that_learns_a_tool_offers_it(make: Make) -> None:
    """Tools are listed again when the server says that they changed."""
    async with serving(make()) as served:
        while "t__learned" not in served.status.tools:
            assert (await served.call("learn")).content == "learned"
            await trio.sleep(0.05)
        assert served.status.starts == 1


async def test_concurrency_bounds_the_calls_of_all_tools_of_a_server() -> None:
    """A second call waits for the first, whichever of the server's tools it is."""
    async with serving(stdio(concurrency=1)) as served, Watch() as watch, trio.open_nursery() as nursery:
        nursery.start_soon(served.call, "watched", watch.arguments)
        call = await watch.next_call()
        with trio.move_on_after(0.05) as scope:
            await served.call("add", '{"a": 1}')
        assert scope.cancelled_caught
        await call.tell("done")
        assert (await served.call("add", '{"a": 1}')).content == "2"


def test_two_servers_of_one_name_are_refused() -> None:
    """Names of tools would not be unique."""
    with pytest.raises(Exception, match="two MCP servers called 't'"):
        McpServers([stdio(), stdio()])
