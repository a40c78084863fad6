"""Jobs whose inputs a planner makes: the strict list, its one repair, and what the workers get of it."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agents.errors import InvalidLimits, UnknownModel
from agents.lifecycle import StopReason
from agents.messages import Usage
from agents.result import RunResult
from orchestrator.jobs.errors import JobConflict
from orchestrator.jobs.planner import MalformedPlan, as_inputs, as_list, item_template, read_plan
from orchestrator.jobs.template import TemplateError
from orchestrator.store.memory import MemoryStore
from orchestrator.views.jobs import InputLine, PlannerRequest
from orchestrator.views.runs import AgentChoice, RunRequest
from tests.jobs_daemon.fake_runs import (
    REQUEST,
    FakeRuns,
    LoggedRuns,
    ended,
    instantly,
    last,
    lines,
    read,
    serving,
    until,
    until_ended,
    upload,
)

replace = msgspec.structs.replace
PLANNED = replace(REQUEST, planner=PlannerRequest(task="plan it", most=5))
PLAN = '[{"text": "one"}, {"text": "two"}]'


def planner(*answers: str) -> Callable[[RunRequest], Awaitable[RunResult]]:
    """A planner that gives these answers one after the other; workers answer at once."""
    left = list(answers)

    async def answer(request: RunRequest) -> RunResult:
        if request.run.startswith("j.plan"):
            await trio.lowlevel.checkpoint()
            return replace(ended(request), answer=left.pop(0))
        return await instantly(request)

    return answer


async def test_a_plan_becomes_the_inputs_of_the_workers(tmp_path: Path) -> None:
    """Each subtask is an item, and the planner's usage is the job's."""
    runs = FakeRuns(planner(PLAN))
    async with serving(tmp_path, runs) as service:
        created = await service.create(PLANNED)
        assert created.stage in ("planning", "working")
        view = await until_ended(service, "j")
        results = last(await read(service, "j"))
    assert (view.phase, view.stage, view.received, view.done, view.complete) == ("done", "ended", 2, 2, True)
    assert [results[n].value for n in (1, 2)] == ["SAY ONE", "SAY TWO"]
    assert results[1].origin == "plan:1"
    assert view.usage == Usage(30, output=15)
    assert sorted(run.run for run in runs.asked) == ["j.1", "j.2", "j.plan"]
    assert runs.asked[0].task.startswith("plan it\n\nAnswer with a JSON list of 1 to 5 subtasks")


async def test_an_answer_that_is_no_plan_is_sent_back_once_with_what_was_wrong(tmp_path: Path) -> None:
    """The repair goes on in the planner's session, and says where the answer is wrong."""
    runs = FakeRuns(planner('[{"txt": "one"}]', PLAN))
    async with serving(tmp_path, runs) as service:
        await service.create(PLANNED)
        view = await until_ended(service, "j")
    first, second = runs.asked[:2]
    assert (view.phase, view.done) == ("done", 2)
    assert (second.run, second.session) == ("j.plan-repair", "j.plan")
    assert first.who == second.who
    assert "unknown field `txt`" in second.task
    assert view.usage.output == 20


async def test_two_answers_that_are_no_plan_fail_the_job(tmp_path: Path) -> None:
    """There is no third try: the job fails as malformed output, and a retry plans anew."""
    runs = FakeRuns(planner("here you are", "[]", PLAN))
    async with serving(tmp_path, runs) as service:
        await service.create(PLANNED)
        view = await until_ended(service, "j")
        assert (view.phase, view.received, view.usage.output) == ("failed", 0, 10)
        assert view.message == (
            "malformed_output: the planner's answer cannot be used: it has 0 subtasks, and 1 to 5 are wanted"
        )
        await service.retry("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done) == ("done", 2)
    assert sorted(run.run for run in runs.asked[2:]) == ["j.1.2", "j.2.2", "j.plan.2"]


async def test_a_planner_that_fails_fails_its_job(tmp_path: Path) -> None:
    """The job says why its planner ended, and asks for no repair."""

    async def broken(request: RunRequest) -> RunResult:
        await trio.lowlevel.checkpoint()
        return ended(request, StopReason.TOOL_ERROR)

    runs = FakeRuns(broken)
    async with serving(tmp_path, runs) as service:
        await service.create(PLANNED)
        view = await until_ended(service, "j")
    assert (view.phase, view.message, len(runs.asked)) == ("failed", "the planner failed: it went wrong", 1)


async def test_a_job_is_cancelled_while_it_is_planned(tmp_path: Path) -> None:
    """The planner's run is taken away, and no worker begins."""

    async def sleeps(request: RunRequest) -> RunResult:
        await trio.sleep_forever()
        raise AssertionError

    runs = FakeRuns(sleeps)
    async with serving(tmp_path, runs) as service:
        await service.create(PLANNED)
        await until(lambda: runs.live == 1)
        assert service.view("j").stage == "planning"
        with pytest.raises(JobConflict, match="has a planner"):
            await upload(service, "j", lines([1]))
        with pytest.raises(JobConflict, match="has a planner"):
            await service.complete("j")
        await service.cancel("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.message, runs.live, len(runs.asked)) == ("cancelled", "cancelled on request", 0, 1)


async def test_the_next_daemon_neither_plans_nor_pays_again(tmp_path: Path) -> None:
    """Left among its workers, a planned job goes on with the inputs that it has."""

    async def second_waits(request: RunRequest) -> RunResult:
        if request.run == "j.2":
            await trio.sleep_forever()
        return await planner(PLAN)(request)

    store, runs = MemoryStore(), LoggedRuns(second_waits)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(PLANNED)
        await until(lambda: service.view("j").done == 1)
    runs.answer = instantly
    async with serving(tmp_path, runs, store=store) as service:
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.usage.output) == ("done", 2, 15)
    assert runs.ran == ["j.plan", "j.1", "j.2", "j.2"]
    assert set(runs.charged) == {"j.2", "j.plan", "j.plan-repair"}


IN_PROMPT = replace(REQUEST, prompt="{plan} | {text}", planner=PlannerRequest(task="plan it", most=5, to="prompt"))


async def test_a_plan_in_the_prompt_is_made_before_any_worker_begins(tmp_path: Path) -> None:
    """Inputs are uploaded meanwhile, and each item's prompt has the whole plan as a numbered list."""
    planned = trio.Event()

    async def slowly(request: RunRequest) -> RunResult:
        if request.run == "j.plan":
            await planned.wait()
        return await planner(PLAN)(request)

    runs = FakeRuns(slowly)
    async with serving(tmp_path, runs) as service:
        await service.create(IN_PROMPT)
        await upload(service, "j", lines([7, 8]))
        await service.complete("j")
        assert service.view("j").stage == "planning"
        assert [request.run for request in runs.asked] == ["j.plan"]
        planned.set()
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.usage.output) == ("done", 2, 15)
    assert sorted(request.task for request in runs.asked[1:]) == ["1. one\n2. two | 7", "1. one\n2. two | 8"]


async def test_a_plan_in_the_prompt_is_repaired_once_and_kept_for_retries(tmp_path: Path) -> None:
    """Two answers that are no plan fail the job before any item; a plan that there is, every attempt goes by."""
    runs = FakeRuns(planner("no", "no", "no", PLAN))
    async with serving(tmp_path, runs) as service:
        await service.create(IN_PROMPT)
        await upload(service, "j", lines([7]))
        view = await until_ended(service, "j")
        assert (view.phase, view.done + view.failed) == ("failed", 0)
        assert view.message.startswith("malformed_output: the planner's answer cannot be used")
        await service.retry("j")
        await until(lambda: service.view("j").done == 1)
        await service.cancel("j")
        await until_ended(service, "j")
        await service.retry("j")
        await upload(service, "j", lines([8]))
        await service.complete("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done) == ("done", 2)
    names = ["j.plan", "j.plan-repair", "j.plan.2", "j.plan-repair.2", "j.1.2", "j.2.3"]
    assert [request.run for request in runs.asked] == names
    assert runs.asked[-1].task == "1. one\n2. two | 8"


async def test_the_next_daemon_goes_by_the_plan_there_is(tmp_path: Path) -> None:
    """A plan outlives its daemon, and is neither made nor paid again."""

    async def second_waits(request: RunRequest) -> RunResult:
        if request.run == "j.2":
            await trio.sleep_forever()
        return await planner(PLAN)(request)

    store, runs = MemoryStore(), LoggedRuns(second_waits)
    async with serving(tmp_path, runs, store=store) as service:
        await service.create(IN_PROMPT)
        await upload(service, "j", lines([7, 8]))
        await until(lambda: service.view("j").done == 1 and runs.ran[-1] == "j.2")
    runs.answer, runs.ended = instantly, {}
    async with serving(tmp_path, runs, store=store) as service:
        await service.complete("j")
        view = await until_ended(service, "j")
    assert (view.phase, view.done, view.usage.output) == ("done", 2, 15)
    assert runs.ran == ["j.plan", "j.1", "j.2", "j.2"]
    assert runs.asked[-1].task == "1. one\n2. two | 8"


@pytest.mark.parametrize("prompt", ["{text}", "{plan}", "plan: {{plan}} {text}"])
async def test_a_prompt_has_to_name_its_plan_and_its_input(tmp_path: Path, prompt: str) -> None:
    """A plan that nobody would read, or a prompt that is the same for all items, is refused."""
    async with serving(tmp_path) as service:
        with pytest.raises(TemplateError, match="plan"):
            await service.create(replace(IN_PROMPT, prompt=prompt))


def test_a_plan_is_never_read_as_a_template() -> None:
    """Braces that a planner writes are text."""
    filled = item_template(IN_PROMPT, as_list(["{text}", "{{x}}"])).fill({"text": "t"}, "o")
    assert filled == "1. {text}\n2. {{x}} | t"


texts = st.lists(st.text(min_size=1).filter(lambda text: bool(text.strip())), max_size=8)


@given(texts=texts)
def test_a_list_in_bounds_is_read_word_for_word(texts: list[str]) -> None:
    """Every text becomes one line of input as it was written; too many or none are refused."""
    answer = msgspec.json.encode([{"text": text} for text in texts]).decode()
    if not 1 <= len(texts) <= 5:
        with pytest.raises(MalformedPlan, match="1 to 5 are wanted"):
            read_plan(answer, 5)
        return
    assert read_plan(answer, 5) == texts
    found = [msgspec.json.decode(line, type=InputLine) for line in as_inputs(texts).splitlines()]
    assert [line.fields["text"] for line in found] == texts


@given(answer=st.text() | st.recursive(st.none() | st.text(), lambda x: st.lists(x, max_size=3)).map(str))
def test_no_answer_breaks_the_reader(answer: str) -> None:
    """Whatever a model says is a plan or a malformed one."""
    with pytest.raises(MalformedPlan):
        read_plan(answer, 5)


@pytest.mark.parametrize(
    "answer", ['```json\n[{"text": "a"}]\n```', '[{"text": " "}]', '[{"text": "a", "why": "b"}]', '["a"]', "[" * 5000]
)
def test_what_comes_near_to_a_plan_is_none(answer: str) -> None:
    """The list is taken as asked for, or not at all."""
    with pytest.raises(MalformedPlan):
        read_plan(answer, 5)


def test_a_list_in_an_object_is_a_plan_as_well() -> None:
    """What a provider's schema makes of a list is read like the list itself, and like it no further."""
    assert read_plan(f'{{"subtasks": {PLAN}}}', 5) == read_plan(PLAN, 5)
    with pytest.raises(MalformedPlan):
        read_plan(f'{{"subtasks": {PLAN}, "notes": ""}}', 5)


async def test_a_planner_that_makes_no_sense_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """An unknown model, no task and a count out of bounds are refused by name."""
    async with serving(tmp_path) as service:
        with pytest.raises(UnknownModel):
            await service.create(replace(REQUEST, planner=PlannerRequest(task="t", who=AgentChoice(model="x"))))
        assert not service.list().jobs
    for fields in ({"task": " "}, {"task": "t", "most": 0}, {"task": "t", "most": 1001}):
        with pytest.raises(InvalidLimits):
            msgspec.convert(fields, PlannerRequest)
