"""What a daemon's scrape shows of jobs, tool servers, workers, the ledger, connections, and of its own end."""

import sys
from contextlib import aclosing
from pathlib import Path

import httpx2
import trio.testing

from orchestrator.client.client import open_client
from orchestrator.views.jobs import JobRequest
from orchestrator.views.runs import RunRequest
from tests.daemon.serving import config, serving, until
from tests.instruments.scraping import ended, samples, scraped, value
from tests.tools.mcp_servers import SCRIPT

SERVERS = f"""
[tools.good]
mcp = ["{sys.executable}", "{SCRIPT}", "stdio"]
[tools.bad]
mcp = ["/nowhere/at/all"]
"""


async def test_tool_servers_are_up_or_not(tmp_path: Path) -> None:
    """Of two servers the one that speaks is up, and the one that cannot be started is not."""
    async with serving(config(tmp_path, SERVERS)) as one:
        await until(lambda: any(server.state == "ready" for server in one.daemon._servers.status()))
        text = await scraped(one)
    assert value(text, "tool_server_up", server="good") == 1
    assert value(text, "tool_server_up", server="bad") == 0


async def test_jobs_are_counted_while_they_live(tmp_path: Path) -> None:
    """A job that waits for its items is live, with those it has, and is not counted when it was cancelled."""
    async with serving(config(tmp_path)) as one:
        assert value(await scraped(one), "live_jobs") == 0
        job = await one.client.create_job(JobRequest(prompt="say {text}"))
        await one.client.upload(job.job, 0, b'{"text":"a"}\n{"text":"b"}\n')
        text = await scraped(one)
        assert value(text, "live_jobs") == 1
        states = ("done", "failed", "cancelled", "live", "waiting")
        assert sum(value(text, "live_job_items", state=state) for state in states) == 2
        await one.client.cancel_job(job.job)
        async with aclosing(one.client.watch_job(job.job)) as views:
            async for _ in views:
                pass
        assert value(await scraped(one), "live_jobs") == 0


async def test_a_pool_without_workers_is_seen(tmp_path: Path) -> None:
    """A run that wants a worker where there is none is counted as waiting for one."""
    async with serving(config(tmp_path, '[pool]\nkind = "workers"\n')) as one:
        text = await scraped(one)
        assert (value(text, "pool_workers"), value(text, "pool_waiting_runs")) == (0, 0)
        await one.client.start_run(RunRequest(task="hello"))
        text = await scraped(one)
        assert (value(text, "pool_workers"), value(text, "pool_waiting_runs")) == (0, 1)


async def test_without_a_pool_there_is_nothing_to_say_of_it(tmp_path: Path) -> None:
    """A daemon that drives runs itself shows no workers, not none of them."""
    async with serving(config(tmp_path)) as one:
        text = await scraped(one)
    assert "headrace_pool" not in text


async def test_rows_that_the_ledger_lost_are_counted(tmp_path: Path) -> None:
    """The counter stands at 0 from the start, and follows the ledger."""
    async with serving(config(tmp_path, '[store]\nkind = "memory"\n')) as one:
        assert value(await scraped(one), "ledger_lost_rows_total") == 0
        assert one.daemon._work is not None
        one.daemon._work.store.ledger.lost += 3  # type: ignore[misc]
        assert value(await scraped(one), "ledger_lost_rows_total") == 3


async def test_connections_come_and_go(tmp_path: Path) -> None:
    """A connection is counted while it is open, and not when it is closed."""
    async with serving(config(tmp_path)) as one:

        def connections() -> float:
            return value(one.daemon._metrics.exposition().decode(), "open_connections")

        await one.client.queue()
        before = connections()
        async with open_client(one.url) as other:
            await other.queue()
            assert connections() == before + 1
        await until(lambda: connections() == before)


async def test_a_daemon_that_ends_says_so(tmp_path: Path) -> None:
    """From the first signal on the daemon is draining, while what is live goes on."""
    slow = '[backends.sim]\nkind = "simulated"\nspeed = 200\nrpm = 1\n'
    async with serving(config(tmp_path, slow)) as one:
        for _ in range(2):
            await one.client.start_run(RunRequest(task="hello"))
        one.daemon.end()
        await trio.testing.wait_all_tasks_blocked()
        assert value(one.daemon._metrics.exposition().decode(), "draining") == 1


async def test_a_call_that_a_budget_refuses_is_counted(tmp_path: Path) -> None:
    """A gateway's call beyond its tenant's budget is refused, counted, and its answer is by surface and status."""
    async with serving(config(tmp_path, '[tenants.poor]\nbudget = { tokens = 10, per = "day" }\n')) as one:
        async with httpx2.AsyncClient() as client:
            answer = await client.post(
                f"{one.url}/v1/chat/completions",
                headers={"x-headrace-tenant": "poor"},
                json={"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}]},
            )
        text = await scraped(one)
    assert answer.status_code >= 400
    assert value(text, "budget_refused_total", tenant="poor") == 1
    assert value(text, "requests_total", surface="gateway", status=str(answer.status_code)) == 1


async def test_paths_that_are_not_there_are_one_series(tmp_path: Path) -> None:
    """Whatever is asked for, its path is no label."""
    async with serving(config(tmp_path)) as one:
        async with httpx2.AsyncClient() as client:
            for number in range(20):
                await client.get(f"{one.url}/secret-{number}")
        text = await scraped(one)
    assert "secret" not in text
    assert value(text, "requests_total", surface="other", status="404") == 20


async def test_a_run_of_the_daemon_leaves_no_name(tmp_path: Path) -> None:
    """Neither runs nor jobs are labels in a whole daemon's metrics."""
    async with serving(config(tmp_path)) as one:
        run = await one.client.start_run(RunRequest(task="hello"))
        await ended(one, run.run)
        text = await scraped(one)
    assert run.run not in text
    assert not any(key in ("run", "job") for _, labels in samples(text) for key, _ in labels)
