"""The demo on the simulated model, and what it does where the local one is missing."""

import json

import pytest
import trio.testing

from orchestrator.backends.local.config import LocalConfig, NotInstalled
from orchestrator.cli import demo_run as demo
from orchestrator.cli.demo_run import DemoOptions, run_demo
from orchestrator.cli.demo_tasks import tenants


async def test_all_agents_end_and_service_follows_weights(
    autojump_clock: trio.testing.MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    """At least 24 agents of three tenants end well, some by a tool, and shares are near the weights' shares."""
    assert await run_demo(DemoOptions(simulated=True, json=True)) == 0
    data = json.loads(capfd.readouterr().out)
    assert len(data["agents"]) == sum(len(tenant.items) for tenant in tenants()) >= 24
    assert all(agent["ok"] for agent in data["agents"])
    assert sum(agent["tool_calls"] for agent in data["agents"]) > 0
    assert len(data["tenants"]) == 3
    for tenant in data["tenants"].values():
        assert tenant["calls"] > 0
        assert tenant["longest_wait_seconds"] > 0
        assert tenant["contended_share"] == pytest.approx(tenant["weight_share"], abs=0.15)


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_weights(config: LocalConfig) -> None:
        raise NotInstalled("The local model is not installed; missing: the weights.")

    monkeypatch.setattr("orchestrator.backends.local.backend.find_weights", find_weights)


@pytest.mark.usefixtures("no_weights")
async def test_a_missing_model_is_said_and_replaced(
    autojump_clock: trio.testing.MockClock, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without weights the demo says why, says that it goes on simulated, and ends well, with tables."""
    assert await run_demo(DemoOptions()) == 0
    captured = capfd.readouterr()
    assert "The local model cannot run: The local model is not installed; missing: the weights." in captured.err
    assert "Going on with the simulated model" in captured.err
    for part in ("Answers", "Tenants", "share while", "Where to look next", "on the simulated model"):
        assert part in captured.out


@pytest.mark.usefixtures("no_weights")
async def test_a_missing_model_fails_where_it_is_required(capfd: pytest.CaptureFixture[str]) -> None:
    """Under CI or `--require-local` the fall-back is a failure."""
    assert await run_demo(DemoOptions(require_local=True)) == 1
    captured = capfd.readouterr()
    assert captured.err.splitlines()[-1] == "headrace: The local model is not installed; missing: the weights."
    assert captured.out == ""


def test_the_demo_has_a_queue() -> None:
    """Far fewer calls may be in flight than there are agents, or there would be no order to see."""
    assert sum(len(tenant.items) for tenant in tenants()) > 4 * demo.IN_FLIGHT
