"""What a client is told that a run waits for."""

import shutil
from pathlib import Path

import trio

from orchestrator.views.runs import AgentChoice, RunRequest
from tests.daemon.serving import Serving, config, serving

BUSY = f"""
[backends.sim]
kind = "simulated"
speed = 20
concurrency = 1
latency = {{ first_token = 20.0 }}
[models.m]
backends = ["sim"]
[agents.looker]
model = "m"
tools = ["look"]
[tools.look]
command = ["{shutil.which("sleep")}", "20"]
description = "Looks."
parameters = {{ what = "string" }}
"""


async def waits(one: Serving, run: str) -> str:
    """What it waits for, as soon as that is anything."""
    found = ""
    while not found:
        await trio.sleep(0.01)
        found = (await one.client.run(run)).waits_for
    return found


async def test_a_run_behind_a_busy_slot_says_so(tmp_path: Path) -> None:
    """The call of a second run waits for one in flight, and lists show it as well as the run by itself."""
    async with serving(config(tmp_path, BUSY)) as one:
        await one.client.start_run(RunRequest(task="first"))
        second = await one.client.start_run(RunRequest(task="second"))
        assert await waits(one, second.run) in ("calls in flight", "fair_order")
        page = await one.client.runs()
        assert {run.run: bool(run.waits_for) for run in page.runs}[second.run]


async def test_a_run_says_which_tool_works_for_it(tmp_path: Path) -> None:
    """While a tool works its run waits for that tool."""
    async with serving(config(tmp_path, BUSY.replace("20.0", "0.1"))) as one:
        run = await one.client.start_run(RunRequest(task="look", who=AgentChoice(agent="looker")))
        found = await waits(one, run.run)
        while not found.startswith("tool "):
            await trio.sleep(0.01)
            found = await waits(one, run.run)
        assert found == "tool look"
