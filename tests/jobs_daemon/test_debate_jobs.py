"""Jobs that are a debate: rounds with a line each, how they end, and what outlives a daemon."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio

from agents.debate_transcript import transcript
from agents.errors import InvalidLimits, UnknownModel
from agents.lifecycle import StopReason
from agents.messages import Usage
from agents.result import RunResult
from orchestrator.jobs.debating import folded, speakers
from orchestrator.jobs.errors import JobConflict
from orchestrator.store.memory import MemoryStore
from orchestrator.views.jobs import DebateRequest, GatherRequest, JobRequest, PlannerRequest, SynthesisRequest
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.jobs_daemon.debaters import REQUEST, ROUNDS, answer, critique
from tests.jobs_daemon.fake_runs import FakeRuns, LoggedRuns, ended, lines, read, serving, until, until_ended, upload

replace = msgspec.structs.replace
WHO = AgentChoice()
DEBATE = DebateRequest(critics=(AgentChoice(system="one"), AgentChoice(system="two")))


def saying(says: Callable[[str], str]) -> Callable[[RunRequest], Awaitable[RunResult]]:
    async def run(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return replace(ended(request), answer=says(request.task))

    return run


def quiet(asked: str) -> str:
    return answer(asked) if "You are proposer" in asked else critique()


async def test_a_debate_converges_with_a_line_for_each_round(tmp_path: Path) -> None:
    """Rounds come in order under one budget, an unreadable one fails and is asked again, the proposal is the answer."""
    runs = FakeRuns(saying(answer))
    async with serving(tmp_path, runs) as service:
        created = await service.create(replace(REQUEST, workers=50))
        assert (created.workers, created.complete) == (1, True)
        view = await until_ended(service, "j")
        rows = await read(service, "j")
    assert (view.phase, view.message) == ("done", f"converged after {ROUNDS} rounds")
    assert (view.done, view.failed, view.answer) == (ROUNDS - 1, 1, "merge, 1 answered")
    assert [row.ordinal for row in rows] == [*range(1, ROUNDS + 1)]
    assert [row.origin for row in rows[:5]] == ["proposer", "critic-1", "proposer", "critic-2", "critic-2"]
    assert (rows[3].state, rows[3].reason, rows[3].value) == ("failed", "malformed_output", "Looks good to me!")
    assert view.usage == Usage(10 * ROUNDS, output=5 * ROUNDS)
    assert [request.run for request in runs.asked] == [f"j.{n}" for n in range(1, ROUNDS + 1)]
    assert [request.who.system for request in runs.asked[:4]] == ["", "one", "", "two"]
    assert runs.asked[0].task.startswith("The subject:\nMerge {this}?")
    assert len({id(budget) for budget in runs.budgets}) == runs.most == 1
    text = transcript(folded(DEBATE, WHO, rows))
    assert "ended as converged after 8 rounds, 2 claims" in text
    assert "   reopens C2: it never ends" in text


async def test_the_next_daemon_goes_on_with_the_next_round(tmp_path: Path) -> None:
    """The debate is what its lines say: nothing said is asked again, and the open round is charged."""

    async def fifth_waits(request: RunRequest) -> RunResult:
        if request.run == "j.5":
            await trio.sleep_forever()
        return await saying(answer)(request)

    store, runs = MemoryStore(), LoggedRuns(fifth_waits)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(REQUEST)
        await until(lambda: runs.ran[-1:] == ["j.5"])
        assert service.view("j").answer == "merge, 2 answered"
    runs.answer = saying(answer)
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.usage.output) == ("done", ROUNDS - 1, 5 * ROUNDS)
    assert runs.ran == ["j.1", "j.2", "j.3", "j.4", "j.5", *(f"j.{n}" for n in range(5, ROUNDS + 1))]
    assert runs.charged == ["j.5"]


async def test_the_answer_is_known_from_the_log_alone(tmp_path: Path) -> None:
    """Where the folder says less than the log, as after a kill, the last proposal is the answer all the same."""
    store = MemoryStore()
    async with serving(tmp_path, FakeRuns(saying(answer)), store=store) as service:
        await service.create(REQUEST)
        before = (tmp_path / "jobs" / "j" / "job.json").read_bytes()
        await until_ended(service, "j")
    (tmp_path / "jobs" / "j" / "job.json").write_bytes(before)
    async with serving(tmp_path, FakeRuns(), store=store) as service:
        view = service.view("j")
    assert (view.phase, view.answer) == ("done", "merge, 1 answered")


async def test_two_answers_that_cannot_be_read_fail_the_job_and_a_retry_goes_on(tmp_path: Path) -> None:
    """Rounds that were said stay said: another attempt begins behind them, with as many rounds again."""
    runs = FakeRuns(saying(lambda asked: answer(asked) if "You are proposer" in asked else "no"))
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("failed", 1, 2)
        assert view.message.startswith("malformed_output: ")
        with pytest.raises(JobConflict, match="is a debate"):
            await service.retry("j", only_failed=True)
        runs.answer = saying(quiet)
        await service.retry("j")
        view = await until_ended(service, "j")
        assert (view.phase, view.done, view.failed) == ("done", 4, 2)
        assert [request.run for request in runs.asked[3:]] == ["j.4.2", "j.5.2", "j.6.2"]
        await service.retry("j")
        view = await until_ended(service, "j")
        rows = await read(service, "j")
    assert (view.phase, len(runs.asked), view.answer) == ("done", 6, "merge, 0 answered")
    assert folded(DEBATE, WHO, rows, 3).stop is StopReason.CONVERGED


async def test_a_debate_that_does_not_converge_ends_with_its_rounds(tmp_path: Path) -> None:
    """The number of rounds bounds each attempt."""
    runs = FakeRuns(saying(quiet))
    async with serving(tmp_path, runs) as service:
        await service.create(replace(REQUEST, debate=replace(DEBATE, most_rounds=2)))
        view = await until_ended(service, "j")
        assert (view.phase, view.message) == ("failed", "max_rounds: not converged in 2 rounds")
        await service.retry("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.message) == ("done", "converged after 4 rounds")


async def test_two_failed_rounds_in_a_row_fail_the_job(tmp_path: Path) -> None:
    """One failed round is asked again, two end the debate for the reason of the second."""

    async def broken(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR)

    runs = FakeRuns(broken)
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        view = await until_ended(service, "j")
    assert (view.phase, view.message, len(runs.asked)) == ("failed", "tool_error: it went wrong", 2)


async def test_a_spent_budget_stops_a_debate_at_once(tmp_path: Path) -> None:
    """No further round could mend it; its line says so, whoever folds it."""

    async def spent(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOKEN_BUDGET_EXCEEDED, scope="job")

    runs = FakeRuns(spent)
    async with serving(tmp_path, runs) as service:
        await service.create(REQUEST)
        view = await until_ended(service, "j")
        rows = await read(service, "j")
    assert (view.phase, view.message, len(runs.asked)) == ("stopped", "its budget is spent: it went wrong", 1)
    assert rows[0].final
    assert folded(DEBATE, WHO, rows).stop is StopReason.TOKEN_BUDGET_EXCEEDED


async def test_a_debate_is_cancelled_in_a_round(tmp_path: Path) -> None:
    """The round leaves no line, and the job keeps what was proposed."""

    async def second_waits(request: RunRequest) -> RunResult:
        if request.run == "j.2":
            await trio.sleep_forever()
        return await saying(answer)(request)

    async with serving(tmp_path, FakeRuns(second_waits)) as service:
        await service.create(REQUEST)
        await until(lambda: service.view("j").live == service.view("j").done == 1)
        with pytest.raises(JobConflict, match="nothing can be uploaded"):
            await upload(service, "j", lines([1]))
        await service.cancel("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.failed, view.cancelled) == ("cancelled", 1, 0, 1)
    assert view.answer == "merge, 0 answered"


async def test_a_debate_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    """No critics, no policy, what a debate has none of and an unknown model are refused by name."""
    for fields in (
        {"debate": None},
        {"gather": GatherRequest()},
        {"planner": PlannerRequest(task="t")},
        {"synthesis": SynthesisRequest(prompt="{results}")},
        {"ordered": True},
        {"fail_fast": True},
    ):
        with pytest.raises(InvalidLimits):
            replace(REQUEST, **fields)
    for wrong in ({"critics": ()}, {"critics": [{}], "most_rounds": 0}, {"critics": [{}], "most_rounds": 201}):
        with pytest.raises(InvalidLimits):
            msgspec.convert(wrong, DebateRequest)
    async with serving(tmp_path) as service:
        with pytest.raises(UnknownModel):
            await service.create(replace(REQUEST, debate=DebateRequest(critics=(AgentChoice(model="x"),))))
        with pytest.raises(InvalidLimits, match="prompt"):
            await service.create(replace(REQUEST, prompt=" "))
        assert not service.list().jobs


def test_speakers_bear_the_names_of_their_agents_where_those_tell_them_apart() -> None:
    """Agents that differ are called by their names, all others by what they do."""
    clerk, judge = AgentChoice(agent="clerk"), AgentChoice(agent="judge")
    assert list(speakers(DebateRequest(critics=(judge,)), clerk)) == ["clerk", "judge"]
    assert list(speakers(DebateRequest(critics=(judge, judge)), clerk)) == ["proposer", "critic-1", "critic-2"]
    assert list(speakers(DebateRequest(critics=(WHO,), proposer=judge), clerk)) == ["proposer", "critic-1"]


def test_a_request_says_whether_inputs_are_wanted() -> None:
    """Only a job of its own inputs takes any."""
    assert JobRequest(prompt="{text}").takes_inputs
    assert not REQUEST.takes_inputs
