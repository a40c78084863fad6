"""The real trace of the VTC paper's artifact (Ying1123/VTC-artifact, Apache-2.0).

Columns: `req_time_s,client,prompt_len,output_len`.
1,500 requests of 27 clients within 600 s, drawn from LMSYS' chat arena. The lengths are those of Llama 2's tokenizer.
Clients are named after the adapter that each had there; only the number at its end tells them apart.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.traces.base import TraceCall
from bench.traces.rows import rows

COLUMNS: Final = ("req_time_s", "client", "prompt_len", "output_len")


def read_vtc(path: Path) -> Iterator[TraceCall]:
    """The calls in the file's order, a client as a tenant. Raises `TraceError`."""
    for row in rows(path, COLUMNS):
        client = row.text("client")
        if not client:
            raise row.bad("client", "a client's name")
        yield TraceCall(
            at=row.seconds("req_time_s"),
            tenant=client.rpartition("-")[2] or client,
            input=row.tokens("prompt_len"),
            output=max(1, row.tokens("output_len")),
        )
