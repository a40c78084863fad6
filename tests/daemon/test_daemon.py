"""A whole daemon: started, used, reloaded and drained."""

import json
from contextlib import aclosing
from pathlib import Path

import httpx2
import pytest
import trio

from agents.errors import HeadraceError
from agents.lifecycle import State
from orchestrator.client.errors import ClientError
from orchestrator.config.decode import ConfigError
from orchestrator.config.schema import Config
from orchestrator.daemon.daemon import Daemon
from orchestrator.daemon.data_dir import DataDirError, open_data_dir
from orchestrator.groups import only
from orchestrator.views.jobs import JobRequest, JobView
from orchestrator.views.runs import AgentChoice, RunDetail, RunRequest
from tests.daemon.serving import Serving, config, serving, until

SLOW = """
[backends.sim]
kind = "simulated"
speed = 0.02
"""
"""Every answer takes minutes."""

MEMORY = '[store]\nkind = "memory"\n'

AGENTS = """
[agents.clerk]
system = "You are a clerk."
budget = { rounds = 3 }

[tenants.gold]
weight = 3

[tenants.night]
highest_priority = "batch"
"""


def lines(count: int) -> bytes:
    return b"".join(b'{"origin": "%d", "fields": {"text": "item %d"}}\n' % (n, n) for n in range(count))


async def finished(serving: Serving, run: str) -> RunDetail:
    """The run, when it has ended."""
    while True:
        detail = await serving.client.run(run)
        if detail.reason is not None:
            return detail
        await trio.sleep(0.02)


async def start_job(serving: Serving, count: int, **more: object) -> JobView:
    request = JobRequest(prompt="Say {text}", **more)  # type: ignore[arg-type]
    job = (await serving.client.create_job(request)).job
    await serving.client.upload(job, 0, lines(count))
    return await serving.client.complete(job)


async def watch(serving: Serving, run: str, into: list[dict[str, object]]) -> None:
    """The run's events, up to its last."""
    async with aclosing(serving.client.events(run)) as events:
        async for _, data in events:
            into.append(json.loads(data))
            if into[-1]["type"] == "run_ended":
                return


async def job_ended(serving: Serving, job: str) -> JobView:
    last: JobView | None = None
    async with aclosing(serving.client.watch_job(job)) as views:
        async for view in views:
            last = view
    assert last is not None
    return last


async def test_a_run_from_start_to_answer(tmp_path: Path) -> None:
    """A configured agent runs, its events are there in order, and the metrics have counted it."""
    async with serving(config(tmp_path, AGENTS)) as daemon:
        view = await daemon.client.start_run(RunRequest(task="hello", who=AgentChoice(agent="clerk"), tenant="gold"))
        detail = await finished(daemon, view.run)
        assert (detail.state, detail.agent, detail.tenant) == (State.COMPLETED, "clerk", "gold")
        assert detail.answer
        kinds = [json.loads(data)["type"] async for _, data in daemon.client.events(view.run)]
        assert kinds[0] == "run_created"
        assert kinds[-1] == "run_ended"
        page = await daemon.client.runs()
        assert [run.run for run in page.runs] == [view.run]
        metrics = daemon.daemon._metrics.exposition().decode()
        assert 'headrace_calls_total{backend="sim",outcome="ok",priority="standard",tenant="gold"} 1.0' in metrics
        assert 'headrace_runs_finished_total{reason="final_answer",state="completed"} 1.0' in metrics


async def test_a_tenants_highest_priority_holds_for_its_runs(tmp_path: Path) -> None:
    """A tenant that may use no more than batch gets batch, whatever it asks for."""
    async with serving(config(tmp_path, AGENTS)) as daemon:
        view = await daemon.client.start_run(RunRequest(task="hello", tenant="night", priority="interactive"))
        assert view.priority == "batch"


async def test_a_job_from_upload_to_results(tmp_path: Path) -> None:
    """Uploaded inputs become one result each, and the job's runs are runs like any other."""
    async with serving(config(tmp_path)) as daemon:
        job = await start_job(daemon, 40, name="letters", tenant="acme")
        view = await job_ended(daemon, job.job)
        assert (view.phase, view.done, view.failed) == ("done", 40, 0)
        data = b"".join([chunk async for chunk in daemon.client.results(job.job)])
        assert {json.loads(line)["ordinal"] for line in data.splitlines()} == set(range(1, 41))
        page = await daemon.client.runs(job=job.job, tenant="acme")
        assert page.total == 40


async def test_what_cannot_serve_is_not_ready(tmp_path: Path) -> None:
    """Readiness says why: every endpoint refuses the connection, then the daemon is ending."""
    dead = '[backends.dead]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nbreaker = { failures = 1 }\n'
    async with serving(config(tmp_path, dead)) as daemon:
        assert daemon.daemon.outage() is None
        await daemon.client.start_run(RunRequest(task="hello", who=AgentChoice(model="any")))
        await until(lambda: daemon.daemon.outage() is not None)
        assert "no endpoint can be reached (dead)" in (daemon.daemon.outage() or "")
        daemon.daemon.end()
        assert daemon.daemon.outage() == "the daemon is shutting down"


async def test_draining_lets_live_work_end_and_takes_nothing_new(tmp_path: Path) -> None:
    """After the end was asked for, a call that is out ends with its answer; new runs, jobs and items are refused."""
    medium = '[backends.sim]\nkind = "simulated"\nspeed = 4\n'
    async with serving(config(tmp_path, medium), hurry=False) as daemon:
        view = await daemon.client.start_run(RunRequest(task="hello"))
        await until(lambda: daemon.daemon.owners.by_name["sim"].statistics().live > 0)
        daemon.daemon.end()
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(ClientError, match="shutting down"):
            await daemon.client.start_run(RunRequest(task="more"))
        with pytest.raises(ClientError, match="shutting down"):
            await daemon.client.create_job(JobRequest(prompt="Say {text}"))
        events: list[dict[str, object]] = []
        await watch(daemon, view.run, events)
    assert (events[-1]["type"], events[-1]["reason"]) == ("run_ended", "final_answer")


async def test_hurrying_closes_what_is_live(tmp_path: Path) -> None:
    """With a store in memory, hurrying ends a run that would take minutes, with a closing event that says why."""
    async with serving(config(tmp_path, SLOW + MEMORY)) as daemon:
        view = await daemon.client.start_run(RunRequest(task="hello"))
        events: list[dict[str, object]] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch, daemon, view.run, events)
            await until(lambda: bool(events))
            daemon.daemon.end()
            daemon.daemon.hurry()
    assert (events[-1]["type"], events[-1]["reason"]) == ("run_ended", "cancelled")
    assert "shutting down" in str(events[-1]["message"])


async def test_a_run_goes_on_with_the_next_daemon(tmp_path: Path) -> None:
    """A run that a daemon had no time for stays open, and the next daemon gives its answer and the whole log."""
    async with serving(config(tmp_path, SLOW)) as daemon:
        run = (await daemon.client.start_run(RunRequest(task="hello"))).run
        await until(lambda: daemon.daemon.owners.by_name["sim"].statistics().live > 0)
    async with serving(config(tmp_path)) as daemon:
        events: list[dict[str, object]] = []
        await watch(daemon, run, events)
        detail = await daemon.client.run(run)
    assert detail.reason == "final_answer"
    types = [event["type"] for event in events]
    assert types.count("run_created") == types.count("run_resumed") == types.count("run_ended") == 1
    assert types.count("model_requested") == 2, "the call that was cut off, and the one that gave the answer"


async def test_a_job_goes_on_with_the_next_daemon(tmp_path: Path) -> None:
    """A job cut off by a drain is gone on with by the next daemon, which ends it without being asked."""
    async with serving(config(tmp_path, SLOW)) as daemon:
        job = (await start_job(daemon, 30)).job
        await trio.sleep(0.1)
    async with serving(config(tmp_path)) as daemon:
        view = await job_ended(daemon, job)
        assert (view.phase, view.done, view.failed) == ("done", 30, 0)
        page = await daemon.client.runs(job=job)
        assert page.total == 30, "no item was run under a second id"


async def test_a_reload_changes_limits_weights_and_agents(tmp_path: Path) -> None:
    """A reload puts all that can change live in force, for calls, runs and tenants that come after it."""
    before = '[backends.sim]\nkind = "simulated"\nspeed = 200\nrpm = 600\n'
    after = before.replace("600", "300") + '[tenants.gold]\nweight = 5\n[agents.poet]\nsystem = "Rhyme."\n'
    files = [config(tmp_path, after)]
    async with serving(config(tmp_path, before), load=lambda: files[0]) as daemon:
        assert await daemon.daemon.reload()
        queue = await daemon.client.queue()
        assert [limit.amount for limit in queue.backends[0].endpoints[0].limits] == [300]
        await daemon.client.start_run(RunRequest(task="hello", who=AgentChoice(agent="poet"), tenant="gold"))
        assert daemon.daemon.owners.by_name["sim"].policy.fair.weight("gold") == 5
        assert "poet" in (await daemon.client.capabilities()).agents


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param('[backends.sim]\nkind = "simulated"\nrpm = -1\n', id="a negative limit"),
        pytest.param('[backends.sim]\nkind = "simulated"\nrmp = 10\n', id="an unknown key"),
        pytest.param('[backends.other]\nkind = "simulated"\nrpm = 10\n', id="another backend"),
        pytest.param('[backends.sim]\nkind = "simulated"\nrpm = 10\n[tools.x]\nfunction = "no.where:x"\n', id="a tool"),
    ],
)
async def test_a_reload_that_cannot_be_changes_nothing(tmp_path: Path, broken: str) -> None:
    """Whatever is wrong with the new configuration, none of it comes into force and the daemon goes on."""
    before = '[backends.sim]\nkind = "simulated"\nspeed = 200\nrpm = 600\n'

    def load() -> Config:
        return config(tmp_path, broken)

    async with serving(config(tmp_path, before), load=load) as daemon:
        assert not await daemon.daemon.reload()
        queue = await daemon.client.queue()
        assert [limit.amount for limit in queue.backends[0].endpoints[0].limits] == [600]
        view = await daemon.client.start_run(RunRequest(task="hello"))
        assert (await finished(daemon, view.run)).state is State.COMPLETED


async def test_a_tenants_budget_holds_for_single_calls(tmp_path: Path) -> None:
    """Calls to `/api/calls`, streamed or not, spend their tenant's budget, and one that does not fit is refused."""
    budget = "[tenants.acme.budget]\ntokens = 300\n"
    body = {"request": {"model": "", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 60}}
    async with serving(config(tmp_path, budget)) as daemon, httpx2.AsyncClient(base_url=daemon.url) as http:
        statuses = []
        for number in range(8):
            asked = {**body, "tenant": "acme", "stream": number % 2 == 1}
            statuses.append((await http.post("/api/calls", json=asked)).status_code)
        other = await http.post("/api/calls", json={**body, "tenant": "other"})
    assert statuses[:2] == [200, 200]
    assert statuses[-2:] == [429, 429]
    assert other.status_code == 200


async def test_two_daemons_do_not_share_a_folder(tmp_path: Path) -> None:
    """The second daemon over one data folder refuses to start and names the process that has it."""
    with open_data_dir(tmp_path):
        daemon = Daemon(config(tmp_path))
        with pytest.raises((HeadraceError, BaseExceptionGroup)) as caught:
            await daemon.run()
    error = caught.value
    refused = only(error, DataDirError) if isinstance(error, BaseExceptionGroup) else error
    assert isinstance(refused, DataDirError)
    assert "process" in refused.message


def test_daemons_of_one_database_share_a_folder_and_keep_others_out(tmp_path: Path) -> None:
    """Whether or not one of them stands still, the next gets in; one that wants the folder for itself is told why not,
    and so are they while it has the folder."""
    alone = pytest.raises(DataDirError, match=r"another daemon holds it \(processes that share it\);")
    with open_data_dir(tmp_path, shared=True), open_data_dir(tmp_path, shared=True), alone, open_data_dir(tmp_path):
        pass
    shared = pytest.raises(DataDirError, match=r"another daemon holds it \(process \d+\);")
    with open_data_dir(tmp_path), shared, open_data_dir(tmp_path, shared=True):
        pass


def test_a_configuration_that_cannot_work_starts_nothing(tmp_path: Path) -> None:
    """A key that is not where it should be is an error before anything is opened."""
    keyless = '[backends.api]\nkind = "openai"\nbase_url = "http://127.0.0.1:9/v1"\napi_key_env = "NOT_THERE_AT_ALL"\n'
    with pytest.raises(ConfigError, match="NOT_THERE_AT_ALL"):
        Daemon(config(tmp_path, keyless))
