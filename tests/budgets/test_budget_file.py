"""What was spent, on disk."""

import os
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing

from orchestrator.budget_file import SPENT, WRITE_SECONDS, SpentFile, SpentFileError, read_spent
from orchestrator.budgets import Spent
from orchestrator.durable import write_durably

Clock = trio.testing.MockClock


class Books:
    """What is spent, and how often it was written; in the loop's own thread, so that virtual time waits for it."""

    def __init__(self, folder: Path) -> None:
        self.tokens = 0
        self.writes = 0
        self.broken = False
        self.file = SpentFile(folder, lambda: [self.record], self._write)

    async def _write(self, path: Path, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.broken:
            raise OSError(28, "No space left on device")
        self.writes += 1
        write_durably(path, data)

    @property
    def record(self) -> Spent:
        return Spent(tenant="acme", period="2026-02", tokens=self.tokens, unknown_micro_dollars=7)


async def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """All amounts come back; only the owner can read the file; where there is none nothing was spent."""
    assert read_spent(tmp_path) == ()
    books = Books(tmp_path)
    books.tokens = 5
    await books.file.write()
    assert read_spent(tmp_path) == (books.record,)
    assert os.stat(tmp_path / SPENT).st_mode & 0o777 == 0o600


async def test_it_is_written_once_a_second_at_most_and_only_after_changes(
    tmp_path: Path, autojump_clock: Clock
) -> None:
    """A hundred changes in a second are one write, a quiet minute is none, and the end is written whatever the time."""
    books = Books(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(books.file.keep)
        for _ in range(100):
            await trio.sleep(WRITE_SECONDS / 100)
            books.tokens += 1
        await trio.sleep(60 * WRITE_SECONDS)
        assert books.writes in (1, 2)
        before = books.writes
        books.tokens += 1
        nursery.cancel_scope.cancel()
    assert books.writes == before + 1
    assert read_spent(tmp_path) == (books.record,)


async def test_a_disk_that_fails_is_told_once_and_tried_again(tmp_path: Path, autojump_clock: Clock) -> None:
    """The log has one line however long it lasts; when there is room again everything is written."""
    books = Books(tmp_path)
    books.broken = True
    with structlog.testing.capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(books.file.keep)
            await trio.sleep(10 * WRITE_SECONDS)
            books.broken = False
            await trio.sleep(2 * WRITE_SECONDS)
            nursery.cancel_scope.cancel()
    assert [line["event"] for line in logs] == ["what tenants have spent cannot be kept"]
    assert read_spent(tmp_path) == (books.record,)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 9, "spent": []}', '{"version": 1, "spent": [{"tenant": 1}]}'])
def test_a_file_that_cannot_be_read_is_no_empty_one(text: str, tmp_path: Path) -> None:
    """Taken for empty it would forgive everything that was spent; the error names the file."""
    (tmp_path / SPENT).write_text(text)
    with pytest.raises(SpentFileError, match=SPENT):
        read_spent(tmp_path)
