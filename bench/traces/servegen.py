"""Calls drawn from ServeGen's rates of single clients (alibaba/ServeGen, Apache-2.0): derived, not a recording.

Columns: `t_s,client,in_tok,out_tok`. A few clients make nearly all of the calls, as in the service they describe.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.traces.base import TraceCall
from bench.traces.rows import rows

COLUMNS: Final = ("t_s", "client", "in_tok", "out_tok")


def read_servegen(path: Path) -> Iterator[TraceCall]:
    """The calls in the file's order, a client as a tenant. Raises `TraceError`."""
    for row in rows(path, COLUMNS):
        yield TraceCall(
            at=row.seconds("t_s"),
            tenant=row.text("client") or "default",
            input=row.tokens("in_tok"),
            output=max(1, row.tokens("out_tok")),
        )
