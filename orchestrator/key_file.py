"""API keys on disk: `keys.json` in the data folder, changed by the command line and followed by the daemon.

A change is made under a lock (`flock` on a file beside it, so that two commands cannot lose each other's) and written
whole: a new file, fsync, rename. Readers need no lock. Only its owner can read it, though it holds no secret.

The daemon looks whether the file has changed when somebody asks for something, once a second at most, so a key that is
added or revoked counts within a second, without a signal. Reading it holds up the loop, for a millisecond per thousand
keys or so; that is why it is read when it has changed and at no other time.

Once there are keys, nothing that happens to the file opens the daemon to everybody: a file that has vanished, or cannot
be read, leaves the keys last read in force, and the log says so.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import structlog
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.durable import OWNER_ONLY, write_durably
from orchestrator.keys import KeyRecord, KeyRing

KEYS: Final = "keys.json"
LOCK: Final = "keys.lock"
VERSION: Final = 1
LOOK_SECONDS: Final = 1.0

T = TypeVar("T")
_log = structlog.get_logger("headrace")


class KeyFileError(HeadraceError):
    """The file of keys cannot be read or written; the message says why and never what is in it."""


class _Document(Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    keys: tuple[KeyRecord, ...]


def read_keys(folder: Path) -> KeyRing:
    """The keys in a data folder; none where there is no file. Raises `KeyFileError`."""
    path = folder / KEYS
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return KeyRing()
    except OSError as error:
        raise _failed(path, "cannot be read", error) from None
    try:
        document = msgspec.json.decode(data, type=_Document)
        _check_version(document)
        return KeyRing(document.keys)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KeyFileError(f"{path}: is no file of keys: {error}") from None
    except HeadraceError as error:
        raise KeyFileError(f"{path}: is no file of keys: {error.message}") from None


def _check_version(document: _Document) -> None:
    if document.version != VERSION:
        raise KeyFileError(f"version {document.version} is not known here, only {VERSION}")


def change_keys(folder: Path, change: Callable[[KeyRing], tuple[KeyRing, T]]) -> T:
    """Changes the keys in a data folder, which is made if need be, and answers what `change` answers with the new ring.

    Waits while another process changes them. Raises `KeyFileError`, and what `change` raises; nothing is changed then.
    """
    path = folder / KEYS
    with _locked(folder):
        ring, answer = change(read_keys(folder))
        try:
            write_durably(path, msgspec.json.format(msgspec.json.encode(_Document(VERSION, tuple(ring)))) + b"\n")
        except OSError as error:
            raise _failed(path, "cannot be written", error) from None
    return answer


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_ONLY)
    except OSError as error:
        raise _failed(folder, "cannot be used", error) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class FollowedKeys:
    """The keys of a data folder as they are now. Raises `KeyFileError` where the first reading fails.

    `now` is any clock that never goes back, in seconds.
    """

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        self._path = folder / KEYS
        self._now = now
        self._mark = self._look()
        self._ring = read_keys(folder)
        self._looked = now()

    def __repr__(self) -> str:
        return f"<FollowedKeys {self._ring!r} of {self._path}>"

    def ring(self) -> KeyRing:
        """The keys in force."""
        now = self._now()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            mark = self._look()
            if mark != self._mark:
                self._mark = mark
                self.read()
        return self._ring

    def read(self) -> bool:
        """Reads the file, changed or not. One that cannot be used changes nothing, and the log says why."""
        mark = self._look()
        try:
            ring = read_keys(self._path.parent)
        except KeyFileError as error:
            _log.error("the keys stay as they were", reason=error.message)
            return False
        if self._ring and not ring:
            _log.error("the keys stay as they were", reason=f"{self._path} holds none any more; a restart opens it")
            return False
        if len(ring) != len(self._ring) or set(ring) != set(self._ring):
            _log.info("keys read", keys=len(ring))
        self._mark, self._ring = mark, ring
        return True

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _failed(path: Path, what: str, error: OSError) -> KeyFileError:
    return KeyFileError(f"{path}: {what}: {(error.strerror or str(error)).lower()}")
