"""What pruning leaves of jobs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.catalogue import Catalogue, Target
from orchestrator.jobs.events import session_of
from orchestrator.store.base import Store
from orchestrator.store.errors import UnknownSession
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, feed, lines, never, serving, until, until_ended, upload
from tests.store.stores import STORES

LATER = 1e11
"""Seconds since the epoch: a time from which on nobody has touched anything."""


@pytest.fixture(params=list(STORES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    async with STORES[request.param](tmp_path) as opened:
        yield opened


async def has_log(store: Store, job: str) -> bool:
    try:
        await store.session(session_of(job))
    except UnknownSession:
        return False
    return True


async def test_a_job_keeps_its_log_until_it_has_ended(store: Store, tmp_path: Path) -> None:
    """A live job's stays, and that of one which a daemon left, before and after the next daemon; one that has ended
    can go, and the job is tried again from its folder all the same.
    """
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        for job in ("j", "over"):
            await service.create(replace(REQUEST, job=job))
        await service.complete("over")
        await until_ended(service, "over")
        await upload(service, "j", lines([1, 2]))
        await until(lambda: service.view("j").live == 2)
        await store.prune(LATER)
        assert (await has_log(store, "j"), await has_log(store, "over")) == (True, False)
        service.close(0)
        await service.all_ended()
        assert service.view("j").phase == "interrupted"
        await store.prune(LATER)
        assert await has_log(store, "j")
    async with serving(tmp_path, store=store) as service:
        await store.prune(LATER)
        await service.complete("j")
        assert (await until_ended(service, "j")).done == 2
        await store.prune(LATER)
        assert not await has_log(store, "j")
        await service.retry("over")
        assert (await until_ended(service, "over")).phase == "done"


async def test_a_job_that_cannot_be_gone_on_with_keeps_its_log(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent may be configured again, or its daemon be of a version that can read its log."""
    monkeypatch.setattr("orchestrator.jobs.driver.FIRST_PAUSE", 0.01)
    async with serving(tmp_path, FakeRuns(never), store=store) as service:
        for job in ("j", "later"):
            await service.create(replace(REQUEST, job=job))
            await feed(service, job, lines([1]))
        await until(lambda: all(service.view(job).live for job in ("j", "later")))
    await store.append_external(session_of("later"), "x", [b'{"type":"dreamt"}'])
    bare = Catalogue(models={"other": [Target("b", "m")]}, default_model="")
    async with serving(tmp_path, store=store, catalogue=lambda: bare) as service:
        for job in ("j", "later"):
            assert service.view(job).phase == "interrupted"
        await store.prune(LATER)
        assert await has_log(store, "j")
        assert await has_log(store, "later")
    async with serving(tmp_path, store=store) as service:
        assert (await until_ended(service, "j")).done == 1
