"""A session's log between daemon and file: all of it or nothing, for its owner's eyes."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.cli.log_file import Unreadable, export_log, read_log
from orchestrator.client.errors import BadAnswer, DaemonLost, Refusal
from orchestrator.jobs.outputs import OutputError
from orchestrator.views.sessions import ExportHeader, ExportLine, SessionDetail
from tests.client.fake_daemon import Broken, FakeDaemon, answered, refused, run_detail, streamed, talking

EVENTS = [b'{"type":"run_created","run":"r"}', '{"type":"x","said":"é\u2028"}'.encode(), b'{"type":"run_ended"}']


def exported(events: int = len(EVENTS)) -> bytes:
    header = msgspec.json.encode(ExportHeader(session="s", tenant="t", events=events))
    lines = [msgspec.json.encode(ExportLine(number=n, event=msgspec.Raw(e))) for n, e in enumerate(EVENTS, 1)]
    return b"".join(line + b"\n" for line in (header, *lines))


def knowing(*pieces: bytes | Exception) -> FakeDaemon:
    """A daemon that has session `s`, whose export comes in these pieces."""
    daemon = FakeDaemon()
    view = SessionDetail(session="s", tenant="t", events=3, generation=1, holder="", created=0.0, updated=0.0)
    daemon.on("GET", "/api/sessions/s", answered(view))
    daemon.on("GET", "/api/sessions/s/export", streamed(*pieces))
    return daemon


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(cut=st.integers(1, len(exported()) - 1))
async def test_a_file_holds_the_very_bytes_however_they_come(tmp_path: Path, cut: int) -> None:
    """Wherever the answer is cut into blocks, the file is what the daemon sent, only its owner's, and alone."""
    path = tmp_path / "s.jsonl"
    async with talking(knowing(exported()[:cut], exported()[cut:])) as client:
        header = await export_log(client, "s", path, overwrite=True)
    assert (header.session, header.events) == ("s", 3)
    assert path.read_bytes() == exported()
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["s.jsonl"]


@pytest.mark.parametrize(
    "pieces",
    [
        (exported()[:-10],),
        (exported()[: -len(EVENTS[-1])], Broken()),
        (exported(4),),
        (exported(2),),
        (),
    ],
)
async def test_a_log_that_broke_off_leaves_no_file(tmp_path: Path, pieces: tuple[bytes | Exception, ...]) -> None:
    """Fewer or more events than the header says, or an answer that broke: an error, and the old file stays."""
    path = tmp_path / "s.jsonl"
    path.write_text("old")
    async with talking(knowing(*pieces)) as client:
        with pytest.raises(DaemonLost):
            await export_log(client, "s", path, overwrite=True)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["s.jsonl"]


async def test_an_export_of_a_later_version_is_told(tmp_path: Path) -> None:
    """A header that this version cannot read is no torn log."""
    async with talking(knowing(b'{"format":"something-else"}\n')) as client:
        with pytest.raises(BadAnswer, match="of a form that this version cannot read"):
            await export_log(client, "s", tmp_path / "s.jsonl")
    assert os.listdir(tmp_path) == []


async def test_a_run_stands_for_its_session(tmp_path: Path) -> None:
    """A name that no session has may be a run's, and what nobody knows is named as both."""
    daemon = knowing(exported())
    missing = refused(404, "unknown_session", "there is no session r")
    daemon.on("GET", "/api/sessions/r", missing)
    daemon.on("GET", "/api/sessions/q", missing)
    daemon.on("GET", "/api/runs/r", answered(run_detail(session="s")))
    daemon.on("GET", "/api/runs/q", refused(404, "unknown_run", "there is no run q"))
    async with talking(daemon) as client:
        assert (await export_log(client, "r", tmp_path / "r.jsonl")).session == "s"
        with pytest.raises(Refusal, match="there is no session and no run q"):
            await export_log(client, "q", tmp_path / "q.jsonl")


async def test_a_file_that_is_there_is_not_replaced_by_accident(tmp_path: Path) -> None:
    """Without `overwrite` nothing is asked for, and a folder that is not there is told."""
    path = tmp_path / "s.jsonl"
    path.write_text("old")
    daemon = knowing(exported())
    async with talking(daemon) as client:
        with pytest.raises(OutputError, match="--overwrite"):
            await export_log(client, "s", path)
        assert daemon.asked == []
        with pytest.raises(OutputError, match="no such file or directory"):
            await export_log(client, "s", tmp_path / "nowhere" / "s.jsonl")
    assert path.read_text() == "old"


async def test_a_file_is_read_in_pieces_and_a_missing_one_is_named(tmp_path: Path) -> None:
    """What goes up is the file's bytes; a folder, or nothing, in its place is one message."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(exported() * 10_000)
    async with read_log(path) as pieces:
        assert b"".join([piece async for piece in pieces]) == exported() * 10_000
    with pytest.raises(Unreadable, match="missing"):
        async with read_log(tmp_path / "missing"):
            pass
    with pytest.raises(Unreadable, match="is a directory"):
        async with read_log(tmp_path) as pieces:
            await anext(pieces)
