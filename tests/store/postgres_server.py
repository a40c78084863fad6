"""A throwaway PostgreSQL server for tests: made in a temporary folder, gone with the test run.

Where its programs are not installed, tests that need it are skipped and say so; under CI they fail instead, so that
nobody takes a green run without a server for one with it.
"""

import atexit
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

_DEBIAN = Path("/usr/lib/postgresql")
_START_SECONDS = 60.0


class Server:
    """One server on a loopback port of its own. It can be killed, and started again on the same data and port.

    One that is not to be killed need not `sync`, which makes tests faster.
    """

    def __init__(self, programs: Path, folder: Path, *, sync: bool) -> None:
        self._sync = sync
        self._programs = programs
        self._folder = folder
        self._data = folder / "data"
        self.port = _free_port()

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        self._run("initdb", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C")

    def start(self) -> None:
        settings = {"unix_socket_directories": "''", "max_connections": "60", "shared_buffers": "32MB"}
        if not self._sync:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = f"-p {self.port} -h 127.0.0.1 " + " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = str(self._folder / "log")
        self._run("pg_ctl", "-w", "-t", str(int(_START_SECONDS)), "-l", log, "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """Ends it as a crash of the machine would: no shutdown, no last checkpoint."""
        pid = self.pid
        children = _children(pid)
        for victim in (pid, *children):
            _kill(victim)
        deadline = time.monotonic() + _START_SECONDS
        while any(_lives(victim) for victim in (pid, *children)):
            assert time.monotonic() < deadline, "the server did not die"
            time.sleep(0.01)
        # where nobody buries the dead, the server would take its own ghost for another server
        (self._data / "postmaster.pid").unlink()

    def pause(self) -> None:
        """Stops it in its tracks: connections stay, and nothing answers."""
        pid = self.pid
        for victim in (pid, *_children(pid)):
            os.kill(victim, signal.SIGSTOP)

    def go_on(self) -> None:
        pid = self.pid
        for victim in (pid, *_children(pid)):
            os.kill(victim, signal.SIGCONT)

    @property
    def up(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    @property
    def pid(self) -> int:
        return int((self._data / "postmaster.pid").read_text().split()[0])

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self._data), *words]
        if os.geteuid() == 0:  # the server refuses to run as root
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(  # its own files: a server inherits the output, and a pipe would never end
            command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=90, check=False
        )
        if done.returncode:
            log = self._folder / "log"
            raise AssertionError(f"{program} failed: {log.read_text() if log.exists() else 'it left no log'}")


def find_programs() -> Path | None:
    """The folder with `initdb` and `pg_ctl`: on the path, where `pg_config` says, or where Debian puts them."""
    folders = []
    if found := shutil.which("initdb"):
        folders.append(Path(found).parent)
    if config := shutil.which("pg_config"):
        said = subprocess.run([config, "--bindir"], capture_output=True, text=True, timeout=20, check=False)
        folders.append(Path(said.stdout.strip()))
    if _DEBIAN.is_dir():
        versions = sorted(_DEBIAN.iterdir(), key=lambda path: [int(n) for n in path.name.split(".") if n.isdigit()])
        folders.extend(version / "bin" for version in reversed(versions))
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


def why_not() -> str:
    """Why no server can be started here; empty where one can."""
    if find_programs() is None:
        return "PostgreSQL's server programs (initdb, pg_ctl) are not installed"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
        if shutil.which("runuser") is None:
            return "PostgreSQL does not run as root, and there is no runuser"
    return ""


def require_server() -> None:
    """Skips the test where no server can be started; fails it under CI."""
    if reason := why_not():
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"CI must test the store in PostgreSQL: {reason}")
        pytest.skip(reason)


@contextmanager
def throwaway_server(*, sync: bool = True) -> Iterator[Server]:
    """A running server. Skips or fails where there can be none."""
    require_server()
    programs = find_programs()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        server = Server(programs, folder, sync=sync)
        server.make()
        server.start()
        try:
            yield server
        finally:
            if server.up:
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.lru_cache(maxsize=1)
def _running() -> Server:
    """One server for all tests of a process that only need one; it ends with the process."""
    context = throwaway_server(sync=False)
    server = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return server


def shared_server() -> Server:
    """The server that tests share: each takes a schema of its own in it. Skips or fails where there can be none."""
    require_server()
    return _running()


@contextmanager
def fresh_schema() -> Iterator[str]:
    """The name of a schema that nobody has in the shared server; it is dropped at the end."""
    name = f"test_{uuid.uuid4().hex}"
    dsn = shared_server().dsn
    try:
        yield name
    finally:
        with psycopg.connect(dsn, autocommit=True) as link:
            link.execute("SET client_min_messages TO warning")
            link.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
