"""Reading a job's inputs: what becomes an item, and what is said of what cannot."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from orchestrator.jobs import inputs
from orchestrator.jobs.bytestream import CHUNK, ByteStream
from orchestrator.jobs.inputs import InputError, InputFormat, InputStream, Item, Unreadable, check_sources


async def read(
    *arguments: str | Path, format: InputFormat = "auto", skip: Path | None = None
) -> list[Item | Unreadable]:
    sources = check_sources([str(argument) for argument in arguments], format, skip=skip)
    return [item async for item in InputStream(sources, format, skip=skip).items()]


def texts(items: list[Item | Unreadable]) -> list[Any]:
    return [item.fields["text"] for item in items if isinstance(item, Item)]


async def test_json_lines_give_fields_and_origins(tmp_path: Path) -> None:
    """Objects become fields, strings become the text, blank lines are skipped and still counted as lines."""
    path = tmp_path / "in.jsonl"
    path.write_text('{"text": "one", "n": 1}\n\n"two"\r\n{"text": "three"}')
    items = await read(path)
    assert [item.ordinal for item in items] == [1, 2, 3]
    assert [item.origin for item in items] == [f"{path}:1", f"{path}:3", f"{path}:4"]
    assert texts(items) == ["one", "two", "three"]
    assert isinstance(items[0], Item)
    assert items[0].fields["n"] == 1


async def test_a_folder_gives_its_files_in_order(tmp_path: Path) -> None:
    """A folder's files come in name order at all levels, hidden ones and the output file left out."""
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    for name, text in {"z.txt": "last", "a.txt": "first", "b/c.md": "below", ".git/x": "no", ".hidden": "no"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "more.jsonl").write_text('"line one"\n"line two"\n')
    out = tmp_path / "out.txt"
    out.write_text("own output")
    items = await read(tmp_path, skip=out)
    assert texts(items) == ["first", "line one", "line two", "last", "below"]


async def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    """Files written on Windows begin with a mark that belongs to no item."""
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf"one"\r\n')
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbftwo")
    assert texts(await read(tmp_path)) == ["one", "two"]


@pytest.mark.parametrize(
    ("line", "place", "problem"),
    [
        (b'{"text": }', ":2:10", "not valid JSON: expecting value"),
        (b'{"text": "a"', ":2:13", "not valid JSON: expecting ',' delimiter"),
        ('{"ü": "é" x}'.encode(), ":2:11", "not valid JSON"),
        (b'{"text": NaN}', ":2:1", "not valid JSON"),
        (b'{"text": "\\ud800"}', ":2:1", "not valid JSON"),
        (b"[1]", ":2", "a line must be a JSON object or a JSON string"),
        (b'{"text": "\xff"}', ":2", "not UTF-8 at byte offset 21"),
        (b"[" * 100_000, ":2:1", "nested too deeply"),
    ],
)
async def test_a_bad_line_is_named_and_passed(tmp_path: Path, line: bytes, place: str, problem: str) -> None:
    """A line that is not JSON or not UTF-8 is one failed item with its place; the lines behind it are read."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'"line one"\n' + line + b'\n{"text": "after"}\n')
    first, bad, after = await read(path)
    assert isinstance(bad, Unreadable)
    assert bad.ordinal == 2
    assert bad.origin == f"{path}{place}"
    assert problem in bad.message
    assert texts([first, after]) == ["line one", "after"]


async def test_a_binary_file_is_named_with_line_and_byte(tmp_path: Path) -> None:
    """A text file that is not UTF-8 says the line and the byte where it stops being text."""
    path = tmp_path / "photo.txt"
    path.write_bytes(b"line one\nline \xff\xfe two")
    (bad,) = await read(path)
    assert isinstance(bad, Unreadable)
    assert bad.message == f"{path}:2: not UTF-8 at byte offset 14"
    path.write_bytes("text".encode("utf-16"))
    (bad,) = await read(path)
    assert isinstance(bad, Unreadable)
    assert "it looks like UTF-16" in bad.message


async def test_lines_format_takes_plain_lines(tmp_path: Path) -> None:
    """`lines` makes every line of any file an item."""
    path = tmp_path / "names.txt"
    path.write_text("ada\ngrace\n")
    assert texts(await read(path, format="lines")) == ["ada", "grace"]


def test_missing_empty_and_unusable_sources_are_refused(tmp_path: Path) -> None:
    """Before anything is read: no such file, an empty file, an empty folder, stdin twice, no input, the output."""
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    for arguments, message in [
        (["nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        ([str(empty)], "the file is empty"),
        ([str(folder)], "the folder has no files"),
        (["-", "-"], "only once"),
        ([], "no input"),
    ]:
        with pytest.raises(InputError, match=message):
            check_sources(arguments)
    out = tmp_path / "out.jsonl"
    out.write_text("x")
    with pytest.raises(InputError, match="also the output"):
        check_sources([str(out)], skip=out)


@pytest.mark.parametrize("length", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
async def test_lines_cross_chunks(tmp_path: Path, length: int) -> None:
    """A line is whole wherever the chunks of reading happen to end, with its offsets right."""
    path = tmp_path / "long.txt"
    path.write_bytes(b"a" * length + b"\n" + b"b" * 5 + b"\n\nlast")
    async with ByteStream(path) as stream:
        lines = [line async for line in stream.lines(10 * CHUNK)]
    assert [line.data for line in lines] == [b"a" * length, b"bbbbb", b"", b"last"]
    assert [line.offset for line in lines] == [0, length + 1, length + 7, length + 8]
    assert lines[-1].end == path.stat().st_size


async def test_an_endless_line_is_dropped_as_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the limit is a failed item that never stood in memory whole."""
    monkeypatch.setattr(inputs, "MAX_ITEM_BYTES", 1000)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'"' + b"x" * 3 * CHUNK + b'"\n"small"\n')
    bad, small = await read(path)
    assert isinstance(bad, Unreadable)
    assert "more than one item may have" in bad.message
    assert texts([small]) == ["small"]


async def test_consumed_counts_what_was_handed_out(tmp_path: Path) -> None:
    """Progress in uncounted input is the share of bytes behind the last item handed out."""
    path = tmp_path / "in.jsonl"
    path.write_text('"a"\n' * 100)
    stream = InputStream(check_sources([str(path)]))
    assert stream.total_bytes == 400
    iterator = stream.items()
    for _ in range(25):
        await anext(iterator)
    assert stream.consumed == 100
    assert not stream.ended
    await iterator.aclose()


async def test_a_pipe_is_read_as_it_is_written(tmp_path: Path) -> None:
    """Items of a FIFO arrive while its writer is still writing; opening it waits for nobody."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    stream = InputStream(check_sources([str(path)]))
    assert stream.total_bytes is None
    iterator = stream.items()
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            got: list[Item | Unreadable] = []

            async def read_one() -> None:
                got.append(await anext(iterator))

            nursery.start_soon(read_one)
            await trio.testing.wait_all_tasks_blocked()
            assert not got
            writer = os.open(path, os.O_WRONLY)
            os.write(writer, b'"first"\n"sec')
        assert texts(got) == ["first"]
        os.write(writer, b'ond"\n')
        os.close(writer)
        assert texts([item async for item in iterator]) == ["second"]
