"""Experiments as they run: the file, the order of cells, the log that is resumed, and the ways to run a cell."""

import json
import sys
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from bench.experiment.cells import Cell, cells
from bench.experiment.cli import register
from bench.experiment.command import CommandRunner
from bench.experiment.outcome import Outcome, read_result
from bench.experiment.perform import runner_of
from bench.experiment.spec import DaemonRun, SpecError, read_spec
from bench.processes import HEADRACE, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "experiment.toml"
CELL = Cell(
    task="one", system="plain", model="small", environment="calm", repeat=1, seed=7, task_fields={"text": "it's {x}"}
)


def bench(*arguments: object) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.callback()(lambda: None)
    register(app)
    return CliRunner().invoke(app, ["experiment", *map(str, arguments)], env={"COLUMNS": "160"})


def small(folder: Path, **changes: object) -> Path:
    """A file of 7 tasks whose cells write down that they ran."""
    (folder / "work.py").write_text(
        "def work(cell):\n"
        f"    with open({str(folder / 'ran')!r}, 'a') as file: file.write(cell.name + '\\n')\n"
        "    if cell.task_fields.get('broken'): raise RuntimeError('no disk')\n"
        "    return {'success': cell.system == 'b', 'tokens': cell.task_fields['number']}\n"
    )
    document = {
        "name": "small",
        "call": "work:work",
        "repeats": 2,
        "compare": {"by": "system", "baseline": "a"},
        "systems": {"a": {}, "b": {}},
        "tasks": {f"t{number}": {"number": number} for number in range(7)},
        "measures": [{"name": "success", "margin": 0.1}],
        **changes,
    }
    path = folder / "small.toml"
    path.write_text(_toml(document))
    sys.modules.pop("work", None)
    return path


def _toml(document: dict[str, object]) -> str:
    """Inline tables are enough: every value but those of tables is JSON, which TOML's inline values nearly are."""

    def value(given: object) -> str:
        if isinstance(given, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(each)}" for key, each in given.items()) + "}"
        if isinstance(given, list):
            return "[" + ", ".join(map(value, given)) + "]"
        return json.dumps(given)

    return "".join(f"{key} = {value(given)}\n" for key, given in document.items())


def test_the_example_finds_what_is_built_into_it(tmp_path: Path) -> None:
    """A calculator makes an agent better and dearer, a polite word does neither, and the second time nothing runs."""
    log = tmp_path / "log.jsonl"
    done = bench(EXAMPLE, "--log", log, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["planned"], report["ended"], report["tasks"]) == (960, 960, 40)
    verdicts = {(each["arm"], each["measure"]): each["finding"]["verdict"] for each in report["comparisons"]}
    assert verdicts == {
        ("polite", "success"): "noise",
        ("polite", "tokens"): "equivalent",
        ("polite", "seconds"): "untold",
        ("calculator", "success"): "better",
        ("calculator", "tokens"): "worse",
        ("calculator", "seconds"): "untold",
    }
    passes = report["arms"][0]["passes"]
    assert [each["k"] for each in passes] == [1, 3]
    assert passes[0]["at_least_one"]["mean"] == pytest.approx(report["arms"][0]["measures"][0]["mean"])
    assert passes[1]["at_least_one"]["mean"] > passes[0]["at_least_one"]["mean"] > passes[1]["all"]["mean"]
    size = log.stat().st_size
    again = bench(EXAMPLE, "--log", log)
    assert log.stat().st_size == size
    assert "better" in again.stdout
    assert "960 of 960 cells are in" in again.stderr


def test_arms_are_interleaved_and_share_their_seeds() -> None:
    """Every block has each arm once, in mixed orders and with one seed; the order is the same every time."""
    spec = read_spec(EXAMPLE)
    planned = list(cells(spec))
    blocks = [list(block) for _, block in groupby(planned, key=lambda cell: (cell.repeat, cell.task, cell.model))]
    assert len(blocks) == 4 * 40 * 2
    assert all({cell.system for cell in block} == set(spec.systems) and len(block) == 3 for block in blocks)
    assert all(len({cell.seed for cell in block}) == 1 for block in blocks)
    assert len({block[0].seed for block in blocks}) == len(blocks)
    assert len({tuple(cell.system for cell in block) for block in blocks}) == 6
    assert planned == list(cells(spec))
    assert [cell.repeat for cell in planned] == sorted(cell.repeat for cell in planned)


def test_an_interrupted_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    """Cells in the log do not run again, a line that was cut off does, and the report is the same as without."""
    path, log = small(tmp_path), tmp_path / "small.log.jsonl"
    whole = bench(path, "--json").stdout
    lines = log.read_bytes().splitlines(keepends=True)
    assert len(lines) == 1 + 28
    log.write_bytes(b"".join(lines[:11]) + lines[11][:20])
    (tmp_path / "ran").unlink()
    early = json.loads(bench(path, "--report-only", "--json").stdout)
    assert early["ended"] == 10
    assert {each["finding"]["verdict"] for each in early["comparisons"]} == {"refused"}
    assert "18 cells have not ended" in early["comparisons"][0]["finding"]["why"]
    assert bench(path, "--json").stdout == whole
    assert len((tmp_path / "ran").read_text().splitlines()) == 18


def test_broken_cells_give_no_verdict_and_run_again(tmp_path: Path) -> None:
    """A cell that raises says nothing of its arm: the exit code is 1, the reason is told, and it is tried again."""
    tasks: dict[str, object] = {f"t{number}": {"number": number} for number in range(7)}
    path = small(tmp_path, tasks={**tasks, "bad": {"number": 1, "broken": True}})
    done = bench(path, "--json")
    assert done.exit_code == 1
    assert "RuntimeError: no disk" in done.stderr
    report = json.loads(done.stdout)
    assert [arm["broken"] for arm in report["arms"]] == [2, 2]
    assert report["comparisons"][0]["finding"]["verdict"] == "refused"
    (tmp_path / "ran").unlink()
    assert bench(path).exit_code == 1
    assert len((tmp_path / "ran").read_text().splitlines()) == 4


def test_going_on_until_a_verdict_is_welcome_is_refused(tmp_path: Path) -> None:
    """More repeats need a look that was declared, a margin is not changed afterwards, and looks share the error."""
    assert bench(small(tmp_path)).exit_code == 0
    more = bench(small(tmp_path, repeats=3))
    assert more.exit_code == 2
    assert "makes verdicts worthless" in " ".join(more.stderr.split())
    assert bench(small(tmp_path, measures=[{"name": "success", "margin": 0.2}])).exit_code == 2
    (tmp_path / "small.log.jsonl").unlink()
    assert bench(small(tmp_path, looks=2)).exit_code == 0
    report = json.loads(bench(small(tmp_path, looks=2, repeats=3), "--json").stdout)
    assert (report["ended"], report["error_each"]) == (42, 0.025)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"repeats": "two"}, "expected `int`, got `str` - at `$.repeats`"),
        ({"call": "work"}, "is not module:function"),
        ({"call": ""}, "one of command, call and [daemon]"),
        ({"compare": {"by": "system", "baseline": "c"}}, "the baseline is one of: a, b"),
        ({"compare": {"by": "model", "baseline": "default"}}, "it has one arm, two at least"),
        ({"measures": [{"name": "tokens", "margin": "1 %"}]}, "needs better = 'more' or better = 'less'"),
        ({"measures": [{"name": "success", "margin": "much"}]}, 'neither a number nor a share such as "5 %"'),
        ({"measures": [{"name": "success", "margin": 5}]}, "0.05 for 5 points of 100"),
        ({"k": [3]}, "every k is between 1 and repeats, which is 2"),
        ({"tasks": {}}, "there is no task: one at least"),
        ({"tasks": {"a b": {}}}, "'a b' is no name of a task"),
        ({"call": "", "command": ["run", "{task.text}"]}, "{task.text} is asked for, but task 't"),
        ({"call": "nowhere:work"}, "nowhere cannot be imported"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_bad_files_are_refused_in_words(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    """What is wrong and what would be right is said, and nothing has run."""
    done = bench(small(tmp_path, **changes))
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "ran").exists()


def test_bad_logs_and_task_files_are_refused_with_their_line(tmp_path: Path) -> None:
    """A line that is none of a log's, and one that is no task, are named by their number."""
    path = small(tmp_path)
    (tmp_path / "small.log.jsonl").write_text("{}\n")
    assert "small.log.jsonl, line 1" in "".join(bench(path).stderr.split("\n"))
    (tmp_path / "tasks.jsonl").write_text('{"name": "x", "number": 1}\n{"number": 2}\n')
    path.write_text(path.read_text().replace("tasks = {", "other = {") + 'tasks_file = "tasks.jsonl"\n')
    with pytest.raises(SpecError, match=r"tasks.jsonl, line 2: is no JSON object with a name"):
        read_spec(path)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (
            "print('text'); print('{\"success\": 1, \"tokens\": 12}')",
            Outcome(state="done", success=1, numbers={"tokens": 12.0}),
        ),
        ("print('false')", Outcome(state="done")),
        ("print('42')", Outcome(state="done", success=1)),
        ("import sys; sys.exit('no')", Outcome(state="done", why="no")),
        (
            "import sys; print(sys.argv[1], sys.argv[2]); sys.exit(sys.argv[1:] != [\"it's {x}\", '7'])",
            Outcome(state="done", success=1),
        ),
    ],
)
async def test_a_command_says_how_it_went(code: str, outcome: Outcome, tmp_path: Path) -> None:
    """Its last line counts if it is a result, else its exit code; placeholders reach it as they are, unquoted."""
    runner = CommandRunner((sys.executable, "-c", code, "{task.text}", "{seed}"), tmp_path)
    assert await runner.run(CELL) == outcome


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL"),
        ("print('{\"success\": 2}')", "success is 2"),
        ('print(\'{"success": 1, "tokens": "many"}\')', "'tokens' is 'many'"),
    ],
)
async def test_a_command_that_is_broken_is_no_failure_of_its_arm(code: str, says: str, tmp_path: Path) -> None:
    """Other exit codes, signals and results that are none make the cell broken."""
    outcome = await CommandRunner((sys.executable, "-c", code), tmp_path).run(CELL)
    assert outcome.state == "broken"
    assert says in outcome.why


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """After its time a cell is a timeout, which is no success, and neither it nor its child is left."""
    command = ["sh", "-c", "sleep 60 & echo $! >> pids; wait"]
    path = small(tmp_path, call="", command=command, timeout=1.0, repeats=1, at_once=4, tasks={"t": {}})
    report = json.loads(bench(path, "--json").stdout)
    assert [arm["timeouts"] for arm in report["arms"]] == [1, 1]
    assert report["arms"][0]["measures"][0]["mean"] == 0.0
    for pid in (tmp_path / "pids").read_text().split():
        status = Path(f"/proc/{pid}/status")
        assert not status.exists() or "State:\tZ" in status.read_text()


@pytest.mark.parametrize("result", [None, 1, "yes", {"tokens": 3}, {"success": 1, "x": float("nan")}])
def test_what_is_no_result_is_broken(result: object) -> None:
    """A number alone, a word, nothing, and numbers that are none, are not taken for success or failure."""
    assert read_result(result).state == "broken"


async def test_a_cell_is_a_run_on_a_daemon(tmp_path: Path) -> None:
    """It is judged by its answer, with the numbers of its run; a daemon that is not there breaks it."""
    config = tmp_path / "headrace.toml"
    config.write_text(
        '[store]\nkind = "memory"\n[backends.simulated]\nkind = "simulated"\nspeed = 100\n'
        '[models."*"]\nbackends = ["simulated"]\n'
    )
    command = [*HEADRACE, "serve", "--config", str(config), "--port", "0", "--data-dir", str(tmp_path / "data")]
    with running(command, r"serves (http://[^\s,]+)", tmp_path) as url:
        how = DaemonRun(url=url, prompt="Say: {task.text}", expect=".", model="{model}", system="You are {system}.")
        spec = msgspec.structs.replace(read_spec(EXAMPLE), call="", clock="real", daemon=how)
        outcome = await runner_of(spec, tmp_path).run(CELL)
    assert (outcome.state, outcome.success) == ("done", 1)
    assert outcome.numbers["rounds"] == 1
    assert outcome.numbers["tokens"] > 0
    gone = await runner_of(spec, tmp_path).run(CELL)
    assert gone.state == "broken"


def test_a_picture_is_written_or_what_it_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the command says how to get it; with it there is an SVG."""
    path = small(tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = bench(path, "--plot", tmp_path / "out.svg")
    assert done.exit_code == 2
    assert "headrace[plot]" in done.stderr
    monkeypatch.undo()
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    assert bench(path, "--plot", tmp_path / "out.svg").exit_code == 0
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
