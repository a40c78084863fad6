"""Jobs in files: what they may say, what is told of one that is wrong, and how options go before it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from agents.amounts import Limits
from orchestrator.cli.job_file import read_job_file
from orchestrator.config.problems import ConfigError
from orchestrator.views.jobs import DebateRequest, GatherRequest, PlannerRequest, SynthesisRequest
from orchestrator.views.runs import AgentChoice
from tests.client.daemon_thread import DaemonThread, headrace

WHOLE = """
inputs = ["letters", "/srv/more.jsonl", "-"]
format = "jsonl"
prompt_file = "task.txt"
agent = "clerk"
output = "out.jsonl"
name = "letters"
tenant = "web"
priority = "standard"
weight = 2
workers = 3
ordered = true
fail_fast = true

[budget]
tokens = 1000
dollars = 0.5
timeout = 60
rounds = 7

[gather]
policy = "deadline"
seconds = 30
count = 2

[synthesis]
prompt = "Sum up: {results}"
model = "big"
share = 0.5
"""


CONVERGE = '[gather]\npolicy = "converge"\n[debate]\n'


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonThread]:
    daemon = DaemonThread(tmp_path_factory.mktemp("data"))
    with structlog.testing.capture_logs():
        daemon.start()
        yield daemon
        daemon.close()


def written(folder: Path, text: str) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def test_a_file_says_all_that_options_do_and_more(tmp_path: Path) -> None:
    """Paths are beside the file, and what has no option is told apart."""
    plan = read_job_file(str(written(tmp_path, WHOLE)))
    assert plan.options == {
        "input": [str(tmp_path / "letters"), "/srv/more.jsonl", "-"],
        "input_format": "jsonl",
        "prompt_file": str(tmp_path / "task.txt"),
        "agent": "clerk",
        "output": str(tmp_path / "out.jsonl"),
        "name": "letters",
        "tenant": "web",
        "priority": "standard",
        "weight": 2.0,
        "workers": 3,
        "ordered": True,
        "fail_fast": True,
        "max_tokens_total": 1000,
        "dollars": 0.5,
        "timeout": 60.0,
    }
    assert plan.budget == Limits(tokens=1000, micro_dollars=500_000, timeout=60.0, rounds=7)
    assert plan.gather == GatherRequest(policy="deadline", seconds=30.0, count=2)
    assert plan.planner is None
    assert plan.synthesis == SynthesisRequest(prompt="Sum up: {results}", who=AgentChoice(model="big"), share=0.5)


def test_a_planned_job_needs_no_inputs_and_no_prompt(tmp_path: Path) -> None:
    """What the planner writes is the prompt, unless the file has another; nobody named is whoever works."""
    plan = read_job_file(str(written(tmp_path, '[planner]\ntask = "List rivers."\nmost = 5\n')))
    assert plan.options == {}
    assert plan.planner == PlannerRequest(task="List rivers.", most=5)


def test_a_debate_is_written_with_its_speakers(tmp_path: Path) -> None:
    """Critics are a list of whoever they are, and the proposer may be left to the job."""
    text = '[gather]\npolicy = "converge"\n[debate]\ncritics = [{ agent = "a" }, { model = "m", seed = 1 }]\n'
    plan = read_job_file(str(written(tmp_path, text)))
    assert plan.gather == GatherRequest(policy="converge")
    assert plan.debate == DebateRequest(critics=(AgentChoice(agent="a"), AgentChoice(model="m", seed=1)))


def test_a_plan_may_go_into_the_prompt_for_given_inputs(tmp_path: Path) -> None:
    """Then the file has both."""
    text = 'inputs = ["-"]\nprompt = "{plan} {text}"\n[planner]\ntask = "x"\nto = "prompt"\n'
    plan = read_job_file(str(written(tmp_path, text)))
    assert plan.options == {"input": ["-"], "prompt": "{plan} {text}"}
    assert plan.planner == PlannerRequest(task="x", to="prompt")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('promt = "x"', "promt: unknown key; did you mean prompt?"),
        ('inputs = "letters"', "inputs: must be an array, not text"),
        ('input = ["a"]', 'input: inputs are an array here, as `inputs = ["letters/"]`'),
        ("workers = 0", "workers: must be at least 1, not 0"),
        (
            '[gather]\npolicy = "quorom"',
            'gather.policy: must be one of "all", "converge", "deadline", "first", "quorum", "settle", not',
        ),
        ('[gather]\npolicy = "quorum"', "gather.count: is needed by the policy quorum"),
        ('[gather]\npolicy = "deadline"', "gather.seconds: is needed by the policy deadline"),
        ("[planner]\nmost = 3", "planner.task: is missing; it must be text"),
        ('[planner]\ntask = "x"\nmost = 0', "planner.most: from 1 to 1000 subtasks, not 0"),
        ('[planner]\ntask = "x"\nagent = "a"\nseed = 1', "planner.seed: an agent has its own"),
        ('inputs = ["a"]\n[planner]\ntask = "x"', "inputs: the planner makes them"),
        ('[planner]\ntask = "x"\nto = "all"', 'planner.to: must be one of "inputs", "prompt", not "all"'),
        ('[gather]\npolicy = "converge"', "debate: is needed by the policy converge"),
        ('[debate]\ncritics = [{ agent = "a" }]', "debate: is for the policy converge, not for settle"),
        (CONVERGE + "critics = []", "debate.critics: at least one"),
        (CONVERGE + 'critics = [{ agent = "a", seed = 1 }]', "debate.critics[0].seed: an agent has its own"),
        (CONVERGE + 'critics = [{ agnt = "a" }]', "debate.critics[0].agnt: unknown key; did you mean agent?"),
        ('inputs = ["a"]\n' + CONVERGE + 'critics = [{ agent = "a" }]', "inputs: a debate is about the prompt"),
        ('[synthesis]\nprompt = "x"\nshare = 1.5', "synthesis.share: more than 0 and less than 1, not 1.5"),
        ('prompt = "x"\nprompt_file = "y"', "prompt_file: give this or prompt, not both"),
        ('agent = "a"\nmodel = "m"', "model: an agent has its own"),
        ("[budget]\nmicro_dollars = 3", "budget.micro_dollars: money is written in dollars here"),
        ("prompt = ", "line 1: not valid TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(tmp_path: Path, text: str, problem: str) -> None:
    """Each message names the file, the key, and what would be right."""
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_job_file(str(path))
    assert caught.value.message.startswith(f"{path}: {problem}")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """A file with two mistakes is refused with both, before anything is started."""
    with pytest.raises(ConfigError) as caught:
        read_job_file(str(written(tmp_path, 'weight = 0\n[gather]\npolicy = "some"\n')))
    assert [problem.path for problem in caught.value.problems] == ["weight", "gather.policy"]


def test_a_job_file_is_run_and_options_go_before_it(daemon: DaemonThread, tmp_path: Path) -> None:
    """Inputs and output are found beside the file; an option of the command line stands in for its line there."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    file = written(
        tmp_path,
        'inputs = ["in.jsonl"]\nprompt = "Say {text}"\nmodel = "nobody-has-this"\nmax_tokens = 5\n'
        'output = "out.jsonl"\ntenant = "filed"\nname = "told"\nordered = true\n[budget]\nrounds = 9\n',
    )
    result = headrace(daemon.url, "job", "start", file, "--agent", "clerk", "--name", "said", "--json")
    assert result.exit_code == 0, result.output
    view = json.loads(result.stdout)
    assert (view["tenant"], view["name"], view["agent"], view["done"]) == ("filed", "said", "clerk", 2)
    values = [json.loads(line)["value"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [value[:12] for value in values] == ['On "Say one"', 'On "Say two"']


def test_a_prompt_on_the_command_line_goes_before_that_of_the_file(daemon: DaemonThread, tmp_path: Path) -> None:
    """`--prompt` takes the place of `prompt_file`, whose file need not even be there."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n')
    file = written(tmp_path, 'inputs = ["in.jsonl"]\nprompt_file = "gone.txt"\n')
    output = tmp_path / "said.jsonl"
    result = headrace(daemon.url, "job", "start", file, "--prompt", "Tell {text}", "--quiet", "-o", output)
    assert (result.exit_code, json.loads(output.read_text())["value"][:13]) == (0, 'On "Tell one"')


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ('prompt = "{text}"', ("--embedded",), "file: only with a daemon"),
        ('[planner]\ntask = "x"', ("--input", "-"), "--input: the job's planner makes its inputs"),
        ('agent = "clerk"\nprompt = "{text}"', ("--model", "m"), "--agent: an agent has a model"),
        ('prompt = "{text}"', (), "no input: give --input"),
    ],
)
def test_what_does_not_go_together_is_refused(
    daemon: DaemonThread, tmp_path: Path, text: str, options: tuple[str, ...], message: str
) -> None:
    """Before anything is started, and in one sentence."""
    result = headrace(daemon.url, "job", "start", written(tmp_path, text), *options)
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def test_a_dry_run_counts_and_starts_nothing(daemon: DaemonThread, tmp_path: Path) -> None:
    """Calls, tokens and assumptions are told of the inputs as they are, and no job is made."""
    (tmp_path / "in.jsonl").write_text('{"text": "one"}\n{"text": oops}\n{"text": "three"}\n{"other": 1}\n')
    file = written(tmp_path, 'inputs = ["in.jsonl"]\nprompt = "Say {text}"\nagent = "clerk"\ntenant = "dry"\n')
    result = headrace(daemon.url, "job", "start", file, "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["calls"], told["output_tokens"]) == (2, 600)
    assert told["input_tokens"] == round((len("Say one") + len("Say three") + 2 * len("Be brief.")) / 4 + 16)
    assert "2 inputs cannot be read" in " ".join(told["assumptions"])
    words = headrace(daemon.url, "job", "start", file, "--dry-run").stdout
    assert "at most 600 out" in words
    assert "none is tried again" in words
    assert headrace(daemon.url, "job", "ls", "--tenant", "dry", "--json").stdout.strip() == '{"jobs":[]}'


def test_a_job_closes_early_and_prints_its_answer(daemon: DaemonThread, tmp_path: Path) -> None:
    """With a gather and a synthesis in the file every item has its row, and the answer is the command's output."""
    (tmp_path / "in.jsonl").write_text("".join(f'{{"text": "{n}"}}\n' for n in range(20)))
    file = written(
        tmp_path,
        'inputs = ["in.jsonl"]\nprompt = "Say {text}"\nmax_tokens = 200\noutput = "out.jsonl"\nworkers = 2\n'
        '[gather]\npolicy = "quorum"\ncount = 3\n[synthesis]\nprompt = "Sum up {results}"\nmax_tokens = 2000\n',
    )
    result = headrace(daemon.url, "job", "start", file, "--quiet")
    assert (result.exit_code, result.stdout[:10]) == (0, 'On "Sum up'), result.output
    job = json.loads(headrace(daemon.url, "job", "ls", "--json").stdout)["jobs"][0]
    assert (job["stage"], job["gather"]["policy"], job["done"] >= 3, job["received"]) == ("ended", "quorum", True, 20)
    assert len(headrace(daemon.url, "job", "results", job["job"], "--table").stdout.splitlines()) == 21


def test_a_planner_that_makes_no_list_is_told(daemon: DaemonThread, tmp_path: Path) -> None:
    """Nothing is uploaded for a planned job, and its end is followed as that of any other."""
    file = written(tmp_path, 'max_tokens = 200\n[planner]\ntask = "List rivers."\n')
    result = headrace(daemon.url, "job", "start", file, "--quiet", "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 1
    assert "malformed_output" in result.stderr
