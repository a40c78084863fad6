"""One process and all that it starts, from its start until every one of them is gone.

It has a session of its own, and so a process group that is named by its id. The group stays addressable until the
process is reaped, and so nothing is reaped before the group has got its last signal: a signal can never hit a
stranger who was given the id anew.

An end from outside is a ladder: SIGTERM to the group, `grace` seconds for all of it, SIGKILL to the group. An end from
inside leaves nothing behind either: what still holds the output when the process has ended has `LINGER` seconds to
write its last words, then it is killed as well. Only what moved to a session of its own escapes.
"""

import math
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio
from msgspec import Struct

from orchestrator.tools.output import Output

LINGER: Final = 1.0
"""Seconds for the last words of what a process left behind."""

KILL_SECONDS: Final = 5.0
"""Seconds after SIGKILL within which a process is expected to be gone; one in the middle of bad I/O may not be."""

_CHUNK: Final = 65536


class Launch(Struct, frozen=True, kw_only=True):
    """What to start: its arguments, its folder, its whole environment, and what it reads from stdin."""

    command: Sequence[str]
    folder: Path | None
    environment: Mapping[str, str]
    stdin: bytes


class Running:
    """One process with its group, while it runs. `run_process` makes it."""

    __slots__ = ("_eof", "_err", "_gone", "_guard", "_out", "_process", "_reaped", "_rest", "_stdin")

    def __init__(self, process: trio.Process, stdin: bytes, out: Output, err: Output) -> None:
        self._process = process
        self._stdin = stdin
        self._out, self._err = out, err
        self._guard = trio.CancelScope(shield=True)
        self._rest = trio.CancelScope()
        self._eof = trio.Event()
        self._gone = trio.Event()
        self._reaped = False

    async def run(self, grace: float) -> int:
        """Until all of it is gone; the exit code. Cancelled, it goes down the ladder first and raises `Cancelled`.

        A process that ended with 0 nevertheless has done what it was asked to, and its code is given.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch)
            try:
                await self._gone.wait()
            except BaseException as ended:
                await self._stop(grace)
                if self._process.returncode != 0 or not isinstance(ended, trio.Cancelled):
                    raise
        code = self._process.returncode
        assert code is not None
        return code

    async def _watch(self) -> None:
        with self._guard:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._feed)
                nursery.start_soon(self._read_both)
                await _exited(self._process)
                if self._rest.deadline == math.inf:
                    self._rest.deadline = trio.current_time() + LINGER
                with self._rest:
                    await self._eof.wait()
                self._signal(signal.SIGKILL)
                with trio.move_on_after(LINGER):
                    await self._eof.wait()
                nursery.cancel_scope.cancel()
            self._reaped = True
            await self._process.wait()
        self._gone.set()

    async def _stop(self, grace: float) -> None:
        deadline = trio.current_time() + grace
        self._rest.deadline = deadline
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # one that stands still could not hear it
        with trio.CancelScope(shield=True, deadline=deadline):
            await self._gone.wait()
        self._signal(signal.SIGKILL)
        with trio.CancelScope(shield=True, deadline=trio.current_time() + KILL_SECONDS):
            await self._gone.wait()
        self._guard.cancel()

    def _signal(self, number: signal.Signals) -> None:
        if self._reaped:
            return
        with suppress(ProcessLookupError, PermissionError):  # all of it is gone, or has become somebody else's
            os.killpg(self._process.pid, number)

    async def _feed(self) -> None:
        assert self._process.stdin is not None
        async with self._process.stdin as stdin:
            with suppress(trio.BrokenResourceError):  # it reads no further, and need not
                await stdin.send_all(self._stdin)

    async def _read_both(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, self._process.stdout, self._out)
            nursery.start_soon(_read, self._process.stderr, self._err)
        self._eof.set()


async def run_process(launch: Launch, out: Output, err: Output, *, grace: float) -> int:
    """Runs it until all of it is gone, and reads what it writes; its exit code, negative for a signal's number.

    Raises `OSError` where it cannot be started.
    """
    process = await trio.lowlevel.open_process(
        list(launch.command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=launch.folder,
        env=dict(launch.environment),
        start_new_session=True,
    )
    return await Running(process, launch.stdin, out, err).run(grace)


async def _read(stream: trio.abc.ReceiveStream | None, output: Output) -> None:
    assert stream is not None
    async with stream:
        with suppress(trio.BrokenResourceError):
            while data := await stream.receive_some(_CHUNK):
                output.add(data)


async def _exited(process: trio.Process) -> None:
    """Until the process has ended, without reaping it where the system can tell us so."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        await process.wait()
        return
    try:
        await trio.lowlevel.wait_readable(descriptor)
    finally:
        trio.lowlevel.notify_closing(descriptor)
        os.close(descriptor)
