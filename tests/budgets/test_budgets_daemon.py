"""Budgets of tenants before a whole daemon: the gateway, runs and jobs, restarts and reloads."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog
import trio

from orchestrator.client.client import Client
from orchestrator.client.errors import Refusal
from orchestrator.config.decode import decode_text
from orchestrator.config.problems import ConfigError
from orchestrator.config.schema import Config
from orchestrator.config.summary import summarise
from orchestrator.daemon.stores import FILE
from orchestrator.store.ledger_port import SpentRow
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.jobs import JobRequest
from orchestrator.views.runs import AgentChoice, RunDetail, RunRequest
from tests.daemon.serving import SECONDS, config, serving

PRICED = '[models.small]\nbackends = ["sim"]\nprice = { input = 1, output = 2 }\n'
PLAIN = AgentChoice(model="small", max_tokens=400)


def budgeted(folder: Path, budget: str, more: str = "") -> Config:
    return config(folder, f"{PRICED}{more}\n[tenants.acme]\nbudget = {{ {budget} }}\n")


@asynccontextmanager
async def http(url: str, tenant: str = "acme") -> AsyncGenerator[httpx2.AsyncClient, None]:
    headers = {"x-headrace-tenant": tenant}
    async with httpx2.AsyncClient(base_url=url, trust_env=False, timeout=SECONDS, headers=headers) as client:
        yield client


def chat(words: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "small", "messages": [{"role": "user", "content": words}], "max_tokens": 20, **more}


async def ended(client: Client, run: str) -> RunDetail:
    """The run, when it has ended."""
    async for _ in client.events(run):
        pass
    return await client.run(run)


async def spent(folder: Path) -> SpentRow:
    """What tenant acme has spent, read from the store of a daemon that has ended."""
    async with open_sqlite(folder / FILE) as store:
        (row,) = [row for row in await store.ledger.spent() if row.tenant == "acme"]
    assert (row.unknown_tokens, row.unknown_micro_dollars) == (0, 0)
    return row


async def test_a_program_whose_budget_is_spent_is_told_not_to_try_again(tmp_path: Path) -> None:
    """429 in its dialect's own shape with `x-should-retry: false`; other tenants go on; nothing reached the backend."""
    async with serving(budgeted(tmp_path, "tokens = 100, per = 'month'")) as up:
        async with http(up.url) as client:
            refused = await client.post("/v1/chat/completions", json=chat("x" * 200))
            assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
            assert "retry-after" not in refused.headers
            assert refused.json()["error"]["code"] == "insufficient_quota"
            assert "the budget is spent until" in refused.json()["error"]["message"]
            refused = await client.post("/v1/messages", json=chat("x" * 200))
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "rate_limit_error")
        async with http(up.url, "web") as client:
            assert (await client.post("/v1/chat/completions", json=chat("x" * 200))).status_code == 200
        backend = (await up.client.queue()).backends[0]
        assert [tenant.tenant for tenant in backend.tenants] == ["web"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_every_dialect_pays_what_was_used(path: str, stream: bool, tmp_path: Path) -> None:
    """Streamed or whole, what the provider reports is what the tenant has spent; nothing stays held."""
    body: dict[str, Any] = chat(stream=stream)
    if path == "/v1/responses":
        body = {"model": "small", "input": "hello", "max_output_tokens": 20, "stream": stream}
    async with serving(budgeted(tmp_path, "tokens = 5000, dollars = 1")) as up, http(up.url) as client:
        answer = await client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        assert answer.content
    row = await spent(tmp_path)
    assert 0 < row.tokens < 60
    assert 0 < row.micro_dollars <= 2 * row.tokens


async def test_many_programs_and_runs_share_a_budget_and_overshoot_it_by_nothing(tmp_path: Path) -> None:
    """Sixty calls and twenty runs at once: some are answered, some refused, and the sum of all is within the limit."""
    statuses: list[int] = []
    async with serving(budgeted(tmp_path, "tokens = 3000")) as up, http(up.url) as client:

        async def call(number: int) -> None:
            answer = await client.post("/v1/chat/completions", json=chat(f"call {number}", max_tokens=100))
            statuses.append(answer.status_code)

        async def run(number: int) -> None:
            made = await up.client.start_run(RunRequest(task=f"run {number}", who=PLAIN, tenant="acme"))
            await ended(up.client, made.run)

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(call, number)
            for number in range(20):
                nursery.start_soon(run, number)
    assert set(statuses) == {200, 429}
    assert 1500 < (await spent(tmp_path)).tokens <= 3000


async def test_a_run_whose_tenant_is_spent_stops_for_that_reason(tmp_path: Path) -> None:
    """It names the tenant's budget, and what it leaves is the next run's."""
    async with serving(budgeted(tmp_path, "dollars = 0.0001")) as up:
        made = await up.client.start_run(RunRequest(task="x" * 400, who=PLAIN, tenant="acme"))
        stopped = await ended(up.client, made.run)
        assert (stopped.reason, stopped.state) == ("cost_budget_exceeded", "stopped")
        assert "tenant acme allows 100 micro-dollars" in stopped.message
        other = await up.client.start_run(RunRequest(task="x" * 400, who=PLAIN, tenant="web"))
        assert (await ended(up.client, other.run)).reason == "final_answer"


async def _job(client: Client, items: int) -> str:
    view = await client.create_job(JobRequest(prompt="{text}", who=PLAIN, tenant="acme", workers=4))
    lines = b"".join(
        json.dumps({"origin": f"{n}", "fields": {"text": f"item {n}"}}).encode() + b"\n" for n in range(items)
    )
    await client.upload(view.job, 0, lines)
    await client.complete(view.job)
    return view.job


async def test_a_job_stops_when_its_tenant_is_spent(tmp_path: Path) -> None:
    """It ends as stopped, with what is left for a retry, instead of failing each item that there is no money for."""
    async with serving(budgeted(tmp_path, "tokens = 6000")) as up:
        job = await _job(up.client, 200)
        async for view in up.client.watch_job(job):
            last = view
        assert last.phase == "stopped"
        assert "its budget is spent: tenant acme allows 6000 tokens" in last.message
        assert last.done > 0
        assert last.failed <= last.workers
    assert (await spent(tmp_path)).tokens <= 6000


async def test_spending_outlives_the_daemon(tmp_path: Path) -> None:
    """A new daemon on the same folder goes on with what was spent."""
    settings = budgeted(tmp_path, "tokens = 400, per = 'month'")
    async with serving(settings) as up, http(up.url) as client:
        while (answer := await client.post("/v1/chat/completions", json=chat())).status_code == 200:
            pass
        assert answer.status_code == 429
    before = (await spent(tmp_path)).tokens
    async with serving(settings) as up, http(up.url) as client:
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 429
    assert (await spent(tmp_path)).tokens == before


async def test_a_reload_raises_a_budget(tmp_path: Path) -> None:
    """What was refused goes after the file was changed and read again."""
    files = [budgeted(tmp_path, "tokens = 10"), budgeted(tmp_path, "tokens = 1000")]
    async with serving(files[0], load=lambda: files[1]) as up, http(up.url) as client:
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 429
        with structlog.testing.capture_logs() as logs:
            assert await up.daemon.reload()
        assert any("tenants.acme.budget.tokens: 10 -> 1000" in str(line.get("what")) for line in logs)
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200


async def test_an_answer_without_a_bound_goes_out_with_the_models(tmp_path: Path) -> None:
    """What was reserved is what the provider is asked for, or a long answer would cost more than that."""
    body = chat()
    del body["max_tokens"]
    settings = config(
        tmp_path,
        '[models.small]\nbackends = ["sim"]\nmax_output = 3\n[tenants.acme]\nbudget = { tokens = 1000 }\n',
    )
    async with serving(settings) as up, http(up.url) as client:
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.json()["choices"][0]["finish_reason"] == "length"
        assert answer.json()["usage"]["completion_tokens"] == 3


async def test_a_model_that_has_no_price_today_is_refused_by_name(tmp_path: Path) -> None:
    """A price that begins in the future is none yet: calls and runs under a budget of money say so."""
    priced = PRICED.replace("output = 2", "output = 2, since = 9999-01-01")
    settings = config(tmp_path, f"{priced}\n[tenants.acme]\nbudget = {{ dollars = 1 }}\n")
    async with serving(settings) as up, http(up.url) as client:
        refused = await client.post("/v1/chat/completions", json=chat())
        assert refused.status_code == 400
        assert "model 'small' has no price" in refused.json()["error"]["message"]
        with pytest.raises(Refusal, match="model 'small' has no price"):
            await up.client.start_run(RunRequest(task="x", who=PLAIN, tenant="acme"))


@pytest.mark.parametrize(
    ("models", "names"),
    [
        ("", "'*'"),
        (PRICED + '[models.free]\nbackends = ["sim"]\n[models."*"]\nbackends = ["sim"]\n', "'free', '*'"),
    ],
)
def test_money_needs_a_price_of_every_model(models: str, names: str) -> None:
    """The check of the configuration names the models that have none, since a tenant may use any."""
    text = f'{models}[backends.sim]\nkind = "simulated"\n[tenants.acme]\nbudget = {{ dollars = 1 }}\n'
    with pytest.raises(ConfigError, match=r"tenants\.acme\.budget\.dollars: money cannot be limited") as error:
        decode_text(text, "test")
    assert f"no price: {names};" in error.value.message
    decode_text(text.replace("dollars", "tokens"), "test")


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("dollars = -1", "dollars"),
        ("tokens = 0", "tokens"),
        ("per = 'week'", "per"),
        ("rounds = 3", "rounds"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(budget: str, words: str, tmp_path: Path) -> None:
    """Every key is checked where it stands."""
    with pytest.raises(ConfigError, match=f"tenants.acme.budget.{words}"):
        budgeted(tmp_path, budget)


def test_the_check_shows_a_budget(tmp_path: Path) -> None:
    """`headrace config check` has what a tenant may spend, and in which period."""
    (tenant,) = summarise(budgeted(tmp_path, "dollars = 2.5, tokens = 7, per = 'day'")).tenants
    assert (tenant.budget, tenant.budget_per) == ({"dollars": 2.5, "tokens": 7.0}, "day")
