"""A daemon explains what a test has arranged."""

from pathlib import Path

import httpx2
import pytest
import trio
from typer.testing import CliRunner

from orchestrator.cli.app import app
from orchestrator.client.errors import Refusal
from orchestrator.views.runs import RunRequest
from tests.daemon.serving import Serving, config, serving, until

TIGHT = """
[backends.sim]
kind = "simulated"
speed = SPEED
concurrency = 1
latency = { first_token = 40.0, spread = 0.0 }
"""


def held(one: Serving) -> int:
    """Calls that are queued or in flight."""
    (owner,) = one.daemon.owners.by_name.values()
    return owner.statistics().held


async def called(one: Serving, tenant: str, priority: str = "standard") -> str:
    """Sends one call, and returns its key when it is answered."""
    async with httpx2.AsyncClient(timeout=30) as client:
        answer = await client.post(
            f"{one.url}/v1/chat/completions",
            json={"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]},
            headers={"x-headrace-tenant": tenant, "x-headrace-priority": priority},
        )
        assert answer.status_code == 200
        return str(answer.headers["x-headrace-call"])


async def test_a_call_is_explained_by_its_key(tmp_path: Path) -> None:
    """The last of five calls for one slot says how long it waited, for what, and that three that came before went."""
    keys: list[str] = []

    async def call() -> None:
        keys.append(await called(one, "web"))

    async with serving(config(tmp_path, TIGHT.replace("SPEED", "60"))) as one:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(call)
                await until(lambda number=number: held(one) > number)
        slow = await one.client.slowest(60.0, tenant="web")
        explained = await one.client.explain_call(slow.calls[0].call)
    assert explained.call == keys[-1]
    assert explained.waited > 0.2
    assert {part.held_by for part in explained.waits} <= {"fair_order", "calls in flight"}
    assert [(group.rule, group.tenant, group.calls) for group in explained.ahead] == [("arrival", "web", 3)]
    assert any("in the order in which they came" in sentence for sentence in explained.words)


async def test_a_run_is_explained_while_it_waits_and_afterwards(tmp_path: Path) -> None:
    """A run behind a busy slot says that it waits for it; when it has ended its time is divided and adds up."""
    async with serving(config(tmp_path, TIGHT.replace("SPEED", "400"))) as one:
        first = await one.client.start_run(RunRequest(task="first"))
        second = await one.client.start_run(RunRequest(task="second"))
        waiting = await one.client.explain_run(second.run)
        while not waiting.calls:
            await trio.sleep(0.01)
            waiting = await one.client.explain_run(second.run)
        assert waiting.calls[0].state == "queued"
        assert first.run != second.run
        async for _ in one.client.events(second.run):
            pass
        ended = await one.client.explain_run(second.run)
    assert ended.state == "completed"
    assert ended.queue > 0.05
    parts = ended.queue + ended.model + ended.tools + ended.people + ended.other
    assert parts == pytest.approx(ended.seconds, abs=0.01)


async def test_what_nobody_knows_is_said_clearly(tmp_path: Path) -> None:
    """An unknown call and an unknown run are refused with where the right name is found."""
    async with serving(config(tmp_path)) as one:
        with pytest.raises(Refusal, match="x-headrace-call") as refused:
            await one.client.explain_call("call-00ff")
        assert refused.value.status == 404
        with pytest.raises(Refusal, match="there is no run"):
            await one.client.explain_run("nobody")


def test_a_call_and_a_tenant_at_once_is_wrong_usage() -> None:
    """The command says which of the two to give."""
    result = CliRunner().invoke(app, ["explain", "r1", "--tenant", "web"])
    assert result.exit_code == 2
    assert "not both" in result.stderr
