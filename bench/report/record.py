"""What was measured, as a file: a benchmark's own JSON with the command that made it, when, on what, how long."""

import hashlib
import os
import platform
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw, Struct

import agents
import bench
import orchestrator
from orchestrator.version import version

RESULTS: Final = "results"
"""The folder with records, beside the page."""

NOTHING: Final = Raw(b"null")
"""The result where there is none."""


class Machine(Struct, frozen=True):
    """What figures depend on, and nothing that says whose it is."""

    cores: int
    python: str
    system: str


class Record(Struct, frozen=True, kw_only=True):
    """One benchmark that was run. `started` is UTC, `seconds` of wall clock; `result` is its JSON, null where it gave
    none, and then `said` is the last that it said. `code` is a digest of the source that was measured.
    """

    bench: str
    command: str
    quick: bool
    version: str
    code: str
    machine: Machine
    started: str
    seconds: float
    exit_code: int
    said: str = ""
    result: Raw = NOTHING

    @property
    def measured(self) -> bool:
        """Whether there is a result."""
        return bytes(self.result) != bytes(NOTHING)

    def same(self, other: "Record") -> bool:
        """Whether the other was measured with the same settings, source and machine."""
        return all(getattr(self, name) == getattr(other, name) for name in ("command", "version", "code", "machine"))


class UnreadableRecord(Exception):
    """A file with results cannot be used; the message says why."""


def this_machine() -> Machine:
    """Where this process runs. Cores are those that it may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    return Machine(cores, platform.python_version(), f"{platform.system()} {platform.machine()}")


@lru_cache(maxsize=1)
def code() -> str:
    """A digest of all source, so that figures of another state of it are not taken for this one's."""
    digest = hashlib.sha256(version().encode())
    for package in (agents, orchestrator, bench):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def path_of(folder: Path, bench: str) -> Path:
    """The file of a benchmark's record."""
    return folder / f"{bench}.json"


def save(folder: Path, record: Record) -> None:
    """Writes it whole or not at all. Raises `OSError`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = path_of(folder, record.bench)
    unfinished = path.with_suffix(".part")
    unfinished.write_bytes(msgspec.json.encode(record) + b"\n")
    unfinished.replace(path)


def load(folder: Path, bench: str) -> Record | None:
    """A benchmark's record, None where there is none. Raises `UnreadableRecord`."""
    path = path_of(folder, bench)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableRecord(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableRecord(f"{path} is no record of `headrace-bench report`: {error}") from None
