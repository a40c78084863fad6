"""What a whole daemon's metrics show, and that the page about them is true."""

import os
import re
import shutil
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from agents.amounts import Limits
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.daemon.serving import SECONDS, config, serving, until
from tests.instruments.scraping import ended, samples, scraped, value

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(headrace_\w+)` \| (\w+) \| (.*?) \| ([^|]+) \| (.+) \|")
UNITS = {"seconds": "seconds", "ratio": "ratio", "dollars": "dollars", "tokens": "tokens"}
"""What a unit in a metric's name is called in the page; units of what is counted are words."""

TOOLS = f"""
[models.m]
backends = ["sim"]
price = {{ input = 1, output = 2 }}
[agents.looker]
model = "m"
tools = ["look"]
[agents.asker]
model = "m"
tools = ["ask"]
[tools.look]
command = ["{shutil.which("cat")}"]
description = "Looks."
parameters = {{ what = "string" }}
[tools.ask]
ask = true
[tenants.poor]
budget = {{ tokens = 10, per = "day" }}
[tenants.slow]
rpm = 1
"""


async def test_the_page_about_metrics_is_true(tmp_path: Path) -> None:
    """Every metric of a daemon stands in `docs/metrics.md` with its type, labels, unit and words, and no other does."""
    documented = {
        name: (kind, frozenset(re.findall(r"`(\w+)`", labels)), unit, words)
        for name, kind, labels, unit, words in ROW.findall(DOCS.read_text())
    }
    async with serving(config(tmp_path, TOOLS + '[pool]\nkind = "workers"\n')) as one:
        await one.client.start_run(RunRequest(task="hello"))
        text = await scraped(one)
    shown = {}
    for family in text_string_to_metric_families(text):
        if not family.name.startswith("headrace_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        shown[name] = family
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert name in documented, f"docs/metrics.md does not know {name}"
        kind, named, unit, words = documented[name]
        assert (family.type, family.documentation) == (kind, words), name
        assert labels in (set(), named), name
        assert {unit} >= {UNITS[word] for word in name.split("_") if word in UNITS}, name
    assert documented.keys() == shown.keys()


async def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    """Prometheus' own linter takes the whole exposition without a word."""
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is missing: install the Debian package prometheus")
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    async with serving(config(tmp_path, TOOLS)) as one:
        run = await one.client.start_run(RunRequest(task="hello"))
        await ended(one, run.run)
        text = await scraped(one)
    checked = await trio.run_process(
        [promtool, "check", "metrics"], stdin=text.encode(), capture_stdout=True, capture_stderr=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


async def test_a_tool_call_is_counted_and_timed(tmp_path: Path) -> None:
    """A run that used a tool leaves its outcome and its duration, and nothing that still runs."""
    async with serving(config(tmp_path, TOOLS)) as one:
        run = await one.client.start_run(RunRequest(task="look", who=AgentChoice(agent="looker")))
        await ended(one, run.run)
        text = await scraped(one)
    assert value(text, "tool_calls_total", tool="look", outcome="ok") == 1
    assert value(text, "tool_call_duration_seconds_count", tool="look") == 1
    assert value(text, "running_tool_calls", tool="look") == 0


async def test_a_question_is_counted_until_somebody_answers(tmp_path: Path) -> None:
    """While a run waits for people its request is counted with its age, and after the answer it is not."""
    async with serving(config(tmp_path, TOOLS)) as one:
        run = await one.client.start_run(RunRequest(task="ask", who=AgentChoice(agent="asker")))
        asked = await one.client.approvals()
        while not asked.approvals:
            await trio.sleep(0.01)
            asked = await one.client.approvals()
        text = await scraped(one)
        assert value(text, "approvals_open") == 1
        assert 0 <= value(text, "oldest_approval_seconds") < SECONDS
        await one.client.answer(asked.approvals[0].id, "yes", by="ops")
        await ended(one, run.run)
        assert value(await scraped(one), "approvals_open") == 0


async def test_a_budget_fills_and_refuses(tmp_path: Path) -> None:
    """A tenant's budget is shown as it fills, and a run that it stopped is counted as refused."""
    async with serving(config(tmp_path, TOOLS)) as one:
        assert value(await scraped(one), "budget_refused_total", tenant="poor") == 0
        run = await one.client.start_run(RunRequest(task="a long story", tenant="poor", budget=Limits(rounds=3)))
        await ended(one, run.run)
        text = await scraped(one)
    assert value(text, "budget_refused_total", tenant="poor") == 1
    assert value(text, "budget_used_ratio", tenant="poor", period="day", amount="tokens") <= 1


async def test_the_daemon_shows_itself(tmp_path: Path) -> None:
    """Its version, that it is not ending, its connections, answers by surface, memory and the lag of its loop."""
    async with serving(config(tmp_path)) as one:
        await one.client.queue()
        lag = one.daemon._metrics.lag._late
        await until(lambda: lag.count > 0)
        text = await scraped(one)
    assert value(text, "draining") == 0
    assert value(text, "open_connections") >= 1
    assert value(text, "requests_total", surface="api", status="200") >= 1
    assert value(text, "loop_lag_seconds_count") >= 1
    assert samples(text)["process_open_fds", frozenset()] > 3
