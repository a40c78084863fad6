"""Runtimes that are bad on purpose, and what the suite says of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from agents.runtime_material import Material, Subject
from agents.runtime_suite import RULES, check_runtime
from tests.runtime import bad_runtimes as bad

CAUGHT = [
    (bad.GoesBack, "observations_go_forward", "went back from running to pending"),
    (bad.ForgetsUsage, "observations_go_forward", "settled input tokens shrank"),
    (bad.ChangesItsEnd, "observations_go_forward", "had ended as completed (final_answer) and is now failed"),
    (bad.FailsToCancelTheEnded, "cancelling_what_has_ended_succeeds", "must succeed, and it fails: the run is over"),
    (bad.AlwaysPending, "unknown_is_unknown", "nobody knows run nobody, and poll gives queued"),
    (bad.LosesInSilence, "nothing_is_lost_in_silence", "yet run open is waiting_tool and never ends"),
    (bad.PromisesToSurvive, "nothing_is_lost_in_silence", "must go on, not end as cancelled"),
    (bad.TakesBack, "capabilities", "cancels was promised before"),
    (bad.RunsFirst, "start_returns_at_once", "start took longer than"),
    (bad.WaitsInPoll, "observations_go_forward", "poll took longer than"),
    (bad.CreatesThenRefuses, "refused_before_anything_exists", "nobody knows run mine, and poll gives"),
    (bad.CancelsTheWrongWay, "cancelled_in_every_phase", "must end as cancelled, not interrupted"),
    (bad.NeverCancels, "cancelled_in_every_phase", "a run cancelled after 0.0 paces goes on"),
    (bad.StartsTwice, "ids_are_given_once", "a second one was started"),
    (bad.WaitsForEver, "observations_go_forward", "or waiting for it does not"),
    (bad.MistakesItsEnds, "ends_are_named", "must end as planner_error, not as max_rounds"),
    (bad.AsksNobody, "nothing_runs_against_peoples_word", "must wait for people is completed"),
    (bad.WaiterTakesRunAway, "many_at_once", "one of many runs did not complete"),
    (bad.AnotherResult, "observations_go_forward", "wait and poll differ"),
]


@pytest.mark.parametrize(("runtime", "rule", "message"), CAUGHT, ids=[runtime.__name__ for runtime, _, _ in CAUGHT])
async def test_a_bad_runtime_is_caught(
    runtime: type[bad.Good], rule: str, message: str, autojump_clock: trio.testing.MockClock
) -> None:
    """Each is caught by the rule that it breaks, and told what it did."""
    found = {violation.rule: violation.message for violation in await check_runtime(bad.made_bad(runtime))}
    assert rule in found, found
    assert message in found[rule]


async def test_what_is_not_bad_is_not_caught(autojump_clock: trio.testing.MockClock) -> None:
    """The same wrapper, passing all on, breaks nothing."""
    assert await check_runtime(bad.made_bad(bad.Good)) == []


async def test_a_runtime_that_cannot_be_opened_or_left_is_told_of(autojump_clock: trio.testing.MockClock) -> None:
    """An error there is a violation, and so is a runtime that never lets go, or takes its user with it."""

    @asynccontextmanager
    async def broken(material: Material) -> AsyncIterator[Subject]:
        raise OSError("no such thing")
        yield

    @asynccontextmanager
    async def clinging(material: Material) -> AsyncIterator[Subject]:
        async with bad.local(material) as subject:
            yield subject
            await trio.sleep_forever()

    @asynccontextmanager
    async def taking(material: Material) -> AsyncIterator[Subject]:
        async with bad.local(material) as subject:
            with trio.CancelScope() as scope:
                scope.cancel()
                yield subject

    assert "no such thing" in str((await check_runtime(broken, only=["capabilities"]))[0])
    violations = await check_runtime(clinging, only=["capabilities"])
    assert [str(one) for one in violations] == ["capabilities: a call, or leaving the runtime, takes for ever"]
    assert "cancelled the task" in str((await check_runtime(taking, only=["capabilities"]))[0])


async def test_a_runtime_that_cannot_cancel_may_say_so(autojump_clock: trio.testing.MockClock) -> None:
    """The suite asks no more of a runtime than it promises, but holds it to its no."""
    honest, lying = bad.made_bad(bad.CannotCancel), bad.made_bad(bad.SaysItCannotCancel)
    assert await check_runtime(honest) == []
    assert {violation.rule for violation in await check_runtime(lying)} == {
        "cancelled_in_every_phase",
        "refused_before_anything_exists",
    }


def test_each_rule_catches_somebody() -> None:
    """No rule is there for show."""
    assert {rule for _, rule, _ in CAUGHT} == set(RULES)
