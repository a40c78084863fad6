"""Any trace by what its first bytes say it is."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bench.traces import azure, burstgpt, mooncake, servegen, sessions, vtc
from bench.traces.base import TraceCall, TraceError
from bench.traces.ledger import calls_of, read_ledger, read_ledger_lines
from bench.traces.rows import text_of

Reader = Callable[[Path], Iterable[TraceCall]]

_TABLES: Final[tuple[tuple[str, tuple[str, ...], Reader], ...]] = (
    ("azure", azure.COLUMNS, azure.read_azure),
    ("burstgpt", burstgpt.COLUMNS, burstgpt.read_burstgpt),
    ("mooncake", mooncake.COLUMNS, mooncake.read_mooncake),
    ("servegen", servegen.COLUMNS, servegen.read_servegen),
    ("vtc", vtc.COLUMNS, vtc.read_vtc),
)
_SQLITE: Final = b"SQLite format 3\0"
_LONGEST: Final = 10_000_000


class Trace(Struct, frozen=True):
    """A trace in memory: which format it has, and its calls in the order of their arrival, the first at 0."""

    format: str
    calls: tuple[TraceCall, ...]

    @property
    def span(self) -> float:
        """Seconds from the first call to the last."""
        return self.calls[-1].at if self.calls else 0.0


def read_trace(path: Path) -> Trace:
    """The calls of a file whatever its format. Raises `TraceError`, also where it holds no calls to be played."""
    name, reader = _reader(path)
    calls = []
    for call in reader(path):
        calls.append(call)
        if len(calls) > _LONGEST:
            raise TraceError(path, None, f"has more than {_LONGEST:,} calls")
    if not calls:
        raise TraceError(path, None, "has no calls that were answered")
    calls.sort(key=lambda call: call.at)
    first = calls[0].at
    return Trace(name, tuple(replace(call, at=call.at - first) if first else call for call in calls))


def _reader(path: Path) -> tuple[str, Reader]:
    if path.is_dir() or _begins(path) == _SQLITE:
        return "ledger", _from_store
    with text_of(path) as file:
        first = file.readline(65_536).lstrip("\ufeff").strip()
    if first.startswith("{"):
        return _of_lines(path, first)
    columns = {column.strip() for column in first.split(",")}
    for name, needed, reader in _TABLES:
        if columns.issuperset(needed):
            return name, reader
    if columns.issuperset(sessions.COLUMNS):
        raise TraceError(
            path, None, "holds sessions, whose calls wait for one another: `headrace-bench agents` plays them"
        )
    forms = "; ".join(f"{name}: {','.join(needed)}" for name, needed, _ in _TABLES)
    raise TraceError(path, 1, f"names the columns of no trace that is known. {forms}")


def _of_lines(path: Path, first: str) -> tuple[str, Reader]:
    try:
        fields = msgspec.json.decode(first, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise TraceError(path, 1, f"is not a JSON object: {error}") from None
    if {"timestamp", "input_length", "output_length"} <= fields.keys():
        return "mooncake", mooncake.read_mooncake_lines
    if {"key", "tenant"} <= fields.keys():
        return "ledger", lambda path: calls_of(read_ledger_lines(path))
    raise TraceError(path, 1, "is neither a call of Mooncake's trace nor a row of a ledger")


def _from_store(path: Path) -> Iterator[TraceCall]:
    return calls_of(read_ledger(path))


def _begins(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE))
    except OSError as error:
        raise TraceError(path, None, f"cannot be read: {error.strerror or error}") from None
