"""Daemons' processes over one database and one folder: one leads, and another takes over when that one is gone."""

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
import trio

from orchestrator.config.store_table import DSN_VARIABLE
from orchestrator.store.postgres import open_postgres
from tests.daemon.process import Process, run, started
from tests.kill import short_lease
from tests.kill.aftermath import Told, all_runs, hold_to_the_rules
from tests.kill.deeds import CONFIG, FREE, OPEN, effects
from tests.store.postgres_server import fresh_schema, shared_server

PROGRAM = [sys.executable, short_lease.__file__]
LEASE = 1.5
SIMULATED = '[store]\nkind = "postgres"\n[backends.sim]\nkind = "simulated"\nspeed = {speed}\n'


class Place:
    """A schema, and a folder with a configuration, which several daemons share."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder = folder
        self.dsn = shared_server().dsn
        self.schema = schema
        self._daemons = ExitStack()

    def configure(self, text: str) -> None:
        (self.folder / "headrace.toml").write_text(text)

    def daemon(self) -> tuple[Process, str]:
        """One more daemon, which listens when this returns, and its URL."""
        environment = {DSN_VARIABLE: self.dsn, short_lease.SCHEMA: self.schema, short_lease.LEASE: str(LEASE)}
        words = ("serve", "--port", "0", "--data-dir", "data")
        process = self._daemons.enter_context(started(*words, cwd=self.folder, program=PROGRAM, **environment))
        return process, process.hear(r"serves (http://\S+?),")[1]

    def runs(self) -> dict[str, Told]:
        async def read() -> dict[str, Told]:
            async with open_postgres(self.dsn, holder="reader", schema=self.schema) as store:
                return await all_runs(store)

        return trio.run(read)

    def begin_job(self, url: str, items: int, *options: str) -> str:
        lines = "".join(f'{{"text": "item {n}"}}\n' for n in range(1, items + 1))
        (self.folder / "in.jsonl").write_text(lines)
        words = ("job", "start", "-i", "in.jsonl", "--prompt", "Say {text}", "--detach", *options)
        begun = run(*words, cwd=self.folder, url=url)
        assert begun.returncode == 0, begun.stderr
        return begun.stdout.strip()

    def results(self, job: str) -> Path:
        return self.folder / "data" / "jobs" / job / "results.jsonl"

    def end(self) -> None:
        self._daemons.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with fresh_schema() as schema:
        place = Place(tmp_path, schema)
        try:
            yield place
        finally:
            place.end()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ready(url: str) -> tuple[int, str]:
    answer = httpx2.get(f"{url}/readyz", trust_env=False)
    return answer.status_code, answer.text


def job_view(url: str, job: str) -> dict[str, object]:
    view: dict[str, object] = httpx2.get(f"{url}/api/jobs/{job}", trust_env=False).json()
    return view


def assert_whole(results: Path, items: int) -> None:
    ordinals = Counter(json.loads(line)["ordinal"] for line in results.read_text().splitlines())
    assert ordinals == Counter(range(1, items + 1))


def test_another_daemon_takes_over_from_one_that_was_killed(place: Place) -> None:
    """It names the leader until then; then the job and all runs end with it, nothing is done twice. One that is told to
    end while it stands by ends well and changes nothing."""
    items = 30
    place.configure(SIMULATED.format(speed=40) + "parallel_tools = 2\n" + CONFIG)
    first, url = place.daemon()
    assert ready(url)[0] == 200
    (second, other), (third, _) = place.daemon(), place.daemon()
    for waiting in (second, third):
        leader = waiting.hear(r"stands by +leader=(\w+)")[1]
    assert ready(other) == (503, f"this daemon stands by: daemon {leader} leads\n")
    third.signal(signal.SIGTERM)
    assert third.end() == 0, third.said
    job = place.begin_job(url, items, "--agent", "clerk", "--workers", "8")
    until(lambda: effects(place.folder) > FREE + 6)
    first.signal(signal.SIGKILL)
    (place.folder / OPEN).touch()
    until(lambda: ready(other)[0] == 200)
    until(lambda: job_view(other, job)["phase"] == "done")
    assert job_view(other, job)["done"] == items
    second.signal(signal.SIGTERM)
    assert second.end() == 0
    assert_whole(place.results(job), items)
    assert "Traceback" not in second.said
    seen = hold_to_the_rules(place.runs(), place.folder)
    assert seen["unknown effects"] >= 1
    assert 1 <= seen["resumed"] <= 8


def test_a_leader_that_was_stopped_and_wakes_writes_nothing(place: Place) -> None:
    """While it stood still another one took over and ended the job. It finds that out, ends with an exit code that has
    it started again, and the job's file and the runs' logs are what they were."""
    items = 150
    place.configure(SIMULATED.format(speed=100))
    first, url = place.daemon()
    second, other = place.daemon()
    second.hear("stands by")
    job = place.begin_job(url, items, "--workers", "20")
    until(lambda: place.results(job).exists() and place.results(job).read_bytes().count(b"\n") > 60)
    first.signal(signal.SIGSTOP)
    until(lambda: ready(other)[0] == 200)
    until(lambda: job_view(other, job)["phase"] == "done")
    before = {run: len(told.events) for run, told in place.runs().items()}
    first.signal(signal.SIGCONT)
    assert first.end() == 3, first.said
    assert "lost the lease" in first.said
    assert "Traceback" not in first.said
    assert {run: len(told.events) for run, told in place.runs().items()} == before
    assert len(before) == items
    assert_whole(place.results(job), items)
    assert (job_view(other, job)["phase"], ready(other)[0]) == ("done", 200)


def test_a_database_that_does_not_answer_is_no_wrong_configuration(tmp_path: Path) -> None:
    """The exit code has a supervisor start the daemon again, and the message does not show the password."""
    (tmp_path / "headrace.toml").write_text(SIMULATED.format(speed=1))
    address = {DSN_VARIABLE: "postgresql://user:secret@127.0.0.1:9/postgres"}
    with started("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path, **address) as process:
        assert process.end() == 3
    assert "the database at 127.0.0.1:9" in process.said
    assert "secret" not in process.said
