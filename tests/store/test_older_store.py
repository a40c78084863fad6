"""A store that an older release has written, with a run that has ended, one that waits for people, and one that was
killed in the middle of a model call."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx2

from agents.events import RunResumed, decode
from orchestrator.daemon.stores import FILE
from orchestrator.store.sqlite import open_sqlite
from tests.daemon.serving import config, serving

OLDER = Path(__file__).parent / "older" / "before_waits.sql"
"""From before calls said what they waited for. Made by that release's daemon, which was killed."""

CONFIG = """
[backends.sim]
kind = "simulated"
parallel_tools = 1
tool_rounds = 1
speed = 200

[models."*"]
backends = ["sim"]
price = { input = 1, output = 2 }

[agents.storeman]
tools = ["stock"]
budget = { rounds = 4, tokens = 9000 }

[agents.writer]
tools = ["letter"]

[tools.stock]
function = "tests.store.older_tools:stock"
idempotent = true

[tools.letter]
function = "tests.store.older_tools:letter"
approval = "always"

[tenants.web.budget]
dollars = 5
"""
SPENT = 92 + 346
"""Micro-dollars of the run that has ended, of tenant web."""


def restore(folder: Path) -> Path:
    file = folder / FILE
    with sqlite3.connect(file) as connection:
        connection.executescript(OLDER.read_text())
    connection.close()
    return file


async def test_a_daemon_goes_on_with_what_an_older_one_left(tmp_path: Path) -> None:
    """What had ended reads as it did, what was killed comes to its end, what waits for people still does and goes on
    at their word, and money that was spent is spent."""
    file = restore(tmp_path)
    async with (
        serving(config(tmp_path, CONFIG)) as served,
        httpx2.AsyncClient(base_url=served.url, trust_env=False, timeout=30) as http,
    ):

        async def read(path: str) -> Any:
            answer = await http.get(path)
            assert answer.status_code == 200, answer.text
            return answer.json()

        ended = await read("/api/runs/ended-web")
        assert (ended["state"], ended["rounds"], ended["tool_calls"]) == ("completed", 2, 1)
        assert (ended["micro_dollars"], ended["answer"][:14]) == (SPENT, "The tool says:")
        assert (await read("/api/runs/killed-1?wait=20"))["reason"] == "final_answer"
        assert (await read("/api/runs/waits-1"))["state"] == "waiting_approval"
        (asked,) = (await read("/api/approvals"))["approvals"]
        decided = await http.post(f"/api/approvals/{asked['id']}/decide", json={"decision": "approved"})
        assert decided.status_code == 200
        assert (await read("/api/runs/waits-1?wait=20"))["reason"] == "final_answer"
        (budget,) = (await read("/api/queue"))["budgets"]
        assert (budget["tenant"], budget["used"]) == ("web", SPENT / 1_000_000)
        assert (await read("/api/calls/ended-web/1/1/explanation"))["waited"] == 0.0
    async with open_sqlite(file) as store:
        events = [decode(record.data) for record in await store.read("killed-1")]
    assert sum(isinstance(event, RunResumed) for event in events) == 1
