"""The fairness benchmark: its measure, its workloads, its command."""

import json
import random
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bench.fairness.cli import register
from bench.fairness.measure import Row, measure
from bench.fairness.metric import TICKS, WINDOW, Outcome, backlogged, unevenness
from bench.fairness.suites import JITTER, SYNTHETIC
from bench.fairness.systems import is_policy
from bench.fairness.targets import verdicts
from bench.traces.base import TraceError
from bench.traces.vtc import read_vtc

HEAD = "req_time_s,client,prompt_len,output_len\n"


def _streams(rates: dict[str, int], length: float = 5.0) -> list[Outcome]:
    """For each client as many requests of service 300 a second as said, each served while it comes."""
    return [
        Outcome(client=client, at=float(at), input=100, output=100, first=float(at), end=at + length)
        for client, rate in rates.items()
        for at in range(700)
        for _ in range(rate)
    ]


def test_ticks_are_those_of_the_artifact() -> None:
    """Nineteen windows of a minute, the first from 28.5 s and the last to 601.5 s."""
    assert len(TICKS) == 19
    assert TICKS[0] - WINDOW / 2 == pytest.approx(28.5)
    assert TICKS[-1] + WINDOW / 2 == pytest.approx(601.5)


def test_whoever_gets_what_it_asks_for_is_served_evenly() -> None:
    """A client that asks for less than another gets adds nothing, however much less that is."""
    assert unevenness(_streams({"light": 1, "heavy": 4})).max < 0.1 * 300


def test_a_client_that_is_passed_over_counts_by_what_it_lacks() -> None:
    """Served at half its demand beside one with twice as much, a client adds the lesser of its two shortfalls."""
    served = _streams({"a": 4})
    for at in range(700):
        served += [
            Outcome(client="b", at=float(at), input=100, output=100, first=float(at), end=at + 1.0),
            Outcome(client="b", at=float(at), input=100, output=100, first=2000.0, end=2001.0),
        ]
    figures = unevenness(served)
    assert figures.mean == pytest.approx(300.0, rel=0.05)
    assert figures.variance < 100


def test_what_was_turned_away_asks_for_nothing() -> None:
    """Requests without an end change no figure."""
    served = _streams({"a": 2, "b": 1})
    aborted = [Outcome(client="b", at=float(at), input=1000, output=1000) for at in range(600)]
    assert unevenness(served + aborted) == unevenness(served)


def test_backlogged_needs_a_waiting_request_of_everybody_throughout() -> None:
    """A moment at which one client has none waiting keeps a window out."""
    always = [Outcome(client="a", at=0.0, input=1, output=1, first=100.0, end=101.0)]
    gap = [
        Outcome(client="b", at=0.0, input=1, output=1, first=50.0, end=60.0),
        Outcome(client="b", at=50.5, input=1, output=1, first=100.0, end=101.0),
    ]
    counts = backlogged(always + gap)
    assert counts(0.0, 50.0)
    assert counts(51.0, 100.0)
    assert not counts(40.0, 60.0)


@pytest.mark.parametrize("suite", SYNTHETIC, ids=lambda suite: suite.name)
def test_suites_are_the_same_for_a_seed_and_in_order(suite: object) -> None:
    """A replicate depends on its seed and number alone, and comes in the order of arrival."""
    one = next(other for other in SYNTHETIC if other is suite)
    calls = one.replicate(3, 1)
    assert calls == one.replicate(3, 1)
    assert calls != one.replicate(3, 2)
    assert [call.at for call in calls] == sorted(call.at for call in calls)
    assert all(call.input > 0 and call.output > 0 for call in calls)


def test_rates_and_silences_are_those_described() -> None:
    """Overload has 1.5 and 3 requests a second for 360 s; on and off leaves the odd minutes to the other client."""
    suites = {suite.name: suite for suite in SYNTHETIC}
    overload = suites["overload"].replicate(0, 0)
    assert [sum(call.tenant == client for call in overload) for client in "01"] == [540, 1080]
    on_off = suites["on_off_less"].replicate(0, 0)
    silent = [call for call in on_off if call.tenant == "0" and call.at % 120 > 60 + JITTER and call.at % 120 < 119.9]
    assert not silent
    assert sum(call.tenant == "0" for call in on_off) == pytest.approx(150, abs=3)


def test_the_real_trace_is_read(tmp_path: Path) -> None:
    """A row becomes a call of the client's number."""
    path = tmp_path / "vtc.csv"
    path.write_text(HEAD + "0.5,dummy-lora-7b-rank-8-13,13,199\n")
    (call,) = read_vtc(path)
    assert (call.at, call.tenant, call.input, call.output) == (0.5, "13", 13, 199)


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    """The complaint has the file, the line and what would be right."""
    path = tmp_path / "vtc.csv"
    path.write_text(HEAD + "0.5,c,13,199\n1.0,c,many,3\n")
    with pytest.raises(TraceError, match=r"vtc.csv, line 3: prompt_len is 'many'"):
        list(read_vtc(path))


def _trace(tmp_path: Path) -> Path:
    rng = random.Random(5)
    rows = [
        f"{at:.3f},c-{rng.choice((1, 1, 1, 2))},{rng.randrange(10, 200)},{rng.randrange(10, 80)}"
        for at in sorted(rng.uniform(0, 100) for _ in range(60))
    ]
    path = tmp_path / "vtc_real.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n")
    return path


def test_figures_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    """One process and two give the same rows."""
    path = _trace(tmp_path)
    one, two = (measure(["real"], ["headrace"], trace=path, replicates=2, workers=workers) for workers in (1, 2))
    assert one == two
    assert [row.policy for row in one] == ["headrace"]


def _app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    return app


def test_the_command_prints_one_json_list(tmp_path: Path) -> None:
    """Each row has suite, policy and the paper's figures; progress goes elsewhere."""
    arguments = ["fairness", "--trace", str(_trace(tmp_path)), "--suite", "real", "--policy", "vtc", "--policy", "rpm5"]
    result = CliRunner().invoke(_app(), [*arguments, "--replicates", "2", "--workers", "1", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["policy"] for row in rows] == ["vtc", "rpm5"]
    assert {"suite", "policy", "max", "mean", "variance", "tokens_per_second"} <= rows[0].keys()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--policy", "best"], "'best' is none of"),
        (["--suite", "real"], "needs --trace"),
        (["--trace", "nowhere.csv", "--suite", "real", "--policy", "vtc"], "cannot be read"),
    ],
)
def test_what_cannot_be_run_is_said_with_exit_code_2(arguments: list[str], word: str) -> None:
    """An unknown name or a missing trace ends in one sentence."""
    result = CliRunner(env={"HEADRACE_TRACES": "", "COLUMNS": "300"}).invoke(_app(), ["fairness", *arguments])
    assert result.exit_code == 2
    assert word in result.output


def test_names_with_a_fill_are_policies() -> None:
    """`headrace@1.15` is one, other tails are none."""
    assert is_policy("headrace@1.15")
    assert not is_policy("headrace@")
    assert not is_policy("headrace@-1")


def test_targets_are_checked_both_ways() -> None:
    """A figure above its bound and a throughput below FCFS' are missed, others met."""
    row = Row(
        suite="real",
        policy="headrace",
        max=400.0,
        mean=100.0,
        variance=100.0,
        tokens_per_second=700.0,
        lowest_max=1.0,
        highest_max=1.0,
        backlogged_max=None,
        backlogged_mean=None,
        aborted=0,
        first_token={},
        replicates=1,
    )
    fcfs = Row(**{**{name: getattr(row, name) for name in Row.__struct_fields__}, "policy": "fcfs"})
    met = {verdict.figure: verdict.met for verdict in verdicts([row, fcfs])}
    assert met == {
        "max": False,
        "mean": True,
        "variance": True,
        "tokens/s": False,
        "tokens/s, 98% of FCFS'": True,
    }
