"""What strangers stand before: a daemon with keys and two tenants' work on it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestrator.api.app import all_routes
from orchestrator.api.operations import Operation
from tests.api.surface_rig import make_services
from tests.keys.test_scoping import Tenants, tenants

CONFIG = """
[backends.sim]
kind = "simulated"
script = "tests.page.page_agents:script"
speed = 200

[models."*"]
backends = ["sim"]

[agents.clerk]
tools = ["send", "ask_people"]

[tools.send]
function = "tests.page.page_agents:send"

[tools.ask_people]
ask = true
"""

OPERATIONS: list[Operation] = [route.operation for route in all_routes(make_services())]
"""Everything that the surface can do."""


@asynccontextmanager
async def worked(folder: Path) -> AsyncGenerator[tuple[Tenants, dict[str, str]], None]:
    """`acme` has one of everything; the ids of its things, by what a path calls them."""
    async with tenants(folder, CONFIG) as they:
        clerk = {"agent": "clerk"}
        for run, task in (("r1", "send anna"), ("q1", "free")):
            assert (await they.ask("acme", "POST", "/api/runs", {"task": task, "run": run, "who": clerk})).is_success
            waiting = await they.ask("acme", "GET", f"/api/approvals/{run}/1/0")
            while not waiting.is_success:
                waiting = await they.ask("acme", "GET", f"/api/approvals/{run}/1/0")
        assert (await they.ask("acme", "POST", "/api/jobs", {"prompt": "{text}", "job": "j1"})).is_success
        message = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}
        call = (await they.ask("acme", "POST", "/v1/chat/completions", message)).headers["x-headrace-call"]
        yield they, {"run": "r1", "session": "r1", "job": "j1", "call": call, "step": "1", "index": "0"}
