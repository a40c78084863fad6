"""One model server's process, from start to reaped.

No orphan: the server exits when its stdin ends, which the kernel sees to even if this process is killed. It leads a
session of its own, so that Ctrl-C at the terminal reaches the daemon alone, which then drains before it stops the
server.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping

import msgspec
import trio
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.backends.local.tail import Tail

LAST_WORDS_SECONDS = 1.0


class ServerFailed(HeadraceError):
    """The model server did not come up, or keeps crashing; the message ends with its last lines of output."""

    blame = "provider"


class Launch(Struct, frozen=True, kw_only=True):
    """How to start a server: the command, the settings it reads from stdin, and its clocks in seconds."""

    command: tuple[str, ...]
    settings: Mapping[str, object]
    environment: Mapping[str, str]
    start_timeout: float
    stop_grace: float


Ready = Callable[[str, int], None]
"""Told once that a server answers: its base URL and its process id."""


class _Answer(Struct, frozen=True):
    address: str


async def run_server(launch: Launch, tail: Tail, ready: Ready) -> str:
    """Runs one server until it ends or this is cancelled; by then it is reaped.

    Calls `ready` once the server answers. Returns how it ended, as part of a sentence.
    """
    process = await trio.lowlevel.open_process(
        launch.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **launch.environment},
        start_new_session=True,
    )
    try:
        async with trio.open_nursery() as nursery:
            assert process.stderr is not None
            nursery.start_soon(tail.follow, process.stderr)
            problem = await _await_ready(process, launch, ready)
            if problem is None:
                problem = describe_exit(await process.wait())
            else:
                await _stop(process, launch.stop_grace)
            # What it said last is in the pipe; no longer wait is due if a process it started keeps the pipe open.
            nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_SECONDS
        return problem
    finally:
        await _stop(process, launch.stop_grace)
        await _close_pipes(process)


async def _await_ready(process: trio.Process, launch: Launch, ready: Ready) -> str | None:
    """Hands over the settings and waits for the answer; a problem if there is none."""
    assert process.stdin is not None
    assert process.stdout is not None
    with trio.move_on_after(launch.start_timeout) as clock:
        try:
            await process.stdin.send_all(json.dumps(launch.settings).encode() + b"\n")
            line = await _read_line(process.stdout)
        except trio.BrokenResourceError:
            line = b""
        if not line:
            return f"{describe_exit(await process.wait())} before it was ready"
        try:
            ready(msgspec.json.decode(line, type=_Answer).address, process.pid)
        except msgspec.MsgspecError:
            return f"answered {line[:80]!r} instead of its address"
    return f"was not ready within {launch.start_timeout:g} s" if clock.cancelled_caught else None


async def _read_line(stream: trio.abc.ReceiveStream) -> bytes:
    line = b""
    async for chunk in stream:
        line += chunk
        if b"\n" in line or len(line) > 4096:
            return line.partition(b"\n")[0]
    return b""


def describe_exit(code: int) -> str:
    """An exit code in words."""
    return f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"


async def _stop(process: trio.Process, grace: float) -> None:
    """TERM, then KILL after `grace` seconds; returns when the process is reaped. Shielded and idempotent."""
    if process.returncode is not None:
        return
    with trio.CancelScope(shield=True):
        process.terminate()
        with trio.move_on_after(grace):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _close_pipes(process: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe is not None
            await pipe.aclose()
