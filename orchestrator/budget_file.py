"""What tenants have spent, on disk: `spent.json` in the data folder, so that a restart forgives nothing.

For a daemon whose store keeps nothing itself. Where the store is durable, its ledger of calls says what was spent, and
takes over once what the file says.

It is written whole, once a second at most while something changes, and at the end. A daemon that is killed loses at
most the last second of spending; what its calls under way held is in the file as unknown, and stays spent.
"""

import datetime
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import structlog
import trio
from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.budget_periods import Spent
from orchestrator.durable import write_durably
from orchestrator.store.ledger_port import CallRow, Ledger, SpentRow

SPENT: Final = "spent.json"
VERSION: Final = 1
WRITE_SECONDS: Final = 1.0

_log = structlog.get_logger("headrace")


class SpentFileError(HeadraceError):
    """The file cannot be read: nobody knows what was spent, so a daemon with budgets does not start on a guess."""


class _Document(Struct, frozen=True):
    version: int
    spent: tuple[Spent, ...]


def read_spent(folder: Path) -> tuple[Spent, ...]:
    """What earlier daemons left in a data folder; nothing where there is no file. Raises `SpentFileError`."""
    path = folder / SPENT
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise SpentFileError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpentFileError(
            f"{path}: does not say what was spent ({error}); remove it to begin every budget anew"
        ) from None
    if document.version != VERSION:
        raise SpentFileError(f"{path}: version {document.version} of this file is not known here, only {VERSION}")
    return document.spent


async def _write_in_thread(path: Path, data: bytes) -> None:
    await trio.to_thread.run_sync(write_durably, path, data)


def as_row(spent: Spent) -> SpentRow:
    """A period as if it were a day: one that counts in every period that its name begins with."""
    return SpentRow(
        tenant=spent.tenant,
        day="" if spent.period == "ever" else spent.period,
        tokens=spent.tokens,
        micro_dollars=spent.micro_dollars,
        unknown_tokens=spent.unknown_tokens,
        unknown_micro_dollars=spent.unknown_micro_dollars,
    )


async def carry_over(folder: Path, ledger: Ledger, wall: float) -> None:
    """Takes what an earlier release left in a data folder into the ledger, and removes the file.

    Killed in between it does the same again, which changes nothing. Raises `SpentFileError`, `StoreError`.
    """
    spent = read_spent(folder)
    if spent:
        ledger.write([_as_call(record, wall) for record in spent])
        await ledger.flush()
        _log.info("what tenants had spent is in the store now", file=str(folder / SPENT), tenants=len(spent))
    with suppress(OSError):
        (folder / SPENT).unlink(missing_ok=True)


def _as_call(spent: Spent, wall: float) -> CallRow:
    at = wall
    if spent.period != "ever":
        first = f"{spent.period}-01" if len(spent.period) == len("2026-01") else spent.period
        at = datetime.datetime.fromisoformat(f"{first}T12:00+00:00").timestamp()
    return CallRow(
        key=f"{SPENT}/{spent.tenant}/{spent.period}",
        tenant=spent.tenant,
        arrived=at,
        ended=at,
        outcome="carried_over",
        input=spent.tokens,
        output=0,
        micro_dollars=spent.micro_dollars,
        unknown_tokens=spent.unknown_tokens,
        unknown_micro_dollars=spent.unknown_micro_dollars,
    )


class SpentFile:
    """Keeps what `spent` says in a data folder. A disk that fails is told in the log, once until it works again.

    `write` replaces a file durably, without holding up the loop; it raises `OSError`.
    """

    def __init__(
        self,
        folder: Path,
        spent: Callable[[], Iterable[Spent]],
        write: Callable[[Path, bytes], Awaitable[None]] = _write_in_thread,
    ) -> None:
        self._path = folder / SPENT
        self._spent = spent
        self._write = write
        self._written = b""
        self._failing = False

    async def keep(self) -> None:
        """Writes whenever something has changed, until it is cancelled; then once more, whatever is under way."""
        try:
            while True:
                await trio.sleep(WRITE_SECONDS)
                await self.write()
        finally:
            with trio.CancelScope(shield=True):
                await self.write()

    async def write(self) -> None:
        """Writes, unless the file says so already."""
        spent = tuple(self._spent())
        data = msgspec.json.encode(_Document(VERSION, spent)) + b"\n"
        if data == self._written or (not spent and not self._written):
            return
        try:
            await self._write(self._path, data)
        except OSError as error:
            if not self._failing:
                _log.error("what tenants have spent cannot be kept", file=str(self._path), reason=str(error))
            self._failing = True
        else:
            self._written, self._failing = data, False
