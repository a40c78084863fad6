"""What a store says of runs whose daemon was killed, and what must be so whenever that was."""

from collections import Counter
from pathlib import Path

from msgspec import Struct

from agents.events import Event, RunEnded, RunResumed, ToolFinished, ToolStarted, decode
from agents.fold import fold, result_of
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.store.base import Store
from tests.kill.deeds import done


class Told(Struct):
    """A run's log and its result."""

    events: list[Event]
    result: RunResult

    @property
    def resumed(self) -> int:
        return sum(isinstance(event, RunResumed) for event in self.events)


async def all_runs(store: Store) -> dict[str, Told]:
    """All runs of sessions that have one run each."""
    runs: dict[str, Told] = {}
    after = ""
    while views := await store.sessions(after=after):
        after = views[-1].session
        for view in views:
            if not view.session.startswith("job:"):
                events = [decode(record.data) for record in await store.read(view.session)]
                last = fold(events).last
                assert last is not None
                runs[view.session] = Told(events, result_of(last))
    return runs


def hold_to_the_rules(runs: dict[str, Told], folder: Path) -> Counter[str]:
    """Every run ended well, each call has one end, and no letter went out twice. Counts what is worth knowing."""
    seen: Counter[str] = Counter()
    posted = done(folder, "posted")
    assert max(posted.values()) == 1, "a letter went out twice"
    letters: set[str] = set()
    for run, told in runs.items():
        assert told.result.reason is StopReason.FINAL_ANSWER, (run, told.result.message)
        assert sum(isinstance(event, RunEnded) for event in told.events) == 1
        started = Counter(event.key for event in told.events if isinstance(event, ToolStarted))
        once = {event.key for event in told.events if isinstance(event, ToolStarted) and not event.repeatable}
        ends = {
            f"{run}/{event.step}/{event.index}": event.outcome
            for event in told.events
            if isinstance(event, ToolFinished)
        }
        assert sum(isinstance(event, ToolFinished) for event in told.events) == len(ends) == len(started)
        assert all(started[key] == 1 for key in once), "what may not be repeated was started twice"
        unknown = {key for key, outcome in ends.items() if outcome == "unknown_effect"}
        assert unknown == set(told.result.unknown_effects) <= once
        assert {key for key in once if ends[key] == "ok"} <= set(posted)
        letters |= once
        seen["resumed"] += told.resumed
        seen["unknown effects"] += len(unknown)
        seen["calls"] += len(started)
    assert set(posted) <= letters, "a letter went out that no log announced"
    return seen
