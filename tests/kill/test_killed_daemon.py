"""A daemon's process is killed at work and started again: everything goes on, and nothing is forgiven or done twice."""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
import trio

from orchestrator.daemon.stores import FILE
from orchestrator.store.sqlite import open_sqlite
from tests.daemon.process import Process, daemon, run, started
from tests.kill import stingy_provider
from tests.kill.aftermath import Told, all_runs, hold_to_the_rules
from tests.kill.deeds import CONFIG, FREE, OPEN, done, effects

ITEMS = 30
SIMULATED = '[backends.sim]\nkind = "simulated"\nspeed = 40\nparallel_tools = 2\ntool_rounds = 2\n'


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    assert process.end() == -signal.SIGKILL


def runs_of(folder: Path) -> dict[str, Told]:
    """What the store of a daemon that has ended says."""

    async def read() -> dict[str, Told]:
        async with open_sqlite(folder / "data" / FILE) as store:
            return await all_runs(store)

    return trio.run(read)


def stream(url: str, run: str, after: int, most: int) -> list[int]:
    """The ids of a run's events behind one, as a browser gets them: to its end, or so many."""
    ids: list[int] = []
    headers = {"last-event-id": str(after)}
    with httpx2.stream("GET", f"{url}/api/runs/{run}/events", headers=headers, timeout=30, trust_env=False) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("id:"):
                ids.append(int(line.partition(":")[2]))
                if len(ids) == most:
                    break
    return ids


def test_a_job_and_a_run_go_on_after_kill_9(tmp_path: Path) -> None:
    """Agents with tools are killed in the middle of calls: the job ends by itself with each line once, no letter goes
    out twice, the logs say what is not known, and those who watch go on where they were."""
    (tmp_path / "in.jsonl").write_text("".join(f'{{"text": "item {n}"}}\n' for n in range(1, ITEMS + 1)))
    job = ["job", "start", "-i", "in.jsonl", "--prompt", "Say {text}", "--agent", "clerk", "--workers", "8"]
    with ExitStack() as stack:
        first, url = stack.enter_context(daemon(tmp_path, SIMULATED + CONFIG))
        client = stack.enter_context(started(*job, "--name", "x", "-o", "out.jsonl", cwd=tmp_path, HEADRACE_URL=url))
        job_id = client.hear(r"job (x-\w+) is with the daemon")[1]
        until(lambda: effects(tmp_path) > FREE + 6)
        single = run("run", "clerk", "hello", "--detach", cwd=tmp_path, url=url).stdout.strip()
        follower = stack.enter_context(started("events", single, "--follow", cwd=tmp_path, HEADRACE_URL=url))
        until(lambda: any(key.startswith(single) for key in done(tmp_path, "posted")))
        before = stream(url, single, 0, 4)
        until(lambda: len(follower.out.splitlines()) > len(before))
        kill(first)
        (tmp_path / OPEN).touch()
        second, _ = stack.enter_context(daemon(tmp_path, SIMULATED + CONFIG, "--port", url.rpartition(":")[2]))
        assert (client.end(), follower.end()) == (0, 0), client.said + follower.said
        behind = stream(url, single, before[-1], 1_000)
        shown = json.loads(run("job", "show", job_id, "--json", cwd=tmp_path, url=url).stdout)
        assert (shown["phase"], shown["done"], shown["failed"]) == ("done", ITEMS, 0)
        second.signal(signal.SIGTERM)
        assert second.end() == 0
    for words in (first.said, second.said, client.said):
        assert "Traceback" not in words
    for file in (tmp_path / "data" / "jobs" / job_id / "results.jsonl", tmp_path / "out.jsonl"):
        ordinals = Counter(json.loads(line)["ordinal"] for line in file.read_text().splitlines())
        assert ordinals == Counter(range(1, ITEMS + 1))
    runs = runs_of(tmp_path)
    assert set(runs) == {single, *(f"{job_id}.{n}" for n in range(1, ITEMS + 1))}
    seen = hold_to_the_rules(runs, tmp_path)
    assert seen["unknown effects"] >= 2
    assert 2 <= seen["resumed"] <= 9
    assert max(done(tmp_path, "put").values()) == 2, "nothing that may be repeated was repeated"
    whole = list(range(1, len(runs[single].events) + 1))
    assert before + behind == whole
    assert [int(line.split()[0]) for line in follower.out.splitlines()] == whole
    assert sum("taken up again" in line for line in follower.out.splitlines()) == 1
    assert "the daemon is back" in follower.said


ALLOWED = 30
LIMITED = """
[backends.up]
kind = "openai"
base_url = "{url}"
rpd = {allowed}
concurrency = 50

[models.small]
backends = ["up"]

[tenants.acme]
budget = {{ tokens = 2500 }}
"""


async def ask_many(url: str, count: int, max_tokens: int, tenant: str, seconds: float = 30) -> Counter[int]:
    """Calls to the gateway at one time: how often each status came; 0 is no answer in time."""
    body = {"model": "small", "messages": [{"role": "user", "content": "hello"}], "max_tokens": max_tokens}
    statuses: Counter[int] = Counter()

    async def ask(client: httpx2.AsyncClient) -> None:
        try:
            answer = await client.post("/v1/chat/completions", json=body, headers={"x-headrace-tenant": tenant})
        except httpx2.TransportError:
            statuses[0] += 1
        else:
            statuses[answer.status_code] += 1

    async with (
        httpx2.AsyncClient(base_url=url, trust_env=False, timeout=seconds) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(count):
            nursery.start_soon(ask, client)
    return statuses


def metric(url: str, name: str) -> float:
    """The sum of a metric over its labels."""
    lines = httpx2.get(f"{url}/metrics", trust_env=False).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))


def test_limits_and_budgets_hold_over_kill_9(tmp_path: Path) -> None:
    """A provider in a process of its own never answers 429, though the daemon was killed in the middle of its window;
    what calls under way may have cost the tenant stays spent, and the rest is there."""
    with ExitStack() as stack:
        program = [sys.executable, stingy_provider.__file__]
        provider = stack.enter_context(started(str(ALLOWED), cwd=tmp_path, program=program))
        until(lambda: "serves" in provider.out)
        config = LIMITED.format(url=provider.out.split()[1], allowed=ALLOWED)
        first, url = stack.enter_context(daemon(tmp_path, config))
        assert trio.run(ask_many, url, 3, 2, "acme") == {200: 3}
        assert trio.run(ask_many, url, 10, 2, "web") == {200: 10}

        async def cut_off() -> Counter[int]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, kill_in_flight)
                return await ask_many(url, 4, 200, "acme")

        def kill_in_flight() -> None:
            until(lambda: metric(url, "headrace_in_flight_calls") == 4, 8)
            kill(first)

        assert trio.run(cut_off) == {0: 4}
        _, url = stack.enter_context(daemon(tmp_path, config))
        assert trio.run(ask_many, url, 1, 1200, "acme") == {429: 1}, "what was under way was forgiven"
        assert trio.run(ask_many, url, 1, 2, "acme") == {200: 1}, "more is held back than was under way"
        flood = trio.run(ask_many, url, 40, 2, "web", 1.5)
        assert metric(url, "headrace_upstream_errors_total") == 0, "the provider refused a call"
        assert flood[200] == ALLOWED - 3 - 10 - 4 - 1, flood
