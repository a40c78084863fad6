"""A job against a provider over HTTP: what is wrong with a backend is one message, and never a thousand failures."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from orchestrator.backend_choice import BackendChoice
from orchestrator.backends.simulated.config import FaultRule, SimConfig, SimLatency, SimLength, SimLimit
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.server import serve_simulated
from orchestrator.cli.job_command import start_job
from orchestrator.cli.job_options import JobOptions
from orchestrator.policy.limitspec import Counted

QUICK = SimConfig(latency=SimLatency(first_token=0.0, output_rate=100_000.0), length=SimLength(tokens=5.0))
ITEMS = 60


@pytest.fixture
def many(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(f'{{"text": "item {number}"}}\n' for number in range(1, ITEMS + 1)))
    return path


@asynccontextmanager
async def provider(**changes: Any) -> AsyncIterator[tuple[SimProvider, str]]:
    simulated = SimProvider(msgspec.structs.replace(QUICK, **changes))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(lambda task_status: serve_simulated(simulated, task_status=task_status))
        yield simulated, url
        nursery.cancel_scope.cancel()


def options(path: Path, url: str, **changes: Any) -> JobOptions:
    made = JobOptions(
        inputs=(str(path),),
        prompt="Say {text}",
        output=path.with_name("out.jsonl"),
        backend=BackendChoice(kind="openai", base_url=url, model="m"),
        retries=0,
        quiet=True,
    )
    return msgspec.structs.replace(made, **changes)


def messages(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.removeprefix("headrace: ") for line in capsys.readouterr().err.splitlines()]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.with_name("out.jsonl").read_text().splitlines()]


async def test_a_job_over_a_socket_ends_well(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All items are answered, each once, by a provider that counted as many calls and no tries more."""
    async with provider() as (simulated, url):
        assert await start_job(options(many, url)) == 0
    assert sorted(row["ordinal"] for row in rows(many)) == list(range(1, ITEMS + 1))
    assert simulated.statistics().completed == ITEMS
    assert messages(capsys) == []


async def test_a_wrong_key_is_one_message(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """401 for the first call stops the job: exit code 3, one message, nothing written, few calls made."""
    async with provider(api_keys=("good",)) as (simulated, url):
        assert await start_job(options(many, url)) == 3
        assert simulated.statistics().arrived <= 16
    (message,) = messages(capsys)
    assert "refuses every request" in message
    assert "401" in message
    assert rows(many) == []


async def test_an_unknown_model_is_one_message(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same refusal for everything stops the job after a few."""
    async with provider(models=("other",)) as (simulated, url):
        assert await start_job(options(many, url)) == 3
        assert simulated.statistics().arrived < 40
    (message,) = messages(capsys)
    assert "refuses the requests as they are" in message
    assert "404" in message


async def test_a_bad_request_fails_its_item_alone(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A 400 among answers is that item's failure, with its origin: exit code 1, and the others are done."""
    faults = (FaultRule(fault="status", nth=(40,), status=400, code="invalid_request_error"),)
    async with provider(faults=faults) as (_, url):
        assert await start_job(options(many, url)) == 1
    (bad,) = (row for row in rows(many) if row["state"] == "failed")
    assert "400" in bad["error"]
    assert messages(capsys) == [f"failed: {bad['origin']}: {bad['error']}"]


async def test_an_unreachable_backend_is_one_message(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody listens: exit code 3 before anything is started or any output is made."""
    async with provider() as (_, url):
        pass
    assert await start_job(options(many, url)) == 3
    (message,) = messages(capsys)
    assert message.endswith("connection refused")
    assert not many.with_name("out.jsonl").exists()


async def test_a_backend_that_only_breaks_off_is_given_up(many: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that accepts and never answers well stops the job after a few runs, retries included."""
    async with provider(faults=(FaultRule(fault="status", status=500),)) as (simulated, url):
        assert await start_job(options(many, url)) == 3
        assert simulated.statistics().arrived < 40
    (message,) = messages(capsys)
    assert message.startswith("the backend cannot be used: ")


async def test_one_item_on_a_broken_backend_could_not_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the input is too short for a row of failures, exit code 3 says that nothing could be done."""
    path = tmp_path / "in.jsonl"
    path.write_text('"only one"\n')
    async with provider(faults=(FaultRule(fault="status", status=500),)) as (_, url):
        assert await start_job(options(path, url)) == 3
    (message,) = messages(capsys)
    assert message.startswith("the backend cannot be used: ")


@pytest.mark.parametrize("counted", ["at_admission", "reconciled", "as_produced"])
async def test_tokens_are_counted_as_the_provider_does(
    counted: Counted, many: Path, capsys: pytest.CaptureFixture[str], autojump_clock: trio.testing.MockClock
) -> None:
    """Under a limit of tokens, counted in each way, a job takes minutes, and no call is ever refused."""
    backend = BackendChoice(kind="simulated", tpm=3_000, counted=counted)
    began = trio.current_time()
    assert await start_job(options(many, "", backend=backend, json=True, quiet=False, max_tokens=200)) == 0
    assert 60 < trio.current_time() - began < 600
    summary = json.loads(capsys.readouterr().out)
    assert summary["done"] == ITEMS
    assert summary["tenants"]["default"]["retries"] == 0


async def test_a_limit_named_to_the_owner_is_never_hit(many: Path) -> None:
    """The provider enforces a minute's limit that the job was told of: all items are done, and there is no 429."""
    async with provider(limits=(SimLimit(kind="requests", amount=60_000),)) as (simulated, url):
        backend = BackendChoice(kind="openai", base_url=url, model="m", rpm=60_000, concurrency=8)
        assert await start_job(options(many, url, backend=backend)) == 0
    assert not simulated.statistics().refused
    assert simulated.statistics().completed == ITEMS
