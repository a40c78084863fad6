"""`headrace job results --table`: a row for each item of a job in the order of its inputs, whatever became of it.

Results come in the order in which items end, and the last line of an item counts. So all of them are read before the
first row is printed, and no more is kept of one than its row shows.
"""

from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

import msgspec
from msgspec import Struct
from rich.table import Table

from orchestrator.cli.exits import DONE, say
from orchestrator.cli.progress import short
from orchestrator.cli.render import brief, cells, columns, many, print_table
from orchestrator.client.client import Client
from orchestrator.client.errors import BadAnswer
from orchestrator.jobs.record import JobLine
from orchestrator.views.jobs import LIVE_PHASES, JobView

MOST_ROWS: Final = 10_000
"""What is held in memory and may be looked at by somebody; the results themselves have every item."""

WORDS: Final = 80
"""Characters of an answer or an error that a row shows."""

_lines: Final = msgspec.json.Decoder(JobLine)


class Row(Struct, frozen=True):
    """One item. `words` are the beginning of its answer, or what went wrong."""

    origin: str
    state: str
    reason: str
    tokens: int | None
    words: str


async def show_table(client: Client, job: str) -> int:
    """Prints the table and returns the exit code. Raises `HeadraceError`."""
    rows: dict[int, Row] = {}
    rest = b""
    async with aclosing(client.results(job)) as blocks:
        async for block in blocks:
            *whole, rest = (rest + block).split(b"\n")
            for data in whole:
                take_in(rows, data)
    view = await client.job(job)
    print_table(results_table(view, rows))
    if view.received > MOST_ROWS:
        say(f"the first {MOST_ROWS:,} of {many(view.received, 'item')}; headrace job results {job} has them all")
    return DONE


def take_in(rows: dict[int, Row], data: bytes) -> None:
    """The next line of results. Raises `BadAnswer`."""
    try:
        line = _lines.decode(data)
    except msgspec.DecodeError as error:
        raise BadAnswer(f"a line of the job's results cannot be read: {error}") from error
    if line.ordinal <= MOST_ROWS:
        words = brief(line.error or line.value, WORDS)
        rows[line.ordinal] = Row(line.origin, line.state, line.reason, line.usage.total, words)


def results_table(view: JobView, rows: Mapping[int, Row]) -> Table:
    """A row for each item; those without a result are `open` while the job is live, and were never run afterwards."""
    table = columns(
        "item", "input", "state", "reason", "tokens", "answer", right=("item", "tokens"), whole=("item", "state")
    )
    missing = Row("", "open" if view.phase in LIVE_PHASES else "not run", "", None, "")
    for ordinal in range(1, min(max(view.received, *rows, 0), MOST_ROWS) + 1):
        row = rows.get(ordinal, missing)
        tokens = "" if row.tokens is None else short(row.tokens)
        table.add_row(*cells(str(ordinal), row.origin, row.state, row.reason, tokens, row.words))
    return table
