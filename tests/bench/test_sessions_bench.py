"""Agent sessions in a closed loop: Autellix's worked example, loads, graphs of calls, comparison and the command."""

import gzip
import random
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from bench.policies import POLICIES
from bench.sessions.cli import TRACE_NAME, register
from bench.sessions.measure import measure, named
from bench.sessions.play import Ended, Outcome, run_sessions
from bench.sessions.report import Report, missed, quantile, row, sample
from bench.sessions.workload import Setting, Started, idle_seconds, started, tokens
from bench.traces.base import Session, SessionCall
from bench.traces.find import find_trace, missing
from bench.traces.sessions import COLUMNS
from orchestrator.policy.fair_config import FairConfig

TRACE = find_trace(TRACE_NAME)


def chain(name: str, seconds: list[float], think: float = 0.0) -> Session:
    """A session whose calls come one after the other."""
    calls = [
        SessionCall(input=100, output=10, think=think, after=(place - 1,) if place else (), seconds=length)
        for place, length in enumerate(seconds)
    ]
    return Session(name=name, calls=tuple(calls))


def at_once(sessions: list[Session]) -> list[Started]:
    return [Started(session=session, at=0.0, idle=idle_seconds(session)) for session in sessions]


@pytest.mark.parametrize(("policy", "waiting", "response"), [("fifo", 18.0, 11.0), ("las", 17.0, 10.75)])
def test_autellix_worked_example_through_the_owner(policy: str, waiting: float, response: float):
    """Four programs on two slots wait 18 in all and respond in 11.00 in arrival order, and less by attained time."""
    # By attained time the paper has 14 and 10.00, which tests/policy/test_run_order.py shows of the order alone. There
    # all that happens at one instant comes before any dispatch. In a closed loop a slot that an answer frees is given
    # away before its program can have asked again: at 4.0 both free slots go, and only then does C ask for its second.
    programs = {"A": [4.0, 3.0, 1.0, 1.0], "B": [3.0, 3.0, 4.0], "C": [1.0, 2.0], "D": [4.0]}
    workload = at_once([chain(name, seconds) for name, seconds in programs.items()])
    outcome = run_sessions(workload, POLICIES[policy], Setting(concurrency=2))
    assert sum(one.waited for one in outcome.sessions) == pytest.approx(waiting, abs=1e-6)
    assert fmean(one.seconds for one in outcome.sessions) == pytest.approx(response, abs=1e-6)


def family() -> Session:
    """A call, two subagents side by side (10 s, and 3 + 4 s with 5 s of thought between), and a call after both."""
    return Session(
        name="family",
        calls=(
            SessionCall(input=10, output=1, seconds=2.0),
            SessionCall(input=10, output=1, seconds=10.0, after=(0,), agent="a"),
            SessionCall(input=10, output=1, seconds=3.0, after=(0,), agent="b"),
            SessionCall(input=10, output=1, seconds=4.0, think=5.0, after=(2,), agent="b"),
            SessionCall(input=10, output=1, seconds=1.0, think=0.5, after=(1, 3)),
        ),
    )


def test_subagents_work_side_by_side_and_their_parent_waits_for_all():
    """With slots to spare a session takes the longest way through its calls; with one slot calls wait."""
    workload = at_once([family()])
    assert workload[0].idle == 2.0 + 12.0 + 0.5 + 1.0
    free = run_sessions(workload, POLICIES["fifo"], Setting(concurrency=2)).sessions[0]
    assert (free.seconds, free.longest, free.failed, free.calls) == (pytest.approx(15.5), 0.0, 0, 5)
    tight = run_sessions(workload, POLICIES["fifo"], Setting(concurrency=1)).sessions[0]
    assert tight.seconds >= 20.0
    assert tight.longest > 0.0


def test_load_moves_starts_and_nothing_else():
    """The same seed draws the same sessions at every load, none twice before all were drawn, and starts scale."""
    sessions = [chain(f"s{number}", [number + 1.0] * 3) for number in range(10)]
    light, heavy = (started(sessions, 25, load, Setting(), 7) for load in (0.5, 1.0))
    assert [one.session for one in light] == [one.session for one in heavy]
    assert [one.at for one in light] == pytest.approx([2.0 * one.at for one in heavy])
    assert all(before.at < after.at for before, after in pairwise(light))
    for first in (0, 10):
        assert len({one.session.name for one in light[first : first + 10]}) == 10
    work = sum(call.seconds or 0.0 for one in heavy for call in one.session)
    many = started(sessions, 4000, 1.0, Setting(), 7)
    assert many[-1].at * 8 == pytest.approx(work / 25 * 4000, rel=0.1)


def test_the_scarcer_limit_sets_the_load():
    """With two limits the work offered is counted in the one that can serve fewer sessions."""
    sessions = [chain("s", [10.0] * 4)]
    whole = sum(tokens(call) for call in sessions[0])
    slow = started(sessions, 50, 1.0, Setting(concurrency=8, tokens_per_minute=whole), 0)
    alone = started(sessions, 50, 1.0, Setting(concurrency=None, tokens_per_minute=whole), 0)
    slots = started(sessions, 50, 1.0, Setting(concurrency=8, tokens_per_minute=whole * 100), 0)
    assert [one.at for one in slow] == [one.at for one in alone]
    assert slots[-1].at < slow[-1].at


def mixed(count: int) -> list[Session]:
    """Many short sessions and a few long ones, with pauses."""
    rng = random.Random(5)
    return [
        chain(f"s{number}", [rng.uniform(1.0, 9.0) for _ in range(rng.choice([2, 3, 4, 5, 6, 8, 30]))], think=4.0)
        for number in range(count)
    ]


def test_the_same_seed_gives_the_same_outcome():
    """A workload played twice under one policy ends the same to the last digit."""
    workload = started(mixed(20), 30, 1.3, Setting(concurrency=2), 3)
    again = [run_sessions(workload, POLICIES["headrace"], Setting(concurrency=2), seed=3) for _ in range(2)]
    assert again[0] == again[1]


def test_short_sessions_finish_sooner_and_nobody_starves():
    """Median completion and mean slowdown are better than in arrival order, and no call waits 600 s longer."""
    setting = Setting(concurrency=2)
    workload = started(mixed(40), 40, 1.3, setting, 1)
    fifo, ours = (sample(run_sessions(workload, POLICIES[name], setting)) for name in ("fifo", "headrace"))
    assert ours.p50 < fifo.p50
    assert ours.slowdown_mean < fifo.slowdown_mean
    assert ours.wait_longest <= fifo.wait_longest + 600.0
    assert (ours.failed, ours.refused) == (0, 0)


def test_tokens_of_a_minute_hold_sessions_up_without_a_refusal():
    """Under a limit on tokens sessions wait, the provider refuses nothing and every call is answered."""
    setting = Setting(concurrency=None, tokens_per_minute=3_000)
    outcome = run_sessions(at_once(mixed(15)), POLICIES["headrace"], setting)
    assert outcome.refused == 0
    assert sum(one.failed for one in outcome.sessions) == 0
    assert max(one.longest for one in outcome.sessions) > 10.0


def ended(seconds: float, longest: float, failed: int = 0) -> Ended:
    return Ended(seconds, 10.0, longest, longest, failed, 1)


def test_rows_compare_workload_by_workload():
    """Ratios are of paired workloads, and a session starves that waits 600 s beyond arrival order's longest."""
    fifo = [sample(Outcome([ended(20.0, 5.0), ended(40.0, 7.0)], 50.0, 0)) for _ in range(2)]
    own = [sample(Outcome([ended(10.0 * k, 5.0), ended(20.0 * k, 607.1)], 50.0, 0)) for k in (1, 3)]
    result = row(1.3, "headrace", own, fifo)
    ratio = result.against_fifo["mean"]
    assert (ratio.low, ratio.mean, ratio.high) == pytest.approx((0.5, 1.0, 1.5))
    assert (result.starved, result.wait_longest, result.workloads, result.sessions) == (2, 607.1, 2, 2)
    said = missed([result], "headrace")
    assert any("mean completion is 1.000 times" in sentence for sentence in said)
    assert any("2 sessions starved" in sentence for sentence in said)
    assert missed([result], "fifo") == []


def test_quantiles_lie_between_neighbours():
    """A quantile between two values is taken between them."""
    assert [quantile([1.0, 2.0, 4.0], part) for part in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1.0, 1.5, 2.0, 3.0, 4.0]


def test_policies_by_name():
    """A number after the default's name is its `put_back`; anything else that is unknown is refused by a sentence."""
    assert named("headrace@0.25").fair == FairConfig(put_back=0.25)
    for name, said in {"magic": "no policy", "fifo@1": "only headrace", "headrace@x": "not a number"}.items():
        with pytest.raises(ValueError, match=said):
            named(name)


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    register(made)
    made.callback()(lambda: None)
    return made


def written(folder: Path, sessions: int = 6) -> Path:
    """A small file in the trace's format."""
    rows = [",".join(COLUMNS)]
    for number in range(sessions):
        at = 0.0
        for index in range(3 + number):
            rows.append(f"s{number},main,{index},{at},n,{1000 + index},20,900,2.0,1.0,tool_use")
            at += 3.0
    file = folder / TRACE_NAME
    file.write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    return file


def test_the_command_prints_one_json_report(tmp_path: Path, app: typer.Typer):
    """With --json the report comes back whole, arrival order first at each load, and a table without it."""
    written(tmp_path)
    how = ["agents", "--trace", str(tmp_path), "--sessions", "4", "--workloads", "2", "--concurrency", "1"]
    how += ["--workers", "1", "--policy", "headrace", "--load", "1", "--load", "2"]
    result = CliRunner().invoke(app, [*how, "--json"])
    assert result.exit_code == 0, result.output
    report = msgspec.json.decode(result.stdout, type=Report)
    assert [(one.load, one.policy) for one in report.rows] == [
        (load, policy) for load in (1.0, 2.0) for policy in ("fifo", "headrace")
    ]
    table = CliRunner().invoke(app, how)
    assert table.exit_code == 0
    assert "1 calls in flight" in table.stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--policy", "magic"], 2, "magic"),
        (["--concurrency", "0"], 2, "nothing waits"),
        (["--trace", "/nowhere/at/all"], 2, "no file"),
    ],
)
def test_wrong_usage_is_refused(options: list[str], code: int, said: str, tmp_path: Path, app: typer.Typer):
    """Wrong usage ends with exit code 2 and says what was wrong."""
    written(tmp_path)
    result = CliRunner().invoke(app, ["agents", "--trace", str(tmp_path), *options])
    assert result.exit_code == code
    assert said in result.output


def test_a_bad_trace_is_named(tmp_path: Path, app: typer.Typer):
    """A file that is no trace ends with exit code 1 and its name."""
    file = tmp_path / "sessions.csv"
    file.write_text("a,b\n1,2\n")
    result = CliRunner().invoke(app, ["agents", "--trace", str(file)])
    assert result.exit_code == 1
    assert "sessions.csv" in result.output.replace("\n", "")


@pytest.mark.skipif(TRACE is None, reason=missing(TRACE_NAME))
def test_recorded_sessions_are_played():
    """Recorded sessions are played to their ends under both orders, with nobody starved and nothing refused."""
    assert TRACE is not None
    report = measure(
        TRACE, ["headrace"], loads=[1.3], setting=Setting(concurrency=1), sessions=5, workloads=1, workers=1
    )
    assert [(one.policy, one.starved, one.failed, one.refused) for one in report.rows] == [
        ("fifo", 0, 0, 0),
        ("headrace", 0, 0, 0),
    ]
    assert report.rows[0].against_fifo["mean"].mean == 1.0
