"""The rules that hold for every runtime, each as a function that raises where one is broken.

Each is tried on a runtime of its own. `RULES` has them by name.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, get_args

import trio

from agents.amounts import Limits
from agents.budget import Scope
from agents.errors import HeadraceError, InvalidLimits
from agents.lifecycle import State, StopReason
from agents.observation import Observation, validate_observation
from agents.requests import NobodyToAsk
from agents.result import RunResult
from agents.runtime import DuplicateRun, Need, UnknownRun, Unsupported, validate_capabilities
from agents.runtime_material import ANSWER, FAIL, FOREVER, LOOK, Case, RuleBroken

Rule = Callable[[Case], Awaitable[None]]


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuleBroken(otherwise)


async def capabilities(case: Case) -> None:
    """What it can do is said plainly, at once, and not taken back while a run lives on it."""
    before = case.runtime.capabilities()
    validate_capabilities(None, before)
    promised: frozenset[Need] = frozenset(need for need in get_args(Need) if getattr(before, need))
    run = await case.prompt("start", case.runtime.start(case.looker, LOOK, needs=promised))
    validate_capabilities(before, case.runtime.capabilities())
    await case.result(run)
    validate_capabilities(before, case.runtime.capabilities())


async def start_returns_at_once(case: Case) -> None:
    """The run is known as soon as `start` returns, has the id that was asked for, and has not ended by then."""
    given = await case.start()
    _must(bool(given), "start gave no id")
    _must(not (await case.poll(given)).terminal, "start returned after the run had ended")
    _must(await case.start(run="mine") == "mine", "a run must have the id that was asked for")
    _must(await case.start() != given, "two runs were given the same id")
    await case.poll("mine")


async def observations_go_forward(case: Case) -> None:
    """A run is pending, then running, then done; nothing goes back, and what it used is what its result says."""
    run = await case.start()
    seen = await case.watch(run)
    _must(any(one.observed == "running" for one in seen), "the run was never seen running")
    result = await case.result(run)
    _must(seen[-1].usage == result.usage, f"polls say {seen[-1].usage}, the result {result.usage}")
    _must((result.run, result.agent) == (run, case.looker.name), f"the result is of {result.run} of {result.agent}")
    ended = (result.reason, result.answer, result.rounds, result.tool_calls)
    expected = (StopReason.FINAL_ANSWER, ANSWER, 2, 1)
    _must(ended == expected, f"the run must end as {expected}, not as {ended}")


async def ends_are_named(case: Case) -> None:
    """A run that fails or reaches a limit has ended with its own reason, and is no success."""
    for task, agent, reason in (
        (FAIL, "looker", StopReason.PLANNER_ERROR),
        (FOREVER, "limited", StopReason.MAX_ROUNDS),
    ):
        run = await case.start(task, agent=agent)
        last = (await case.watch(run))[-1]
        _must(last.observed == "failed", f"a run that ends as {reason} is failed, not {last.observed}")
        _must(last.reason is reason, f"the run must end as {reason}, not as {last.reason}")
        await case.result(run)


async def unknown_is_unknown(case: Case) -> None:
    """An id that was never given out is `unknown_run` to all calls, and never pending."""
    await case.unknown("nobody")
    await case.start(run="somebody")
    await case.unknown("nobody")


async def cancelled_in_every_phase(case: Case) -> None:
    """A cancellation is acknowledged at once, whatever the run is doing, and ends it soon as `cancelled`."""
    if await _refuses_to_cancel(case):
        return
    for paces in (0.0, 0.5, 1.5, 2.5):
        for reason in (StopReason.CANCELLED, StopReason.INTERRUPTED):
            run = await case.start()
            await trio.sleep(paces * case.pace)
            before = await case.poll(run)
            said: Literal["cancelled", "interrupted"] = "interrupted" if reason == "interrupted" else "cancelled"
            acknowledged = await case.prompt("cancel", case.runtime.cancel(run, said))
            validate_observation(before, acknowledged)
            _must(acknowledged.run == run, f"run {run} was cancelled, and the answer is about {acknowledged.run}")
            with trio.move_on_after(case.pace) as soon:
                await case.runtime.wait(run)
            _must(not soon.cancelled_caught, f"a run cancelled after {paces} paces goes on")
            last = (await case.watch(run, acknowledged))[-1]
            _must(last.reason is reason, f"a run cancelled after {paces} paces must end as {reason}, not {last.reason}")


async def cancelling_what_has_ended_succeeds(case: Case) -> None:
    """It changes nothing, and the evidence stays readable; so does cancelling twice."""
    if not case.runtime.capabilities().cancels:
        return
    run = await case.start()
    result = await case.result(run)
    ended = await case.poll(run)
    for _ in range(2):
        try:
            acknowledged = await case.prompt("cancel", case.runtime.cancel(run))
        except HeadraceError as error:
            raise RuleBroken(f"cancelling a finished run must succeed, and it fails: {error}") from error
        _must(acknowledged == ended, f"cancelling a finished run says {acknowledged} where it was {ended}")
        _must(await case.result(run) == result, "cancelling a finished run has changed its result")


async def refused_before_anything_exists(case: Case) -> None:
    """What it cannot do, and limits that make no sense, are refused, and the id stays unknown."""
    said = case.runtime.capabilities()
    for need in get_args(Need):
        if not getattr(said, need):
            needs: frozenset[Need] = frozenset({need})
            await _refused(case, Unsupported, f"it cannot do {need}", needs=needs)
    poor = Scope("job", Limits(micro_dollars=5))
    await _refused(case, InvalidLimits, "a money limit on a model without a price", budget=poor)


async def ids_are_given_once(case: Case) -> None:
    """A second run of an id is refused, also when the first has ended, which it never disturbs."""
    await case.start(run="mine")
    for _ in range(2):
        try:
            await case.start(FAIL, run="mine")
        except DuplicateRun:
            pass
        else:
            raise RuleBroken("there is a run mine already, and a second one was started")
        _must((await case.result("mine")).ok, "a second run of an id has disturbed the first")


async def nothing_runs_against_peoples_word(case: Case) -> None:
    """Where people decide on a tool, the run is refused before it exists, or waits for them, and can be cancelled."""
    try:
        run = await case.start("touch", agent="toucher", run="asking")
    except NobodyToAsk:
        await case.unknown("asking")
        return
    await trio.sleep(5 * case.pace)
    seen = await case.poll(run)
    _must(seen.state is State.WAITING_APPROVAL, f"a run that must wait for people is {seen.state}")
    if case.runtime.capabilities().cancels:
        await case.prompt("cancel", case.runtime.cancel(run))
        _must((await case.watch(run, seen))[-1].reason is StopReason.CANCELLED, "a waiting run was not cancelled")
    _must(not case.material.touched, "a tool call that nobody approved was made")


async def many_at_once(case: Case) -> None:
    """Of many runs at the same time each ends, as itself; whoever waits may leave, and several may wait for one."""
    runs = [await case.start() for _ in range(20)]
    _must(len(set(runs)) == len(runs), "several runs were given the same id")
    with trio.move_on_after(case.pace / 2):
        await case.runtime.wait(runs[0])
    results: list[RunResult] = []

    async def wait(run: str) -> None:
        results.append(await case.result(run))

    async with trio.open_nursery() as nursery:
        for run in [*runs, runs[0]]:
            nursery.start_soon(wait, run)
    _must(all(result.ok for result in results), "one of many runs did not complete")
    _must(sorted(result.run for result in results) == sorted([*runs, runs[0]]), "a result is another run's")


async def nothing_is_lost_in_silence(case: Case) -> None:
    """After its process is gone a run goes on, where that was promised; else it is said that it is over.

    It is never shown running for ever. What had ended stays as it was, where runs survive.
    """
    if case.restart is None:
        return
    survives = case.runtime.capabilities().survives_restart
    ended = await case.start(run="ended")
    result = await case.result(ended)
    opened = await case.start(run="open")
    await trio.sleep(1.5 * case.pace)
    before = await case.poll(opened)
    case.runtime = await case.restart()
    if not survives:
        await _over_or_unknown(case, opened, before)
        return
    _must(await case.result(ended) == result, "a run that had ended is another one after a restart")
    last = (await case.watch(opened, before))[-1]
    _must(last.reason is StopReason.FINAL_ANSWER, f"a run that survives a restart must go on, not end as {last.reason}")
    _must((await case.result(opened)).answer == ANSWER, "a run that survived a restart has lost its answer")


async def _over_or_unknown(case: Case, run: str, before: Observation) -> None:
    try:
        seen = await case.watch(run, before)
    except UnknownRun:
        await case.unknown(run)
        return
    except RuleBroken as error:
        raise RuleBroken(f"nothing drives it any more, and yet {error}") from error
    _must(seen[-1].reason is not StopReason.FINAL_ANSWER, "a run that nothing drives has completed")
    await case.result(run)


async def _refuses_to_cancel(case: Case) -> bool:
    """Whether it says that it cannot cancel, and keeps to that."""
    if case.runtime.capabilities().cancels:
        return False
    run = await case.start()
    try:
        await case.runtime.cancel(run)
    except Unsupported:
        return True
    raise RuleBroken("it says that it cannot cancel, and yet acknowledges a cancellation")


async def _refused(
    case: Case,
    error: type[HeadraceError],
    why: str,
    *,
    needs: frozenset[Need] = frozenset(),
    budget: Scope | None = None,
) -> None:
    try:
        await case.prompt("start", case.runtime.start(case.looker, LOOK, run="mine", needs=needs, budget=budget))
    except error:
        await case.unknown("mine")
    else:
        raise RuleBroken(f"{why}: start must raise {error.__name__}, and a run was started")


RULES: Final[Mapping[str, Rule]] = {
    rule.__name__: rule
    for rule in (
        capabilities,
        start_returns_at_once,
        observations_go_forward,
        ends_are_named,
        unknown_is_unknown,
        cancelled_in_every_phase,
        cancelling_what_has_ended_succeeds,
        refused_before_anything_exists,
        ids_are_given_once,
        nothing_runs_against_peoples_word,
        many_at_once,
        nothing_is_lost_in_silence,
    )
}
