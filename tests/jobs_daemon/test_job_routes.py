"""Jobs over HTTP, asked as a server asks: bodies in pieces, clients that leave, streams that end."""

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from agents.result import RunResult
from orchestrator.api.app import make_app
from orchestrator.jobs.service import JobService
from orchestrator.views.jobs import JobView
from orchestrator.views.runs import RunRequest
from tests.api.surface_rig import Exchange, ask, make_services, served, sse_events
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, decode, ended, lines, never, pieces, serving, task, until

BODY = msgspec.json.encode({"prompt": "say {text}", "job": "j"})


def app_of(service: JobService) -> Any:
    return make_app(make_services(jobs=service))


async def test_a_job_from_creation_to_removal(tmp_path: Path) -> None:
    """Every step of a job's life over HTTP, with the statuses and bodies a client relies on."""
    async with serving(tmp_path) as service:
        app = app_of(service)
        made = await ask(app, "POST", "/api/jobs", BODY)
        assert (made.status, made.header("location"), made.json["phase"]) == (201, "/api/jobs/j", "running")
        again = await ask(app, "POST", "/api/jobs", BODY)
        assert (again.status, again.error["kind"]) == (409, "duplicate_job")
        data = lines([1, 2, 3])
        sent = await ask(app, "PATCH", "/api/jobs/j/inputs?offset=0", data)
        assert (sent.status, sent.json["upload_offset"], sent.json["received"]) == (200, len(data), 3)
        wrong = await ask(app, "PATCH", "/api/jobs/j/inputs?offset=7", data)
        assert (wrong.status, wrong.error["kind"]) == (409, "wrong_offset")
        assert f"end at byte {len(data)}" in wrong.error["message"]
        live = await ask(app, "DELETE", "/api/jobs/j")
        assert (live.status, live.error["kind"]) == (409, "job_conflict")
        whole = await ask(app, "POST", "/api/jobs/j/inputs/complete")
        assert (whole.status, whole.json["complete"]) == (200, True)
        watched = await ask(app, "GET", "/api/jobs/j/events")
        assert {name for name, _ in watched.events} == {"job"}
        assert watched.events[-1][1]["phase"] == "done"
        results = await ask(app, "GET", "/api/jobs/j/results?follow=true")
        assert results.whole
        assert sorted(line.value for line in decode(results.body)) == ["SAY 1", "SAY 2", "SAY 3"]
        rest = await ask(app, "GET", "/api/jobs/j/results?offset=10")
        assert rest.body == results.body[10:]
        shown, listed = await ask(app, "GET", "/api/jobs/j"), await ask(app, "GET", "/api/jobs")
        assert listed.json["jobs"] == [shown.json]
        assert shown.json["done"] == 3
        assert msgspec.json.decode(shown.body, type=JobView) == service.view("j")
        assert (await ask(app, "POST", "/api/jobs/j/retry")).json["phase"] == "running"
        await ask(app, "GET", "/api/jobs/j/events")
        assert (await ask(app, "POST", "/api/jobs/j/cancel")).json["phase"] == "done"
        gone = await ask(app, "DELETE", "/api/jobs/j")
        assert (gone.status, gone.body) == (204, b"")
        assert (await ask(app, "GET", "/api/jobs/j")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/api/jobs", b'{"prompt": "no field"}', 400, "uses nothing of its input"),
        ("POST", "/api/jobs", b'{"prompt": "{x}", "job": "a/b"}', 400, "job: must be 1 to 64"),
        ("POST", "/api/jobs", b'{"prompt": "{x}", "wait": 3}', 400, "there is no such field"),
        ("POST", "/api/jobs", b'{"prompt": "{x}", "who": {"agent": "nobody"}}', 404, "no agent is called"),
        ("PATCH", "/api/jobs/j/inputs", b"", 400, "offset: is missing"),
        ("PATCH", "/api/jobs/nobody/inputs?offset=0", b"", 404, "there is no job nobody"),
        ("GET", "/api/jobs/j/results?offset=9", None, 400, "offset: from 0 to 0"),
        ("GET", "/api/jobs/nobody/results", None, 404, "there is no job nobody"),
        ("GET", "/api/jobs/nobody/events", None, 404, "there is no job nobody"),
        ("POST", "/api/jobs/j/retry", None, 409, "is live"),
        ("PUT", "/api/jobs/j/inputs?offset=0", b"", 405, "PATCH"),
    ],
)
async def test_what_makes_no_sense_is_told_in_a_sentence(
    tmp_path: Path, method: str, path: str, body: bytes | None, status: int, words: str
) -> None:
    """The status says whose turn it is, the message what was wrong."""
    async with serving(tmp_path) as service:
        app = app_of(service)
        await ask(app, "POST", "/api/jobs", BODY)
        answer = await ask(app, method, path, body)
        assert answer.status == status
        assert words in answer.error["message"]


async def test_a_full_disk_is_507(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client is told that the daemon's disk is full, and not that something went wrong inside."""

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with serving(tmp_path) as service:
        app = app_of(service)
        await ask(app, "POST", "/api/jobs", BODY)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            answer = await ask(app, "PATCH", "/api/jobs/j/inputs?offset=0", lines([1]))
        assert (answer.status, answer.error["kind"]) == (507, "storage_error")
        assert answer.error["message"].endswith("cannot be written: no space left on device")


async def test_a_client_that_leaves_in_the_middle_of_an_upload_loses_nothing(tmp_path: Path) -> None:
    """What came before it left is on disk and worked with; it goes on from there."""
    data = lines(range(1, 101))
    async with serving(tmp_path) as service, served(make_services(jobs=service)) as surface:
        await service.create(REQUEST)
        stream = await surface.connect(
            b"PATCH /api/jobs/j/inputs?offset=0 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            + f"Content-Length: {len(data)}\r\n\r\n".encode()
            + data[:1000]
        )
        await until(lambda: service.view("j").upload_offset == 1000)
        await until(lambda: service.view("j").done == service.view("j").received > 0)
        await stream.aclose()
        view = await service.upload("j", 1000, pieces(data[1000:]))
        assert view.upload_offset == len(data)
        await service.complete("j")
        await until(lambda: service.view("j").phase == "done")
        assert service.view("j").done == 100


async def test_streams_end_when_the_client_leaves_or_the_daemon_ends(tmp_path: Path) -> None:
    """Readers and watchers of a live job hold nothing once they have left; those that stay are told of the end."""
    go = trio.Event()

    async def held(request: RunRequest) -> RunResult:
        if task(request) > 1:
            await go.wait()
        return ended(request)

    async with serving(tmp_path, FakeRuns(held)) as service:
        closing = trio.Event()
        app = make_app(make_services(jobs=service), closing=closing)
        await ask(app, "POST", "/api/jobs", BODY)
        await ask(app, "PATCH", "/api/jobs/j/inputs?offset=0", lines([1, 2]))
        async with trio.open_nursery() as nursery:
            reading = Exchange(app, "GET", "/api/jobs/j/results?follow=true")
            watching = Exchange(app, "GET", "/api/jobs/j/events")
            staying = Exchange(app, "GET", "/api/jobs/j/events")
            for exchange in (reading, watching, staying):
                nursery.start_soon(exchange.run)
            await until(lambda: reading.body.count(b"\n") == 1 and b"event: job" in watching.body)
            for exchange in (reading, watching):
                exchange.leave()
                await exchange.ended.wait()
            assert not staying.ended.is_set()
            closing.set()
        assert sse_events(staying.body)[-1][0] == "closing"
        go.set()


async def test_a_slow_reader_slows_nobody(tmp_path: Path) -> None:
    """While one reader takes nothing, the job ends and another reader has all of it."""
    async with serving(tmp_path) as service:
        app = app_of(service)
        await ask(app, "POST", "/api/jobs", BODY)
        async with trio.open_nursery() as nursery:
            slow = Exchange(app, "GET", "/api/jobs/j/results?follow=true")
            slow.slow = True
            nursery.start_soon(slow.run)
            await ask(app, "PATCH", "/api/jobs/j/inputs?offset=0", lines(range(500)))
            await ask(app, "POST", "/api/jobs/j/inputs/complete")
            results = await ask(app, "GET", "/api/jobs/j/results?follow=true")
            assert results.body.count(b"\n") == 500
            nursery.cancel_scope.cancel()


async def test_cancelling_over_http_is_acknowledged_at_once(tmp_path: Path) -> None:
    """The answer does not wait for live runs to be gone; the events say when the job has ended."""
    runs = FakeRuns(never)
    async with serving(tmp_path, runs) as service:
        app = app_of(service)
        await ask(app, "POST", "/api/jobs", BODY)
        await ask(app, "PATCH", "/api/jobs/j/inputs?offset=0", lines(range(5)))
        await until(lambda: runs.live == 5)
        answer = await ask(app, "POST", "/api/jobs/j/cancel")
        assert answer.json["phase"] in ("stopping", "cancelled")
        watched = await ask(app, "GET", "/api/jobs/j/events")
        assert watched.events[-1][1]["phase"] == "cancelled"
        assert watched.events[-1][1]["cancelled"] == 5
