"""Debates at work: runs under one budget, with models that answer badly, fail or are cut off."""

from collections.abc import Callable

import msgspec
import pytest
import trio

from agents.amounts import NOTHING, Limits
from agents.budget import Scope
from agents.debate import Debate
from agents.debate_rounds import Malformed
from agents.debate_run import DebateResult, run_debate
from agents.errors import InvalidLimits, Refused, Throttled
from agents.journal import MemoryJournal
from agents.lifecycle import StopReason
from agents.messages import Message
from agents.scripted import Answer, ScriptedModel, say
from agents.spec import AgentSpec
from tests.agents.whole import assert_whole

PROPOSES = say('{"proposal": "so"}')
QUIET = say('{"new": [], "reopen": []}')


def one_after_the_other(*answers: Answer) -> Callable[[tuple[Message, ...]], Answer]:
    """The answers in order, whatever is asked; the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def claim(text: str) -> Message:
    return say(msgspec.json.encode({"new": [{"text": text}], "reopen": []}).decode())


async def held(
    *answers: Answer,
    limits: Limits | None = None,
    budget: Scope | None = None,
    max_tokens: int = 100,
    journal: MemoryJournal | None = None,
    latency: float = 0.0,
    on_round: Callable[[Debate], None] = lambda _: None,
) -> DebateResult:
    agents = [AgentSpec(name=name, model="m", max_tokens=max_tokens) for name in ("author", "first", "second")]
    return await run_debate(
        "a subject",
        proposer=agents[0],
        critics=agents[1:],
        model=ScriptedModel(one_after_the_other(*answers), latency=latency),
        journal=MemoryJournal() if journal is None else journal,
        limits=limits or Limits(),
        budget=budget,
        name="d",
        on_round=on_round,
    )


async def test_each_round_is_a_whole_run() -> None:
    """A debate that converges leaves one closed run for each round, and was told of round by round."""
    journal = MemoryJournal()
    told: list[int] = []
    result = await held(PROPOSES, QUIET, journal=journal, on_round=lambda debate: told.append(len(debate.turns)))
    assert result.ok
    assert told == [1, 2, 3, 4]
    for number in told:
        assert_whole(journal.of(f"d.{number}"))
    assert {event.run for event in journal.events} == {"d.1", "d.2", "d.3", "d.4"}


async def test_one_budget_is_shared_and_never_overshot() -> None:
    """A debate without end spends most of its budget, not a token more, and its job has the same books."""
    job = Scope("job")
    answers = [PROPOSES]
    for number in range(1, 100):
        answers += [
            claim(f"claim {number}"),
            say(f'{{"proposal": "so", "answers": [{{"claim": "C{number}", "verdict": "reject", "why": "no"}}]}}'),
        ]
    result = await held(*answers, limits=Limits(tokens=8_000), budget=job)
    assert result.reason is StopReason.TOKEN_BUDGET_EXCEEDED
    assert "debate allows 8000 tokens" in result.message
    assert 4_000 < result.used.tokens <= 8_000
    assert job.used == result.used
    assert job.reserved == NOTHING


async def test_a_job_s_budget_ends_it_at_once() -> None:
    """Where a scope above the debate is spent, nobody is asked again."""
    result = await held(PROPOSES, QUIET, budget=Scope("job", Limits(rounds=2)))
    assert (result.reason, len(result.debate.turns)) == (StopReason.MAX_ROUNDS, 3)
    assert "job allows 2 rounds" in result.message


async def test_bad_answers_are_no_consent() -> None:
    """Prose, an empty answer and one cut off are malformed rounds; with valid ones between them the debate goes on."""
    long = say('{"new": [], "reopen": []' + " " * 500 + "}")
    result = await held(PROPOSES, say("Fine!"), QUIET, say(" "), QUIET, long, QUIET, QUIET)
    assert result.ok
    assert [isinstance(turn.content, Malformed) for turn in result.debate.turns] == [
        False, True, False, True, False, True, False, False,
    ]  # fmt: skip


async def test_two_bad_answers_end_it() -> None:
    """Two malformed answers in a row end the debate, and it says what was wrong with the last."""
    result = await held(PROPOSES, QUIET, QUIET, say("Fine!"), say("Really!"))
    assert result.reason is StopReason.MALFORMED_OUTPUT
    assert "JSON is malformed" in result.message


async def test_failures_are_no_consent() -> None:
    """A model that is overloaded once is asked again, twice ends the debate, and a refused key at once."""
    busy, refused = Throttled("busy"), Refused("no such key", status=401)
    once = await held(PROPOSES, QUIET, QUIET, busy, QUIET, QUIET)
    assert (once.ok, len(once.debate.turns)) == (True, 6)
    assert (await held(PROPOSES, QUIET, QUIET, busy)).reason is StopReason.OVERLOADED
    key = await held(PROPOSES, refused, QUIET)
    assert (key.reason, len(key.debate.turns)) == (StopReason.PLANNER_ERROR, 2)


async def test_time_is_shared(autojump_clock: trio.testing.MockClock) -> None:
    """The debate's timeout counts over all its rounds."""
    result = await held(PROPOSES, QUIET, limits=Limits(timeout=2.5), latency=1.0)
    assert result.reason is StopReason.TIMEOUT
    assert len(result.debate.turns) == 3
    assert trio.current_time() == pytest.approx(2.5)


async def test_cancelling_the_caller_closes_the_run(autojump_clock: trio.testing.MockClock) -> None:
    """A cancelled debate leaves no open run and nothing reserved."""
    job, journal = Scope("job"), MemoryJournal()
    with trio.move_on_after(1.5) as scope:
        await held(PROPOSES, QUIET, budget=job, journal=journal, latency=1.0)
    assert scope.cancelled_caught
    assert_whole(journal.of("d.2"))
    assert job.reserved == NOTHING


async def test_money_without_a_price_is_refused_before_anything_is_asked() -> None:
    """A debate whose money is limited and whose models have no price does not begin."""
    journal = MemoryJournal()
    with pytest.raises(InvalidLimits, match="no price"):
        await held(PROPOSES, QUIET, limits=Limits(micro_dollars=1), journal=journal)
    assert not journal.events
