"""Runs of a job that are open though nobody will ask for them any more."""

from collections.abc import Container
from typing import Final

from orchestrator.jobs.ports import RunsToEnd
from orchestrator.jobs.record import JobRecord
from orchestrator.store.base import RunQuery, Store

PAGE: Final = 200
"""Looked at together."""


async def cancel_open(store: Store, runs: RunsToEnd, record: JobRecord, known: Container[str] = ()) -> int:
    """Takes them all away; answers how many there were beside those that are `known`. Raises `StoreError`.

    Otherwise they would go on by themselves, under no budget of a job.
    """
    cancelled, before = 0, 0
    while True:
        query = RunQuery(tenant=record.request.tenant, job=record.job, open=True, before=before, size=PAGE)
        rows = (await store.runs(query)).rows
        for row in rows:
            await runs.cancel(row.run)
            cancelled += row.run not in known
        if len(rows) < PAGE:
            return cancelled
        before = rows[-1].number
