"""Uploads: cut, lost and repeated in any way they give the same inputs, and what was acknowledged is on disk."""

import errno
import os
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.errors import Draining
from orchestrator.jobs.errors import JobStorageError, WrongOffset
from orchestrator.jobs.lines import InputState, LineCounter, count_inputs
from orchestrator.jobs.service import JobService
from orchestrator.jobs.spool import SYNC_BYTES
from tests.jobs_daemon.fake_runs import REQUEST, FakeRuns, feed, lines, pieces, read, serving, until, until_ended

LINE = st.sampled_from(
    [b"", b"  ", b"\r", b'{"origin":"a","fields":{"text":"x"}}', b"not json", b'{"origin":"b"}', b" {"]
)
TEXT = st.lists(LINE, max_size=30).map(lambda parts: b"".join(part + b"\n" for part in parts))


class Lost(Exception):
    """The connection broke."""


class Upload:
    """A client that sends `data` in uploads of some chunks each, loses connections and answers, and comes back."""

    def __init__(self, data: bytes, cuts: list[int], lost: list[bool]) -> None:
        self.data = data
        self.cuts = cuts
        self.lost = lost

    async def run(self, service: JobService, job: str) -> None:
        sent, turn = 0, 0
        while sent < len(self.data):
            size = self.cuts[turn % len(self.cuts)]
            breaks = self.lost[turn % len(self.lost)] and turn < 40
            turn += 1
            with suppress(Lost):
                await service.upload(job, sent, self.body(sent, size, breaks))
            sent = service.view(job).upload_offset

    async def body(self, start: int, size: int, breaks: bool) -> AsyncGenerator[bytes, None]:
        for part in range(3):
            await trio.lowlevel.checkpoint()
            if breaks and part == 2:
                raise Lost
            chunk = self.data[start + part * size : start + (part + 1) * size]
            if chunk:
                yield chunk


@given(
    data=TEXT,
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    lost=st.lists(st.booleans(), min_size=1, max_size=5),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_chunking_with_lost_connections_gives_the_same_items(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[int], lost: list[bool]
) -> None:
    """However inputs are cut into uploads, broken off and resumed, the items are those of one upload in one piece."""

    async def items(upload: Upload) -> list[tuple[int, str, str, str]]:
        async with serving(tmp_path_factory.mktemp("data")) as service:
            await service.create(REQUEST)
            await upload.run(service, "j")
            await service.complete("j")
            view = await until_ended(service, "j")
            found = await read(service, "j")
        assert view.received == len(found)
        assert view.upload_offset == len(data)
        return sorted((line.ordinal, line.origin, line.value, line.error) for line in found)

    whole = trio.run(items, Upload(data, [len(data) + 1], [False]))
    assert trio.run(items, Upload(data, cuts, lost)) == whole


@given(
    data=st.lists(st.sampled_from([b"\n", b" ", b"\t", b"a", b"\r"]), max_size=40).map(b"".join), cut=st.integers(1, 9)
)
def test_lines_are_counted_however_they_are_cut(data: bytes, cut: int) -> None:
    """The counter over any chunks counts what splitting the whole at line breaks counts."""
    counter = LineCounter()
    for start in range(0, len(data), cut):
        counter.feed(data[start : start + cut])
    *whole, tail = data.split(b"\n")
    assert counter.state == InputState(len(data), sum(bool(line.strip()) for line in whole), bool(tail.strip()))


async def test_a_wrong_offset_names_the_right_one(tmp_path: Path) -> None:
    """Gaps and repetitions are refused, change nothing, and say where to go on."""
    async with serving(tmp_path, FakeRuns()) as service:
        await service.create(REQUEST)
        data = lines([1])
        await service.upload("j", 0, pieces(data))
        for offset in (0, len(data) - 1, len(data) + 1, -1):
            with pytest.raises(WrongOffset, match=f"byte {len(data)}") as caught:
                await service.upload("j", offset, pieces(data))
            assert caught.value.offset == len(data)
        assert service.view("j").upload_offset == len(data)


async def test_a_client_that_comes_back_takes_over_from_its_own_dead_connection(tmp_path: Path) -> None:
    """An upload whose client is gone without a word does not block the next; what it brought is kept."""

    async def hanging() -> AsyncGenerator[bytes, None]:
        yield lines([1])
        await trio.sleep_forever()

    async with serving(tmp_path, FakeRuns()) as service:
        await service.create(REQUEST)

        async def first() -> None:
            with pytest.raises(WrongOffset, match="took over") as caught:
                await service.upload("j", 0, hanging())
            assert caught.value.offset == len(lines([1]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await until(lambda: service.view("j").upload_offset > 0)
            await feed(service, "j", lines([2]))
        assert (await until_ended(service, "j")).done == 2


async def test_closing_ends_uploads_and_keeps_what_came(tmp_path: Path) -> None:
    """A daemon that ends tells whoever uploads, and the next daemon goes on at the same byte."""

    async def hanging() -> AsyncGenerator[bytes, None]:
        yield lines([1]) + b'{"ori'
        await trio.sleep_forever()

    async with serving(tmp_path, FakeRuns()) as service:
        await service.create(REQUEST)

        async def first() -> None:
            with pytest.raises(Draining):
                await service.upload("j", 0, hanging())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await until(lambda: service.view("j").done == 1)
            service.close()
        await service.all_ended()
        with pytest.raises(Draining):
            await service.upload("j", 0, pieces(b""))
        before = service.view("j")
    assert before.phase == "interrupted"
    async with serving(tmp_path) as service:
        now = service.view("j")
        assert (now.phase, now.done, now.upload_offset) == ("running", 1, before.upload_offset)
        await service.upload("j", before.upload_offset, pieces(b'gin":"late","fields":{"text":"2"}}\n'))
        await service.complete("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.received) == ("done", 2, 2)


async def test_nothing_is_acknowledged_or_worked_with_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk has not confirmed the bytes, the offset stays, no run begins and the upload is not answered."""
    reached, go = trio.Event(), trio.Event()
    token = trio.lowlevel.current_trio_token()

    def slow_sync(fd: int) -> None:
        trio.from_thread.run_sync(reached.set, trio_token=token)
        trio.from_thread.run(go.wait, trio_token=token)

    runs = FakeRuns()
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        monkeypatch.setattr(os, "fdatasync", slow_sync)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.upload, "j", 0, pieces(lines([1])))
            await reached.wait()
            await trio.testing.wait_all_tasks_blocked()
            assert (service.view("j").upload_offset, runs.asked) == (0, [])
            go.set()
        assert service.view("j").upload_offset == len(lines([1]))
        await until(lambda: len(runs.asked) == 1)


async def test_an_upload_is_no_faster_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the allowance waits for a sync, however much a client sends."""
    go = trio.Event()
    token = trio.lowlevel.current_trio_token()
    monkeypatch.setattr(os, "fdatasync", lambda fd: trio.from_thread.run(go.wait, trio_token=token))
    sent = 0

    async def fast() -> AsyncGenerator[bytes, None]:
        nonlocal sent
        for _ in range(64):
            sent += 64 * 1024
            yield b"x" * 64 * 1024

    async with serving(tmp_path) as service:
        await service.create(REQUEST)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.upload, "j", 0, fast())
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert sent <= SYNC_BYTES + 64 * 1024
            go.set()
        assert service.view("j").upload_offset == 64 * 64 * 1024


async def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of a chunk refuses the upload; when there is room it goes on at that byte."""
    data = lines([1, 2, 3])
    room = 50
    write = os.write

    def limited(fd: int, chunk: bytes) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = write(fd, chunk[:room])
        room -= written
        return written

    async with serving(tmp_path, FakeRuns()) as service:
        await service.create(REQUEST)
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", limited)
            with pytest.raises(JobStorageError, match=r"inputs\.jsonl cannot be written: no space left on device"):
                await service.upload("j", 0, pieces(data))
        assert service.view("j").upload_offset == 50
        await service.upload("j", 50, pieces(data[50:]))
        await service.complete("j")
        assert (await until_ended(service, "j")).done == 3


async def test_after_a_failed_sync_the_file_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that the disk refused are never acknowledged, not even when a later sync succeeds."""

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with serving(tmp_path, FakeRuns()) as service:
        await service.create(REQUEST)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", broken)
            with pytest.raises(JobStorageError, match="input/output error"):
                await service.upload("j", 0, pieces(lines([1])))
        for _ in range(2):
            with pytest.raises((JobStorageError, WrongOffset)):
                await service.upload("j", 0, pieces(lines([1])))
            assert service.view("j").upload_offset == 0


async def test_files_are_counted_as_they_were_uploaded(tmp_path: Path) -> None:
    """What is counted from the file is what was counted while it came."""
    path = tmp_path / "inputs"
    data = lines(range(5000)) + b"\n \n" + b'{"torn'
    path.write_bytes(data)
    assert count_inputs(path) == InputState(len(data), 5000, torn=True)
