"""A real browser before a real daemon: what the tests of the page have in common."""

import json
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from playwright.sync_api import Browser, ConsoleMessage, Page

from agents.amounts import Limits
from agents.events import RunCreated, RunEnded, RunStarted, encode
from agents.lifecycle import State, StopReason
from agents.messages import Message, Usage
from orchestrator.daemon.stores import FILE
from orchestrator.runs.head import Head
from orchestrator.store.base import Batch
from orchestrator.store.sqlite import open_sqlite

MILLISECONDS = 20_000
"""How long anything may take to be seen."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

CONFIG = """
[backends.sim]
kind = "simulated"
script = "tests.page.page_agents:script"
speed = {speed}
rpm = 100_000

[models.small]
backends = ["sim"]
price = {{ input = 0.4, output = 1.6 }}

[agents.clerk]
model = "small"
tools = ["send", "ask_people"]
budget = {{ rounds = 8, tokens = 50_000 }}

[tools.send]
function = "tests.page.page_agents:send"

[tools.ask_people]
ask = true
"""


def config(speed: float = 50.0) -> str:
    return CONFIG.format(speed=speed)


def chromium() -> str:
    """Debian's browser; without one there is nothing to test with, which in CI is a failure."""
    found = shutil.which("chromium")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("there is no chromium; install Debian's package of that name")
        pytest.skip("there is no chromium")
    return found


class Shown:
    """A page of a browser, and all that its console complained of."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        page.set_default_timeout(MILLISECONDS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def expect(self, *words: str) -> None:
        """Complaints with these words are what is tested."""
        self.expected += words

    def check(self) -> None:
        """Nothing else was complained of."""
        assert [one for one in self.complaints if not any(words in one for words in self.expected)] == []


@contextmanager
def shown(browser: Browser, url: str, **context: Any) -> Iterator[Shown]:
    """The page at this address, in a browser of its own without memories; nothing may be wrong with it at the end."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, **context) as fresh:
        seen = Shown(fresh.new_page())
        seen.page.goto(url)
        yield seen
        seen.check()


def api(url: str, path: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
    """One request to the daemon, past the page."""
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=30) as answer:
        return json.load(answer)


def start(url: str, task: str, run: str, key: str = "", **more: Any) -> str:
    """Starts a run of the clerk's."""
    asked = {"task": task, "run": run, "who": {"agent": "clerk"}, **more}
    return str(api(url, "/api/runs", asked, key)["run"])


def seed(folder: Path, count: int) -> None:
    """So many runs that have ended, as one session, into the store of a daemon that is not there yet."""
    folder.mkdir(mode=0o700, exist_ok=True)
    trio.run(_seed, folder / FILE, count)


async def _seed(file: Path, count: int) -> None:
    async with open_sqlite(file) as store:
        await store.beat("seed")
        session, records, rows = "old", [], []
        for number in range(count):
            run, at = f"old-{number:05}", 1_700_000_000.0 + number
            created = RunCreated(
                run=run,
                at=at,
                agent="clerk",
                model="small",
                messages=(Message("user", f"task {number}"),),
                limits=Limits(),
                session=session,
                tenant=f"tenant-{number % 7}",
            )
            ended = RunEnded(
                run=run,
                at=at + 2,
                reason=StopReason.FINAL_ANSWER,
                state=State.COMPLETED,
                answer="done",
                usage=Usage(input=20, output=5),
                micro_dollars=16,
                rounds=1,
            )
            events = (created, RunStarted(run=run, at=at), ended)
            rows.append(Head.of(created, len(records)).then(events).row())
            records += [encode(event) for event in events]
        batch = Batch(session=session, id="seed", after=0, records=tuple(records), runs=tuple(rows))
        view = await store.take(session, "seed", tenant="tenant-0", batch=batch)
        await store.release(session, view.generation)
        await store.drop("seed")
