"""Results on their way out: whole lines, whatever happens to the file or to its reader."""

import errno
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from orchestrator.jobs.outputs import OutputError, ResultWriter, open_output


async def test_a_file_with_content_is_not_emptied(tmp_path: Path) -> None:
    """Results cost money: an existing file is refused unless overwriting was asked for; so is a missing folder."""
    path = tmp_path / "out.jsonl"
    path.write_text("paid for\n")
    with pytest.raises(OutputError, match="--overwrite"):
        async with open_output(path):
            pass
    assert path.read_text() == "paid for\n"
    async with open_output(path, overwrite=True) as writer:
        await writer.write(b"new\n")
    assert path.read_text() == "new\n"
    with pytest.raises(OutputError, match="no such folder"):
        async with open_output(tmp_path / "nowhere" / "out.jsonl"):
            pass


async def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a line can only be written in part, the file is cut back to the line before it."""
    path = tmp_path / "out.jsonl"
    room = [25]
    real_write = os.write

    def write(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real_write(fd, data[: room[0]])
        room[0] -= written
        return written

    async with open_output(path) as writer:
        monkeypatch.setattr(os, "write", write)
        await writer.write(b"0123456789\n")
        with pytest.raises(OutputError, match="no space left on device"):
            await writer.write(b"x" * 30 + b"\n")
        with pytest.raises(OutputError, match="no longer be written"):
            await writer.write(b"y\n")
        monkeypatch.undo()
    assert path.read_bytes() == b"0123456789\n"


async def test_a_cancelled_writer_finishes_its_line() -> None:
    """Cancelling the caller while a pipe is full leaves no torn line behind."""
    read_end, write_end = os.pipe()
    writer = ResultWriter(write_end, "pipe")
    line = b"x" * 200_000 + b"\n"  # more than a pipe holds
    got = bytearray()
    async with trio.open_nursery() as nursery:

        async def write() -> None:
            with trio.CancelScope() as scope:
                scope.cancel()
                await writer.write(line)
            os.close(write_end)

        nursery.start_soon(write)
        while chunk := await trio.to_thread.run_sync(os.read, read_end, 30_000):
            got += chunk
    os.close(read_end)
    assert bytes(got) == line


async def test_hurry_gives_up_on_a_reader_that_takes_nothing() -> None:
    """A second signal ends a write that would wait forever."""
    read_end, write_end = os.pipe()
    writer = ResultWriter(write_end, "pipe")
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                with pytest.raises(OutputError, match="took nothing"):
                    await writer.write(b"x" * 200_000 + b"\n")

            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked(0.01)
            writer.hurry()
    os.close(read_end)  # ends the abandoned thread's write


async def test_a_reader_that_left_is_an_error() -> None:
    """`| head -1` gives one clear error, not a traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with pytest.raises(OutputError, match="its reader is gone"):
        await ResultWriter(write_end, "stdout").write(b"line\n")
    os.close(write_end)
