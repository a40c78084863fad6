"""A session's log on its way between the daemon and a file.

A file is written beside its place, synced and then moved there, so that there is all of it or nothing of it. It is its
owner's alone, since it holds everything that was said.
"""

import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import trio

from agents.errors import HeadraceError
from orchestrator.cli.render import clean_json
from orchestrator.client.client import Client
from orchestrator.client.errors import BadAnswer, DaemonLost, Refusal
from orchestrator.durable import OWNER_ONLY
from orchestrator.jobs.bytestream import ByteStream
from orchestrator.jobs.outputs import OutputError, ResultWriter, open_output
from orchestrator.views.sessions import ExportHeader

Write = Callable[[bytes], Awaitable[None]]


class Unreadable(HeadraceError):
    """The file that was to be imported cannot be read."""


async def export_log(client: Client, name: str, path: Path | None, *, overwrite: bool = False) -> ExportHeader:
    """Writes the log of a session, or of a run's session; `path` None is standard output.

    Raises `OutputError`, `ClientError`, and `DaemonLost` where fewer events came than the header says.
    """
    if path is not None and not overwrite:
        _refuse_existing(path)
    session = await _session_of(client, name)
    if path is not None:
        async with _whole_file(path) as write:
            return await _copy(client, session, write)
    async with open_output(None) as writer:
        return await _copy(client, session, _shown(writer))


@asynccontextmanager
async def read_log(path: Path | None) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
    """The bytes of a file, or of standard input. Raises `Unreadable`."""
    name = "standard input" if path is None else str(path)
    try:
        async with ByteStream(path) as stream:
            pieces = _pieces(stream, name)
            try:
                yield pieces
            finally:
                await pieces.aclose()
    except OSError as error:
        raise Unreadable(f"{name}: {(error.strerror or str(error)).lower()}") from error


async def _pieces(stream: ByteStream, name: str) -> AsyncGenerator[bytes, None]:
    try:
        while piece := await stream.read():
            yield piece
    except OSError as error:
        raise Unreadable(f"{name}: {(error.strerror or str(error)).lower()}") from error


async def _session_of(client: Client, name: str) -> str:
    """A session of that name, or else the session of a run of that name."""
    try:
        return (await client.session(name)).session
    except Refusal as refusal:
        if refusal.kind != "unknown_session":
            raise
    try:
        return (await client.run(name)).session or name
    except Refusal as refusal:
        if refusal.kind != "unknown_run":
            raise
        raise Refusal(f"there is no session and no run {name}", status=refusal.status, kind="unknown_session") from None


async def _copy(client: Client, session: str, write: Write) -> ExportHeader:
    """Hands whole lines over and counts them."""
    header: ExportHeader | None = None
    lines, rest = 0, b""
    async with client.export(session) as blocks:
        async for block in blocks:
            whole, line_end, rest = (rest + block).rpartition(b"\n")
            if not line_end:
                continue
            if header is None:
                header = _header(whole.partition(b"\n")[0])
            lines += whole.count(b"\n") + 1
            await write(whole + line_end)
    if header is None or rest or lines != header.events + 1:
        came = max(0, lines - 1)
        raise DaemonLost(f"the log of session {session} broke off behind {came:,} events; try again")
    return header


def _header(line: bytes) -> ExportHeader:
    try:
        return msgspec.json.decode(line, type=ExportHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadAnswer(f"the daemon's export is of a form that this version cannot read: {error}") from error


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise OutputError(f"{path}: the file is there already; choose another name or give --overwrite")


@asynccontextmanager
async def _whole_file(path: Path) -> AsyncGenerator[Write, None]:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    try:
        yield ResultWriter(fd, str(path)).write
        await trio.to_thread.run_sync(os.fsync, fd)
        fresh.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    finally:
        os.close(fd)
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _shown(writer: ResultWriter) -> Write:
    async def write(lines: bytes) -> None:
        await writer.write(clean_json(lines) if writer.is_terminal else lines)

    return write
