"""Jobs on disk: a folder each, so that they outlive the daemon.

| file            | holds                                    | written                                            |
|-----------------|------------------------------------------|----------------------------------------------------|
| `job.json`      | the job: `JobRecord`                     | whole: a new file, fsync, rename, fsync the folder |
| `inputs.jsonl`  | uploaded inputs, `InputLine`s            | appended, fsync before an upload is acknowledged   |
| `results.jsonl` | results, `JobLine`s in order of the log  | a line in one append; fsync when the job ends      |

What happened to a job stands in its log (`jobs.events`); `job.json` and `results.jsonl` follow it, and are mended from
it (`jobs.recovery`).

A folder is made under another name and renamed when it is whole, and renamed before it is deleted, so one that bears
a job's name is a job. What another program put there, or a disk damaged, is reported and left alone.

Everything here blocks, and is meant for a thread.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
import trio
from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.jobs.errors import DuplicateJob, JobStorageError
from orchestrator.jobs.lines import InputState, count_inputs
from orchestrator.jobs.record import FORMAT, OPEN_PHASES, JobRecord
from orchestrator.views.names import check_name

LARGEST_JOB_NAME: Final = 40
"""Characters of a job's id: `{job}.{ordinal}.{attempt}` has to be a name as well."""

_NEW: Final = ".new-"
_REMOVED: Final = ".removed-"


class StoredJob(Struct, frozen=True):
    """A job as its folder has it: its record, and how far its files go."""

    record: JobRecord
    inputs: InputState
    result_bytes: int


class JobFolder:
    """One job's folder. All methods block, and all but `load` raise `JobStorageError`."""

    __slots__ = ("inputs", "path", "results")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inputs = path / "inputs.jsonl"
        self.results = path / "results.jsonl"

    def __repr__(self) -> str:
        return f"<JobFolder {self.path}>"

    def create(self, record: JobRecord) -> None:
        """Makes the folder with everything in it, or nothing. Raises `DuplicateJob` where there is one of its name."""
        new = JobFolder(self.path.with_name(_NEW + self.path.name))
        shutil.rmtree(new.path, ignore_errors=True)
        try:
            new.path.mkdir()
            new.inputs.touch()
            new.results.touch()
            _write_durably(new.path, record)
            if self.path.exists():  # rename would replace an empty folder
                raise DuplicateJob(f"the daemon's folder of jobs has something else called {self.path.name} in it")
            new.path.rename(self.path)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise storage_error(self.path, "cannot be made", error) from error
        finally:
            shutil.rmtree(new.path, ignore_errors=True)  # what is left of it after a failure

    def save(self, record: JobRecord) -> None:
        """Replaces `job.json`, durably."""
        try:
            _write_durably(self.path, record)
        except OSError as error:
            raise storage_error(self.path / "job.json", "cannot be written", error) from error

    def sync_results(self) -> None:
        """What was written to the results is on disk afterwards."""
        try:
            with self.results.open("rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise storage_error(self.results, "cannot be written", error) from error

    def remove(self) -> None:
        """Deletes the folder; after the first step nobody finds it any more."""
        gone = self.path.with_name(_REMOVED + self.path.name)
        try:
            self.path.rename(gone)
            _sync_folder(self.path.parent)
        except OSError as error:
            raise storage_error(self.path, "cannot be removed", error) from error
        shutil.rmtree(gone, ignore_errors=True)

    def load(self) -> StoredJob:
        """The job as its folder has it. Raises `OSError`, `ValueError`.

        Inputs are counted where the record was not written after the last of them.
        """
        record = msgspec.json.decode((self.path / "job.json").read_bytes(), type=JobRecord)
        if record.format != FORMAT:
            raise ValueError(f"its layout is version {record.format}, and this program knows version {FORMAT}")
        if record.job != self.path.name:
            raise ValueError(f"its job.json belongs to job {record.job!r}")
        inputs = InputState(self.inputs.stat().st_size, record.received)
        if record.phase in OPEN_PHASES or inputs.size != record.upload_offset or not record.complete:
            inputs = count_inputs(self.inputs)
        return StoredJob(record, inputs, self.results.stat().st_size)


class OpenFiles:
    """A job's inputs to read and its results to append to, as descriptors. Raises `JobStorageError`."""

    def __init__(self, folder: JobFolder, limiter: trio.CapacityLimiter) -> None:
        self.inputs = self.results = -1
        self._folder = folder
        self._limiter = limiter

    async def __aenter__(self) -> "OpenFiles":
        await trio.to_thread.run_sync(self._open, limiter=self._limiter)
        return self

    async def __aexit__(self, *_: object) -> None:
        os.close(self.inputs)
        os.close(self.results)

    def _open(self) -> None:
        folder = self._folder
        try:
            self.inputs = os.open(folder.inputs, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise storage_error(folder.inputs, "cannot be read", error) from error
        try:
            self.results = os.open(folder.results, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            os.close(self.inputs)
            raise storage_error(folder.results, "cannot be written", error) from error


class JobFiles:
    """The folder of all jobs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"<JobFiles {self.path}>"

    def folder(self, job: str) -> JobFolder:
        return JobFolder(self.path / job)

    def open(self) -> Iterator[StoredJob | str]:
        """Makes the folder if there is none, and looks at every job in it: what it is, or a problem in words.

        Raises `JobStorageError`.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            entries = sorted(self.path.iterdir())
        except OSError as error:
            raise storage_error(self.path, "cannot be used", error) from error
        for entry in entries:
            if entry.name.startswith((_NEW, _REMOVED)):
                shutil.rmtree(entry, ignore_errors=True)
            elif not entry.name.startswith("."):
                yield self._look(entry)

    def _look(self, entry: Path) -> StoredJob | str:
        try:
            check_name("the folder's name", entry.name)
            return JobFolder(entry).load()
        except FileNotFoundError as error:
            return f"{entry} is no job and is left alone: there is no {Path(str(error.filename)).name}"
        except OSError as error:
            return f"{entry} cannot be read and is left alone: {reason(error)}"
        except (ValueError, InvalidLimits) as error:  # msgspec's errors are ValueErrors
            return f"{entry} is no job and is left alone: {error}"


def reason(error: OSError) -> str:
    """Why, in a few words."""
    return (error.strerror or str(error)).lower()


def storage_error(path: Path, what: str, error: OSError) -> JobStorageError:
    """One sentence: which file, what cannot be done with it, and why."""
    return JobStorageError(f"{path} {what}: {reason(error)}")


def _write_durably(folder: Path, record: JobRecord) -> None:
    new = folder / "job.json.new"
    with new.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / "job.json")
    _sync_folder(folder)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
