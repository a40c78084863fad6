"""Real worker processes and a real daemon, one of which is killed or told to end in the middle of runs with tools."""

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest
import trio

from orchestrator.daemon.stores import FILE
from orchestrator.store.sqlite import open_sqlite
from tests.daemon.process import Process, daemon, started
from tests.kill.aftermath import Told, all_runs, hold_to_the_rules
from tests.kill.deeds import CONFIG, FREE, OPEN, done, effects

ITEMS = 30
SIMULATED = '[backends.sim]\nkind = "simulated"\nspeed = 40\nparallel_tools = 2\ntool_rounds = 2\n'
POOL = '[pool]\nkind = "workers"\nlease_seconds = {lease}\n'


class Place:
    """A folder with a daemon, its workers and a job, all of which are gone at the end."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.url = ""
        self._stack = stack
        self._lease = 0.0
        self._began: list[Process] = []

    def daemon(self, lease: float = 0.0) -> Process:
        """A daemon; the second has the first one's address and lease."""
        self._lease = lease or self._lease
        port = self.url.rpartition(":")[2] or "0"
        config = SIMULATED + CONFIG + POOL.format(lease=self._lease)
        process, self.url = self._stack.enter_context(daemon(self.folder, config, "--port", port))
        self._began.append(process)
        return process

    def workers(self) -> dict[str, Process]:
        """Two workers that the daemon has met."""
        found = {}
        for name in ("one", "two"):
            words = ("worker", "--daemon", self.url, "--name", name, "--runs", "8")
            found[name] = self._stack.enter_context(started(*words, cwd=self.folder))
        for name, process in found.items():
            process.hear(f"worker {name} drives up to 8 runs")
        self._began += found.values()
        return found

    def job(self) -> Process:
        """A job's client, once calls of the job's tools are under way that wait until they may go on."""
        lines = "".join(f'{{"text": "item {n}"}}\n' for n in range(1, ITEMS + 1))
        (self.folder / "in.jsonl").write_text(lines)
        words = ["job", "start", "-i", "in.jsonl", "--prompt", "Say {text}", "--agent", "clerk", "--workers", "8"]
        more = ["--name", "x", "-o", "out.jsonl"]
        client = self._stack.enter_context(started(*words, *more, cwd=self.folder, HEADRACE_URL=self.url))
        until(lambda: effects(self.folder) > FREE + 6)
        return client

    def busiest(self) -> str:
        """The worker that drives most runs."""
        seen = httpx2.get(f"{self.url}/api/workers", trust_env=False).json()["workers"]
        best = max(seen, key=lambda worker: worker["runs"])
        assert best["runs"]
        return str(best["worker"])

    def go_on(self) -> None:
        """Lets all tools go on."""
        (self.folder / OPEN).touch()

    def whole(self, client: Process) -> None:
        """The job has ended, and each item has one good line."""
        with self._told_of():
            assert client.end() == 0, client.said
        lines = [json.loads(line) for line in (self.folder / "out.jsonl").read_text().splitlines()]
        assert Counter(line["ordinal"] for line in lines) == Counter(range(1, ITEMS + 1))
        assert {line["reason"] for line in lines} == {"final_answer"}

    @contextmanager
    def _told_of(self) -> Iterator[None]:
        """Where the block fails, says what all have said, and how it stands."""
        try:
            yield
        except BaseException:
            for process in self._began:
                print(process.said)
            for path in ("workers", "queue", "runs?state=running"):
                print(path, httpx2.get(f"{self.url}/api/{path}", trust_env=False).text)
            raise

    def runs(self) -> dict[str, Told]:
        """What the store of a daemon that has ended says."""

        async def read() -> dict[str, Told]:
            async with open_sqlite(self.folder / "data" / FILE) as store:
                return await all_runs(store)

        return trio.run(read)


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill(process: Process) -> None:
    process.signal(signal.SIGKILL)
    assert process.end() == -signal.SIGKILL


def ended(*processes: Process) -> None:
    """Each ends well when it is told to."""
    for process in processes:
        process.signal(signal.SIGTERM)
        assert process.end() == 0, process.said
        assert "Traceback" not in process.said


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as stack:
        yield Place(tmp_path, stack)


def test_runs_of_a_killed_worker_go_on_at_the_other(place: Place) -> None:
    """No letter goes out twice, each item has one line, and what was under way at the killed one is not known."""
    daemon = place.daemon(lease=2.0)
    workers = place.workers()
    client = place.job()
    kill(workers.pop(place.busiest()))
    place.go_on()
    place.whole(client)
    ended(*workers.values(), daemon)
    seen = hold_to_the_rules(place.runs(), place.folder)
    assert 1 <= seen["resumed"] <= 8


def test_runs_go_on_at_their_workers_when_the_daemon_was_killed(place: Place) -> None:
    """The workers find the next daemon and keep their runs: no call is made twice, and what tools came to while nobody
    was there counts."""
    first = place.daemon(lease=40.0)  # a busy machine takes a while to start the next one
    workers = place.workers().values()
    client = place.job()
    kill(first)
    place.go_on()
    time.sleep(0.3)  # the tools come to their ends while there is no daemon
    second = place.daemon()
    place.whole(client)
    ended(*workers, second)
    for worker in workers:
        assert "the daemon is back" in worker.said
        assert "left for others" not in worker.said
    seen = hold_to_the_rules(place.runs(), place.folder)
    assert (seen["resumed"], seen["unknown effects"]) == (0, 0)
    assert max(done(place.folder, "put").values()) == 1


def test_a_worker_that_is_told_to_end_hands_its_runs_over(place: Place) -> None:
    """Calls under way end first, so nothing is unknown and nothing is done twice."""
    daemon = place.daemon(lease=5.0)
    workers = place.workers()
    client = place.job()
    first = workers.pop(place.busiest())
    first.signal(signal.SIGTERM)
    first.hear("leaving [1-9]")
    place.go_on()
    assert first.end() == 0, first.said
    place.whole(client)
    ended(*workers.values(), daemon)
    seen = hold_to_the_rules(place.runs(), place.folder)
    assert seen["unknown effects"] == 0
    assert seen["resumed"] >= 1
    assert max(done(place.folder, "put").values()) == 1
