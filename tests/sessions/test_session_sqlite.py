"""Runs over a real file: killed in the middle, and taken up by the next process's service."""

from pathlib import Path

import trio

from agents.scripted import in_turn, say
from orchestrator.runs.service import RunService
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.runs import RunRequest
from tests.runs.lasting import Link
from tests.runs.running import CATALOGUE, SEEKER, ScriptedModels

RUNS = 50


async def test_what_is_open_in_the_file_goes_on(tmp_path: Path) -> None:
    """Fifty runs in their model calls when the store is torn away: all of them end with the next service, and each has
    one lost call in the ledger.
    """
    path = tmp_path / "sessions.db"
    with trio.fail_after(60):
        async with open_sqlite(path) as store, trio.open_nursery() as nursery:
            link = Link(store)  # type: ignore[arg-type]
            models = ScriptedModels(in_turn(say("never")), 1000.0)
            first = RunService(nursery, models=models, catalogue=lambda: CATALOGUE, store=link)  # type: ignore[arg-type]
            await first.recover()
            for ordinal in range(RUNS):
                await first.start(RunRequest(task="x", who=SEEKER, run=f"r{ordinal}"))
            while first.statistics().states.get("waiting_model") != RUNS:
                await trio.lowlevel.checkpoint()
            link.broken = True
            nursery.cancel_scope.cancel()
        async with open_sqlite(path) as store, trio.open_nursery() as nursery:
            models = ScriptedModels(in_turn(say("done")), 0.0)
            second = RunService(nursery, models=models, catalogue=lambda: CATALOGUE, store=store)
            assert await second.recover() == RUNS
            assert await second.states() == {"running": RUNS}
            assert await second.resume_rest() == RUNS
            assert await second.drain() == 0
            assert await second.states() == {"completed": RUNS}
            page = await second.page(observed=frozenset({"done"}), size=10)
            assert (page.total, len(page.runs), page.next) == (RUNS, 10, page.next)
            detail = await second.detail("r7")
            assert (detail.answer, detail.unknown_tokens > 0) == ("done", True)
            lost = [row.key for row in await store.ledger.calls() if row.outcome == "lost"]
            assert sorted(lost) == sorted(f"r{ordinal}/1/1" for ordinal in range(RUNS))
            await second.end_all()
