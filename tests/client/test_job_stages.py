"""Options for gather, planner and synthesis: how they go before the job's file, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from agents.errors import HeadraceError
from orchestrator.cli.job_stages import gather_of, planner_of, synthesis_of
from orchestrator.views.jobs import GatherRequest, PlannerRequest, SynthesisRequest
from orchestrator.views.runs import AgentChoice
from tests.client.daemon_thread import DaemonThread, headrace

QUORUM = GatherRequest(policy="quorum", count=3)
PLANNER = PlannerRequest(task="x", who=AgentChoice(agent="a"), most=3)
NO_GATHER: dict[str, Any] = {"policy": None, "count": None, "deadline": None}
NO_PLAN: dict[str, Any] = {"task": None, "agent": None, "most": None, "to": None}
NO_SYNTHESIS: dict[str, Any] = {"prompt": None, "agent": None, "share": None}


@pytest.mark.parametrize(
    ("file", "options", "meant"),
    [
        (GatherRequest(), {}, GatherRequest()),
        (QUORUM, {"count": 5}, GatherRequest(policy="quorum", count=5)),
        (QUORUM, {"policy": "quorum"}, QUORUM),
        (QUORUM, {"policy": "deadline", "deadline": 9}, GatherRequest(policy="deadline", seconds=9)),
        (QUORUM, {"policy": "settle"}, GatherRequest()),
        (GatherRequest(), {"policy": "first", "count": 1}, GatherRequest(policy="first", count=1)),
    ],
)
def test_a_gather_is_changed_by_options(file: GatherRequest, options: dict[str, Any], meant: GatherRequest) -> None:
    """A count holds for the policy that it was given with."""
    assert gather_of(file, **NO_GATHER | options) == meant


def test_a_planner_and_a_synthesis_are_changed_by_options() -> None:
    """What no option names stays as the file has it."""
    assert planner_of(PLANNER, **NO_PLAN) is PLANNER
    changed = planner_of(PLANNER, **NO_PLAN | {"task": "y", "to": "prompt"})
    assert changed == PlannerRequest(task="y", who=AgentChoice(agent="a"), most=3, to="prompt")
    assert planner_of(None, **NO_PLAN | {"task": "y", "agent": "b", "most": 2}) == PlannerRequest(
        task="y", who=AgentChoice(agent="b"), most=2
    )
    assert synthesis_of(None, **NO_SYNTHESIS) is None
    assert synthesis_of(None, **NO_SYNTHESIS | {"prompt": "{results}", "share": 0.5}) == SynthesisRequest(
        prompt="{results}", share=0.5
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gather_of(GatherRequest(), **NO_GATHER | {"policy": "quorum"}), "--count: is needed by"),
        (lambda: gather_of(GatherRequest(), **NO_GATHER | {"deadline": 3}), "--deadline: is for the policy deadline"),
        (lambda: gather_of(QUORUM, **NO_GATHER | {"count": 0}), "--count: a whole number"),
        (lambda: planner_of(None, **NO_PLAN | {"most": 3}), "--most: is of no use by itself; it goes with --plan"),
        (lambda: planner_of(None, **NO_PLAN | {"agent": "a"}), "--planner: is of no use by itself"),
        (lambda: planner_of(PLANNER, **NO_PLAN | {"most": 0}), "--most: from 1 to 1000 subtasks, not 0"),
        (lambda: planner_of(PLANNER, **NO_PLAN | {"task": " "}), "--plan: says what is to be planned"),
        (lambda: synthesis_of(None, **NO_SYNTHESIS | {"share": 0.1}), "--share: is of no use by itself"),
        (lambda: synthesis_of(None, **NO_SYNTHESIS | {"prompt": "x", "share": 1}), "--share: more than 0"),
    ],
)
def test_what_is_wrong_is_told_by_the_option(make: Any, message: str) -> None:
    """Each message begins with the option that was given, or that is missing."""
    with pytest.raises(HeadraceError) as caught:
        make()
    assert caught.value.message.startswith(message)


def test_a_job_is_planned_gathered_and_summed_up_from_the_command_line(tmp_path: Path) -> None:
    """Options alone make a job of stages; inputs are for a plan that goes into the prompt."""
    daemon = DaemonThread(tmp_path / "data")
    daemon.start()
    try:
        inputs, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        inputs.write_text("".join(f'{{"text": "{n}"}}\n' for n in range(9)))
        given = ("--prompt", "Say {text}", "-i", inputs, "-o", out, "--workers", "1", "--json")
        closing = ("--gather", "first", "--count", "2", "--synthesis", "Sum up {results}", "--share", "0.5")
        result = headrace(daemon.url, "job", "start", *given, *closing)
        view = json.loads(result.stdout)
        assert (result.exit_code, view["gather"]["policy"], view["answer"][:10]) == (0, "first", 'On "Sum up')
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(rows) == view["done"] + view["failed"] == 9
        planned = headrace(daemon.url, "job", "start", "--plan", "List", "--most", "2", "--planner", "clerk", "--json")
        assert "malformed_output" in json.loads(planned.stderr.splitlines()[-1])["message"]
        refused = headrace(daemon.url, "job", "start", "--plan", "List", "-i", inputs, "--plan-to", "inputs")
        assert "--input: the job's planner makes its inputs" in f"{refused.output}{refused.exception}"
        unnamed = headrace(daemon.url, "job", "start", "--plan", "List", "--plan-to", "prompt", *given)
        assert "the prompt does not name {plan}" in f"{unnamed.output}{unnamed.exception}"
        prompt = ("--plan", "List", "--plan-to", "prompt", "--prompt", "{plan} {text}", "-i", inputs, "--json")
        whole = headrace(daemon.url, "job", "start", *prompt, "-o", tmp_path / "planned.jsonl")
        view = json.loads(whole.stdout)
        assert (view["phase"], view["done"], view["message"][:16]) == ("failed", 0, "malformed_output")
        assert headrace(daemon.url, "job", "start", *prompt, "--dry-run").exit_code == 0
        embedded = headrace(daemon.url, "job", "start", *given, "--embedded", "--gather", "all")
        assert "--gather: only with a daemon" in f"{embedded.output}{embedded.exception}"
    finally:
        daemon.close()
