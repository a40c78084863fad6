"""Runs whose process is really killed, on each side of every append, call and effect, and taken up by the next."""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from msgspec import Struct

from agents.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunEnded,
    ToolFinished,
    ToolStarted,
    decode,
)
from agents.fold import fold, result_of, transcript
from agents.lifecycle import StopReason
from agents.result import RunResult
from orchestrator.store.sqlite import open_sqlite

VICTIM = Path(__file__).with_name("victim.py")
ROOT = Path(__file__).resolve().parents[2]
KILLED = -9
RUN = "r"
MOST_POINTS = 200

EXPECTED = {
    "letters": StopReason.FINAL_ANSWER,
    "few_tools": StopReason.MAX_TOOL_CALLS,
    "few_rounds": StopReason.MAX_ROUNDS,
}


class Lives:
    """One warm parent that forks a life per order."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", str(VICTIM)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def live(self, folder: Path, scenario: str, kill_at: int = 0, later: float = 0.0) -> int:
        """The exit status of a life; `KILLED` where the point was reached."""
        order = {"folder": str(folder), "scenario": scenario, "kill_at": kill_at, "later": later}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        status: int = json.loads(self._process.stdout.readline())["status"]
        assert status in (0, KILLED), f"a life failed by itself: exit status {status}"
        return status

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    parent = Lives()
    yield parent
    parent.end()


class After(Struct):
    """What is left when the run has ended."""

    events: list[Event]
    result: RunResult
    posted: Counter[str]
    put: Counter[str]
    calls: Counter[str]

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


async def read_all(folder: Path) -> list[Event]:
    async with open_sqlite(folder / "store.db") as store:
        return [decode(record.data) for record in await store.read(RUN)]


def lines(path: Path) -> Counter[str]:
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def look(folder: Path) -> After:
    events = trio.run(read_all, folder)
    last = fold(events).last
    assert last is not None
    return After(events, result_of(last), lines(folder / "posted"), lines(folder / "put"), lines(folder / "calls"))


def hold_to_the_rules(after: After, scenario: str) -> None:
    """What must be so whenever and however often the process was killed."""
    assert len(after.of(RunEnded)) == 1
    assert after.result.reason is EXPECTED[scenario]
    started: Counter[str] = Counter(event.key for event in after.of(ToolStarted))  # type: ignore[attr-defined]
    once = {event.key for event in after.of(ToolStarted) if not event.repeatable}  # type: ignore[attr-defined]
    finished = {
        f"{event.run}/{event.step}/{event.index}": event
        for event in after.of(ToolFinished)
        if isinstance(event, ToolFinished)
    }
    assert len(after.of(ToolFinished)) == len(finished) == len(started), "each started call has one end"
    assert all(started[key] == 1 for key in once), "what may not be repeated was started once"
    assert max(after.posted.values(), default=0) <= 1, "a letter went out twice"
    assert set(after.posted) <= once
    told = "\n".join(message.content for message in after.result.messages if message.role == "tool")
    for key, event in finished.items():
        match event.outcome:
            case "unknown_effect":
                assert key in once
                assert key in after.result.unknown_effects
                assert event.content in told, "the model was not told"
            case "ok":
                assert after.posted[key] == 1 or after.put[key] >= 1 or event.name == "look"
            case other:
                pytest.fail(f"nothing here fails, but {key} ended as {other}")
    assert after.result.tool_calls == len(started)
    assert_transcript_is_whole(after)
    assert_calls_are_accounted_for(after)


def assert_transcript_is_whole(after: After) -> None:
    asked = [call.id for message in after.result.messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in after.result.messages if message.role == "tool"]
    assert len(asked) == len(answered)


def assert_calls_are_accounted_for(after: After) -> None:
    requested = [event.key for event in after.of(ModelRequested) if isinstance(event, ModelRequested)]
    assert len(set(requested)) == len(requested), "a key was used for two calls"
    assert set(after.calls) <= set(requested), "a call went out that the log did not announce"
    assert max(after.calls.values()) == 1, "a call went out twice under one key"
    ends = [*after.of(ModelReplied), *after.of(ModelFailed)]
    assert len(ends) == len(requested), "each announced call has one end"
    lost = [event for event in after.of(ModelFailed) if isinstance(event, ModelFailed)]
    assert all(event.kind == "lost" for event in lost)
    assert after.result.unknown_tokens == sum(event.unknown_tokens for event in lost)


@pytest.mark.parametrize("scenario", EXPECTED)
def test_a_run_killed_at_any_point_is_taken_up_and_ends_as_expected(
    lives: Lives, tmp_path: Path, scenario: str
) -> None:
    """Killed once, at each point in turn: nothing that may not be repeated is repeated, and nothing is left undone."""
    seen: Counter[str] = Counter()
    for point in range(1, MOST_POINTS):
        folder = tmp_path / str(point)
        folder.mkdir()
        if lives.live(folder, scenario, kill_at=point) == 0:
            break
        assert lives.live(folder, scenario) == 0
        after = look(folder)
        hold_to_the_rules(after, scenario)
        seen["lost calls"] += bool(after.result.unknown_tokens)
        seen["unknown effects"] += bool(after.result.unknown_effects)
        seen["repeated under its key"] += max(after.put.values(), default=0) > 1
    else:
        pytest.fail("the run never got to its end")
    whole = look(folder)
    hold_to_the_rules(whole, scenario)
    assert whole.result.unknown_effects == ()
    assert whole.result.unknown_tokens == 0
    assert point > 10, "that many points there are at least"
    assert seen["lost calls"]
    assert seen["unknown effects"] or not whole.posted, "no kill was between a start and its end"
    assert seen["repeated under its key"] or not whole.put, "no kill was between a start and its end"


@pytest.mark.parametrize("seed", range(12))
def test_a_run_killed_several_times_ends_as_expected_all_the_same(lives: Lives, tmp_path: Path, seed: int) -> None:
    """Lives that end one after the other at points of their own: as long as the run gets on, it ends as it should."""
    chance = random.Random(seed)
    for _ in range(3):
        lives.live(tmp_path, "letters", kill_at=chance.randint(4, 30))
    assert lives.live(tmp_path, "letters") == 0
    after = look(tmp_path)
    if after.result.reason is not StopReason.INTERNAL_ERROR:
        hold_to_the_rules(after, "letters")
    else:
        assert "resume" in after.result.message or "taken up" in after.result.message
        assert max(after.posted.values(), default=0) <= 1


def test_a_run_that_never_gets_on_is_given_up(lives: Lives, tmp_path: Path) -> None:
    """Executors that all die before a new step is sealed are not sent after each other for ever."""
    assert lives.live(tmp_path, "letters", kill_at=5) == KILLED
    for _ in range(6):
        if lives.live(tmp_path, "letters", kill_at=6) == 0:
            break
    lives.live(tmp_path, "letters")
    assert look(tmp_path).result.reason is StopReason.INTERNAL_ERROR


def test_time_in_which_nobody_worked_counts(lives: Lives, tmp_path: Path) -> None:
    """A deadline that passed while no process was there is over when the next one begins: a restart grants no time."""
    points = 0
    while True:
        points += 1
        folder = tmp_path / str(points)
        folder.mkdir()
        if lives.live(folder, "timeout", kill_at=points) == 0:
            break
        assert lives.live(folder, "timeout", later=61.0) == 0
        result = look(folder).result
        begun = any(event.__class__.__name__ == "RunStarted" for event in look(folder).events[:-1])
        if begun and points > 6 and result.reason is not StopReason.FINAL_ANSWER:
            assert result.reason is StopReason.TIMEOUT
            assert max(lines(folder / "posted").values(), default=0) <= 1
            return
    pytest.fail("no life was killed between the start and the end")


def test_a_transcript_from_the_log_is_what_the_run_had(lives: Lives, tmp_path: Path) -> None:
    """What a run's result says of its talk can be made again from its log alone."""
    assert lives.live(tmp_path, "letters") == 0
    after = look(tmp_path)
    last = fold(after.events).last
    assert last is not None
    assert transcript(last) == after.result.messages
