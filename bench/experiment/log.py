"""The result log: JSON Lines, only ever appended to, from which an experiment is resumed.

A line is a look (what was planned, once for each plan) or a result. A line that was cut off by a crash is the last one,
and is cut away; whatever else cannot be read is an error, since results were lost that nobody would miss.
"""

import fcntl
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from msgspec import Struct

from bench.experiment.cells import Cell, fingerprint
from bench.experiment.spec import Spec, SpecError

SYNC_SECONDS: Final = 0.5
"""Cells may take a millisecond, and a sync ten: not each of them is waited for."""


class Look(Struct, frozen=True, kw_only=True, tag="look", tag_field="line"):
    """A plan: the number of its cells, its name, its seed, and what it was to be judged by."""

    name: str
    cells: int
    plan: str
    rules: str
    seed: int


class Result(Struct, frozen=True, kw_only=True, tag="result", tag_field="line", omit_defaults=True):
    """How one cell ended. `at` is Unix seconds at its beginning, in virtual time 0; `cell` its fingerprint."""

    task: str
    system: str
    model: str
    environment: str
    repeat: int
    seed: int
    cell: str
    state: str
    success: int = 0
    numbers: dict[str, float] = {}
    why: str = ""
    at: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.task, self.system, self.model, self.environment, self.repeat


class ResultLog:
    """A log that is open for one experiment; `results` are those of its cells that are good, by cell."""

    def __init__(self, path: Path, spec: Spec, planned: Sequence[Cell]) -> None:
        self._path = path
        self._synced = 0.0
        self._prints = {cell.key: fingerprint(spec, cell) for cell in planned}
        self.results: dict[tuple[str, str, str, str, int], Result] = {}
        self.broken: dict[tuple[str, str, str, str, int], Result] = {}
        look = self._look(spec)
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise SpecError(f"{path} cannot be written: {error.strerror}") from None
        try:
            self._lock()
            looks, whole = self._read()
            self._check(spec, looks, look)
            if whole < self._file.tell():
                self._file.truncate(whole)
            if not looks or looks[-1].plan != look.plan:
                self._write(look)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "ResultLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            os.fsync(self._file.fileno())

    def print_of(self, cell: Cell) -> str:
        return self._prints[cell.key]

    def append(self, result: Result) -> None:
        """Adds a result, which a crash of this process cannot lose; one of the machine can, if it is younger than
        `SYNC_SECONDS`."""
        self._write(result)
        self._take(result)

    def _lock(self) -> None:
        """Keeps other processes out until the file is closed, in whatever way this process ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SpecError(f"{self._path} is in use: this experiment runs in another process") from None

    def _look(self, spec: Spec) -> Look:
        rules = (spec.compare, spec.measures, spec.error, spec.looks)
        return Look(
            name=spec.name,
            cells=len(self._prints),
            plan=_digest(sorted(self._prints.values())),
            rules=_digest(rules),
            seed=spec.seed,
        )

    def _read(self) -> tuple[list[Look], int]:
        """The looks taken so far, and how many bytes of the file are whole lines."""
        looks: list[Look] = []
        whole = 0
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                whole += len(line)
                try:
                    read = msgspec.json.decode(line, type=Look | Result)
                except msgspec.MsgspecError as error:
                    raise SpecError(f"{self._path}, line {number}: is no line of a result log: {error}") from None
                if isinstance(read, Look):
                    looks.append(read)
                else:
                    self._keep(read, number)
        return looks, whole

    def _keep(self, result: Result, number: int) -> None:
        if self._prints.get(result.key) != result.cell:
            raise SpecError(
                f"{self._path}, line {number}: {result.task} under {result.system} was measured for another plan: "
                "name another --log, or bring the file back to what it was"
            )
        self._take(result)

    def _take(self, result: Result) -> None:
        if result.state == "broken":
            self.broken[result.key] = result
        else:
            self.broken.pop(result.key, None)
            self.results[result.key] = result

    def _check(self, spec: Spec, looks: Sequence[Look], look: Look) -> None:
        if not looks:
            return
        if looks[0].rules != look.rules:
            raise SpecError(
                f"{self._path} was begun with another comparison, measures, margins, error or looks: "
                "what is decided by is declared before, so name another --log"
            )
        if looks[-1].plan != look.plan and len(looks) >= spec.looks:
            raise SpecError(
                f"{self._path} was begun with {looks[-1].cells:,} cells, and the file now has {look.cells:,}: going on "
                f"until a verdict is welcome makes verdicts worthless, so name another --log (looks = {spec.looks} "
                "was declared; a larger number, declared before, allows more plans)"
            )

    def _write(self, line: Look | Result) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        now = time.monotonic()
        if now - self._synced >= SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = now


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]
