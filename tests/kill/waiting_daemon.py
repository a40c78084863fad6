"""A daemon that is killed and started again in its folder, and what is asked of it over HTTP and by commands."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import trio

from agents.events import Event, ToolFinished, decode
from agents.fold import fold, result_of
from orchestrator.daemon.stores import FILE
from orchestrator.store.base import RunQuery, RunRow
from orchestrator.store.sqlite import open_sqlite
from tests.client.daemon_thread import headrace
from tests.daemon.process import Process, daemon
from tests.kill.aftermath import Told
from tests.kill.deeds import done
from tests.kill.every_kind import CONFIG, let_go

SECONDS = 20


class Life:
    """One daemon, from its start until it is killed or ends."""

    def __init__(self, folder: Path, process: Process, url: str) -> None:
        self.folder = folder
        self.process = process
        self.url = url

    def get(self, path: str) -> Any:
        answer = httpx2.get(f"{self.url}/api/{path}", trust_env=False)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def start(self, agent: str, run: str) -> None:
        body = {"task": f"Do what is to do for {run}.", "who": {"agent": agent}, "run": run}
        answer = httpx2.post(f"{self.url}/api/runs", json=body, trust_env=False)
        assert answer.status_code in (200, 201, 202), answer.text

    def approvals(self, run: str = "") -> list[str]:
        """The ids of what people are asked, as `headrace approvals` lists them."""
        return [view["id"] for view in self.get(f"approvals?run={run}" if run else "approvals")["approvals"]]

    def decide(self, id: str, answer: dict[str, str]) -> None:
        """Approves, denies or answers it, by what the body says."""
        path = "answer" if "content" in answer else "decide"
        said = httpx2.post(f"{self.url}/api/approvals/{id}/{path}", json=answer, trust_env=False)
        assert said.status_code == 200, said.text

    def command(self, *arguments: str, code: int = 0) -> str:
        """What a command says."""
        result = headrace(self.url, *arguments)
        assert result.exit_code == code, result.stderr
        return result.stdout + result.stderr

    def until(self, run: str, *states: str) -> Any:
        """The run, once it is in one of these states."""
        self.wait(lambda: self.get(f"runs/{run}")["state"] in states, f"{run} to be {states}")
        return self.get(f"runs/{run}")

    def until_done(self, what: str, count: int) -> None:
        """Waits until so many effects were had."""
        self.wait(lambda: done(self.folder, what).total() >= count, f"{count} times {what}")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited for {what}; the daemon said:\n{self.process.said}"
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.signal(signal.SIGKILL)
        assert self.process.end() == -signal.SIGKILL
        assert "Traceback" not in self.process.said

    def end(self) -> None:
        self.process.signal(signal.SIGTERM)
        assert self.process.end() == 0
        assert "Traceback" not in self.process.said, self.process.said


@contextmanager
def life(folder: Path, config: str = CONFIG) -> Iterator[Life]:
    """A daemon in the folder, over the store that the last one left."""
    with daemon(folder, config) as (process, url):
        try:
            yield Life(folder, process, url)
        except BaseException:
            let_go(folder)  # so that no process waits for a test that has failed
            raise


class Left(Told):
    """A run's log and its result, as the store has them when no daemon is there."""

    @classmethod
    def of(cls, events: list[Event]) -> Self:
        last = fold(events).last
        assert last is not None
        return cls(events, result_of(last))

    def finished(self, outcome: str = "") -> list[ToolFinished]:
        found = [event for event in self.events if isinstance(event, ToolFinished)]
        return [event for event in found if outcome in ("", event.outcome)]

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


def what_is_left(folder: Path) -> dict[str, Left]:
    """All runs, children among them, by their ids."""

    async def read() -> dict[str, Left]:
        async with open_sqlite(folder / "data" / FILE) as store:
            rows: tuple[RunRow, ...] = (await store.runs(RunQuery(size=1000))).rows
            return {row.run: Left.of([decode(one.data) for one in await store.read(row.session)]) for row in rows}

    return trio.run(read)


def is_gone(pid: int) -> bool:
    """Whether there is no such process any more, or only what nobody has waited for."""
    with suppress(OSError):
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True
