"""`headrace-bench replay`: what it measures, prints, draws and refuses."""

import json
from pathlib import Path

import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner

from agents.port import Priority
from bench.play import Played
from bench.policies import POLICIES
from bench.replay import cli, plot
from bench.replay.report import Waits, report
from bench.replay.run import Replayed, replay
from bench.replay.settings import Provider, Shape
from bench.replay.spans import ServiceOverTime, covers, jain, merged, percentile, ticks
from bench.replay.targets import CASES, reach
from bench.traces.base import TraceCall
from bench.traces.detect import read_trace
from bench.traces.find import find_trace, missing
from tests.bench.replay_rig import reported, workload
from tests.bench.trace_files import SERVEGEN, write

app = typer.Typer()


@app.callback()
def bench() -> None:
    """Only the two commands, so that no other bench has a say here."""


cli.register(app)


def _run(*arguments: str | Path) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return ran.exit_code, ran.stdout, ran.stderr


def _trace(folder: Path) -> Path:
    lines = [f"{call.at},{call.tenant},{call.input},{call.output}" for call in workload()]
    return write(folder, "t_s,client,in_tok,out_tok\n" + "\n".join(lines) + "\n")


def test_headrace_causes_no_429_uses_its_limit_and_lets_light_tenants_through() -> None:
    """Against calls without a policy on the same limits: all answered, none refused, the light tenants at once."""
    ours, none = reported("headrace"), reported("no-policy")
    assert (ours.refused_429, ours.ok, ours.attempts) == (0, 220, 220)
    assert none.refused_429 > 100
    waits = {group.name: group for group in ours.tenants}
    assert waits["light"].p50 < 3.0 < waits["busy"].p50
    urgent, standard, batch = ours.priorities
    assert urgent.p90 < standard.p90 < batch.p90
    assert ours.booked_spread is None or ours.bound is None or ours.booked_spread <= ours.bound


def test_a_report_is_what_its_calls_say() -> None:
    """Percentiles, goodput, deadlines, errors and fairness follow from the calls by hand."""
    provider = Provider(requests=60, headers=(0.0, 0.0))

    def one(at: float, tenant: str, waited: float, ended: float, outcome: str = "ok") -> Played:
        call = TraceCall(at=at, input=100, output=50, tenant=tenant, deadline=100.0)
        first = at + waited if outcome == "ok" else None
        return Played(call=call, arrived=at, ended=ended, waited=waited, outcome=outcome, first_token=first)

    played = [
        one(0.0, "a", 60.0, 60.0),
        one(0.0, "b", 70.0, 70.0),
        one(0.0, "a", 10.0, 20.0),
        one(0.0, "a", 20.0, 30.0),
        one(0.0, "b", 40.0, 50.0),
        one(0.0, "b", 110.0, 120.0),
        one(5.0, "b", 5.0, 10.0, "throttled"),
    ]
    result = report("t", "p", Replayed(played, provider.backend(0), 120.0, [(1.0, 4.0), (9.0, 10.0), (0.0, 0.0)]))
    assert (result.calls, result.ok, result.in_time, result.errors) == (7, 6, 5, {"throttled": 1})
    assert result.goodput == pytest.approx(5 * 150 / 120.0)
    assert (result.booked_spread, result.bound) == (9.0, 10.0)
    # in the first minute both waited throughout: two calls of a were served, and one of b
    assert result.jain_mean == pytest.approx((400 + 200) ** 2 / (2 * (400**2 + 200**2)), abs=1e-4)
    assert result.spread == 200.0
    b = next(group for group in result.tenants if group.name == "b")
    assert (b.calls, b.answered, b.p50, b.p90, b.longest) == (4, 3, 70.0, 110.0, 110.0)


def test_intervals_and_percentiles() -> None:
    """Unions, coverage, service spread over ticks, nearest ranks and Jain's index, each by an example."""
    union = merged([(5.0, 7.0), (0.0, 2.0), (1.0, 3.0), (4.0, 4.0), (3.0, 3.5)])
    assert union == [(0.0, 3.5), (5.0, 7.0)]
    assert covers(union, 0.0, 3.5)
    assert covers(union, 5.5, 6.0)
    assert not covers(union, 3.0, 5.5)
    assert not covers([], 0.0, 1.0)
    assert ticks(25.0, 10.0) == [(0.0, 10.0), (10.0, 20.0)]
    service = ServiceOverTime(10.0)
    service.add(5.0, 25.0, 40.0)
    service.add(3.0, 3.0, 1.0)
    assert [service.at(tick) for tick in range(4)] == [11.0, 20.0, 10.0, 0.0]
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.9, 0.99, 1.0)] == [50.0, 90.0, 99.0, 100.0]
    assert (percentile([], 0.5), percentile([3.0], 0.99)) == (0.0, 3.0)
    assert (jain([1.0, 1.0, 1.0, 1.0]), jain([1.0, 0.0, 0.0, 0.0]), jain([0.0, 0.0])) == (1.0, 0.25, 1.0)


def test_a_trace_is_bent_as_asked() -> None:
    """Faster, cut, parted among tenants with shares as 1/k, with priorities and deadlines, the same for one seed."""
    calls = [TraceCall(at=float(n), input=1, output=1) for n in range(4000)]
    shape = Shape(speed=2.0, span=1500.0, tenants=3, interactive=0.2, batch=0.3, deadline=9.0, seed=5)
    bent = shape.bend(calls)
    assert bent == shape.bend(calls)
    assert (len(bent), bent[-1].at) == (3001, 1500.0)
    shares = [sum(call.tenant == f"tenant-{k}" for call in bent) / len(bent) for k in (1, 2, 3)]
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=0.03)
    urgencies = [sum(call.priority is priority for call in bent) / len(bent) for priority in Priority]
    assert urgencies == pytest.approx([0.2, 0.5, 0.3], abs=0.03)
    assert {call.deadline for call in bent} == {9.0}
    assert Shape().bend(calls) == calls


def test_json_is_a_list_with_one_report_per_trace_and_policy(tmp_path: Path) -> None:
    """Standard output holds the list alone, twice the same to the byte, and progress goes elsewhere."""
    path = _trace(tmp_path)
    command = ("replay", path, "--rpm", "90", "--tpm", "40000", "--policy", "fifo", "--policy", "headrace", "--json")
    code, out, err = _run(*command)
    assert code == 0
    reports = json.loads(out)
    assert [(one["trace"], one["policy"]) for one in reports] == [("trace.csv", "fifo"), ("trace.csv", "headrace")]
    assert [use["limit"] for use in reports[0]["use"]] == ["requests", "total_tokens"]
    assert set(reports[0]["tenants"][0]) == set(Waits.__struct_fields__)
    assert "of one core" in err
    assert _run(*command)[1] == out


def test_the_table_has_the_policies_side_by_side(tmp_path: Path) -> None:
    """Each policy is a column, with its waits by priority and tenant."""
    code, out, _ = _run("replay", _trace(tmp_path), "--rpm", "90")
    assert code == 0
    for word in ("headrace", "no-policy", "429s caused", "busy", "standard", "Jain", "use of requests"):
        assert word in out


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_drawn_the_same_each_time(tmp_path: Path, ending: str) -> None:
    """`--plot` writes a picture, and the same replay the same bytes."""
    pytest.importorskip("matplotlib")
    one, two = tmp_path / f"one.{ending}", tmp_path / f"two.{ending}"
    for path in (one, two):
        plot.plot([[reported()]], path)
    assert one.stat().st_size > 5_000
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.csv"], 1, "cannot be read"),
        (["TRACE", "--plot", "waits.gif"], 1, "ends in .png, .svg or .pdf"),
        (["TRACE", "--plot", "no/where/waits.png"], 1, "cannot be written"),
        (["TRACE", "--policy", "lifo"], 2, "there is no policy 'lifo'"),
        (["TRACE", "--interactive", "0.7", "--batch", "0.7"], 2, "together at most 1"),
        (["TRACE", "--rpm", "20", "--window", "1"], 2, "less than 1"),
        (["TRACE", "--rpm", "0"], 2, "--rpm"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    """Bad files and pictures are exit code 1, wrong usage 2."""
    trace = write(tmp_path, SERVEGEN)
    ended, _, err = _run("replay", *[str(trace) if argument == "TRACE" else argument for argument in arguments])
    assert ended == code
    assert says in " ".join(err.replace("│", " ").split())


def test_limits_are_used_up_without_a_429() -> None:
    """Requests and exact tokens reach their target within a few minutes."""
    for case in CASES[:2]:
        reached = reach(case, minutes=4.0)
        assert reached.met
        assert reached.refused_429 == 0
        assert reached.use >= 0.98


def test_limits_is_a_command_that_fails_where_a_target_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """It prints each case as JSON, and its exit code says whether all targets hold."""
    monkeypatch.setattr("bench.replay.limits_cli.CASES", CASES[:1])
    code, out, _ = _run("limits", "--minutes", "4", "--json")
    assert (code, [one["met"] for one in json.loads(out)]) == (0, [True])
    monkeypatch.setattr("bench.replay.limits_cli.CASES", [replace(CASES[0], target=1.5)])
    assert _run("limits", "--minutes", "4")[0] == 1


def test_some_minutes_of_a_public_trace() -> None:
    """All calls of the Azure trace's first minutes are answered under limits that they exceed, with no 429."""
    name = "azure2023_conv.csv.gz"
    path = find_trace(name)
    if path is None:
        pytest.skip(missing(name))
    calls = Shape(span=150.0, tenants=5).bend(read_trace(path).calls)
    provider = Provider(requests=240, total_tokens=300_000)
    result = report(name, "headrace", replay(calls, POLICIES["headrace"], provider, noise=0.1, seed=0))
    assert (result.ok, result.refused_429) == (len(calls), 0)
    assert result.ended > 150.0
