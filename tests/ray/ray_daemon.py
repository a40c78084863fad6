"""A real daemon whose runs are driven on a Ray cluster, and a job of its runs."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import trio
from msgspec import Struct

from agents.events import RunEnded, RunResumed, ToolStarted, decode
from agents.lifecycle import StopReason
from orchestrator.client.client import Client
from orchestrator.jobs.job import ItemResult
from orchestrator.views.jobs import LIVE_PHASES, InputLine, JobRequest, JobView
from orchestrator.views.runs import AgentChoice
from tests.daemon.process import Process, started
from tests.ray.deeds import CONFIG, done

PATIENCE = 90.0

POOL = """
[pool]
kind = "ray"
address = "{address}"
runs = 16
cpus = 0.2
lease_seconds = {lease_seconds}
"""


class Place(Struct, frozen=True):
    """Where a daemon lives, from one of its processes to the next."""

    folder: Path
    port: int
    address: str
    lease_seconds: float = 4.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def daemon(self) -> Iterator[Process]:
        """The daemon, inside the block; killed at its end."""
        pool = POOL.format(address=self.address, lease_seconds=self.lease_seconds)
        (self.folder / "headrace.toml").write_text(pool + CONFIG)
        with started("serve", "--port", str(self.port), "--data-dir", "data", cwd=self.folder) as process:
            process.hear(r"serves (http://\S+?),")
            yield process


def free_port() -> int:
    """A port that nobody has at present."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def start_job(client: Client, job: str, items: int) -> None:
    """So many items, all of them uploaded."""
    clerk = AgentChoice(agent="clerk")
    await client.create_job(JobRequest(prompt="Do {text}.", who=clerk, job=job, workers=items))
    lines = [msgspec.json.encode(InputLine(str(n), {"text": f"deed {n}"})) + b"\n" for n in range(1, items + 1)]
    await client.upload(job, 0, b"".join(lines))
    await client.complete(job)


async def until(true: Callable[[], bool]) -> None:
    """Waits for something that other processes bring about."""
    with trio.fail_after(PATIENCE):
        while not true():  # noqa: ASYNC110 -- nobody here could set an event
            await trio.sleep(0.02)


async def until_ended(client: Client, job: str) -> JobView:
    """The job when it has ended."""
    with trio.fail_after(PATIENCE):
        while (view := await client.job(job)).phase in LIVE_PHASES:  # noqa: ASYNC110 -- as above
            await trio.sleep(0.1)
    return view


async def hold_to_the_rules(client: Client, job: str, items: int, deeds: Path) -> int:
    """Every item has one line and is done, and nothing was done twice that may not be; how many runs were taken over.

    A letter may have gone out whose call is of unknown effect, but none that no log announced.
    """
    data = b"".join([block async for block in client.results(job)])
    lines = [msgspec.json.decode(line, type=ItemResult) for line in data.splitlines()]
    assert sorted(line.ordinal for line in lines) == list(range(1, items + 1))
    assert {line.state for line in lines} == {"done"}, [line for line in lines if line.state != "done"][:3]
    posted = done(deeds, "posted", job)
    assert set(posted.values()) <= {1}, "a letter went out twice"
    announced: set[str] = set()
    taken_over = 0
    for ordinal in range(1, items + 1):
        run = f"{job}.{ordinal}"
        events = [decode(event) async for _, event in client.events(run, follow=False)]
        assert [event.reason for event in events if isinstance(event, RunEnded)] == [StopReason.FINAL_ANSWER]
        starts = [event.key for event in events if isinstance(event, ToolStarted) and not event.repeatable]
        assert len(starts) == len(set(starts)), "what may not be repeated was started twice"
        announced |= set(starts)
        taken_over += any(isinstance(event, RunResumed) for event in events)
    assert set(posted) <= announced
    return taken_over
