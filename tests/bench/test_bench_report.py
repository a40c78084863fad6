"""The page of all benchmarks: what it runs, what it keeps, what it shows."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.durable import DurableReport
from bench.durable_appends import AppendsReport, AppendsResult
from bench.durable_disk import Disk
from bench.durable_path import Cost, PathResult
from bench.durable_resume import ResumeResult
from bench.experiment.calibrate import Calibration
from bench.experiment.calibrate import Row as CalibrationRow
from bench.fairness.measure import Row as FairnessRow
from bench.gateway import Cell
from bench.load import LoadReport, LoadResult
from bench.peers.report import JobResult, PeersReport, SystemResult
from bench.peers.work import Limits
from bench.pool import PoolResult
from bench.replay.report import PolicyReport, Waits
from bench.replay.targets import CASES, Reached
from bench.report import measure as measuring
from bench.report.page import Shown, page
from bench.report.parts import Section, Target, at_most
from bench.report.plan import BENCHES, LEDGER, TRACES, command
from bench.report.record import Record, UnreadableRecord, load, path_of, save
from bench.report.svg import Bar, Group, bars, lines, stacked
from bench.sessions.report import COMPARED, Ratio
from bench.sessions.report import Report as SessionsReport
from bench.sessions.report import Row as SessionsRow
from bench.sessions.workload import Setting
from bench.whatif.report import Agreement, Case, WhatIf
from bench.whatif.report import Waits as RecordWaits

BY_NAME = {bench.name: bench for bench in BENCHES}


def load_report(ratio: float = 1.9) -> LoadReport:
    sizes = ((100, 10), (10_000, 100), (10_000, 1_000))
    return LoadReport([LoadResult(agents, tenants, 9e3, 18e3, ratio, 4_000) for agents, tenants in sizes], 1.1)


def fairness_row(policy: str, greatest: float) -> FairnessRow:
    return FairnessRow(
        suite="overload",
        policy=policy,
        max=greatest,
        mean=20.0,
        variance=30.0,
        tokens_per_second=900.0,
        lowest_max=1.0,
        highest_max=99.0,
        backlogged_max=greatest,
        backlogged_mean=2.0,
        aborted=0,
        first_token={"0": 1.0},
        replicates=1,
    )


def reached(name: str, *, use: float, refused: int, met: bool | None, target: float | None = 0.98) -> Reached:
    return Reached(case=name, use=use, refused_429=refused, calls=1_000, target=target, met=met)


def replayed(policy: str, spread: float) -> PolicyReport:
    waits = Waits(
        name="tenant-1",
        calls=9,
        answered=9,
        p50=1.0,
        p90=2.0,
        p99=3.0,
        mean=1.5,
        longest=4.0,
        first_token_p50=1.0,
        first_token_p99=2.0,
    )
    return PolicyReport(
        trace="a <trace>.csv",
        policy=policy,
        calls=9,
        ok=9,
        in_time=9,
        refused_429=0,
        attempts=9,
        ended=60.0,
        goodput=100.0,
        minutes_backlogged=1,
        tightest=0.99,
        jain_mean=None,
        jain_worst=None,
        spread=None,
        booked_spread=spread,
        bound=100.0,
        errors={},
        use=[],
        priorities=[waits],
        tenants=[waits],
    )


def sessions_row(load: float, policy: str, ratio: float, starved: int = 0) -> SessionsRow:
    names = ("mean", "p50", "p95", "p99", "slowdown_mean", "slowdown_p50", "slowdown_p95", "wait_mean", "wait_longest")
    return SessionsRow(
        load=load,
        policy=policy,
        sessions=60,
        workloads=1,
        **dict.fromkeys(names, 10.0),
        starved=starved,
        failed=0,
        refused=0,
        seconds=100.0,
        against_fifo={name: Ratio(mean=ratio, low=ratio, high=ratio) for name in COMPARED},
    )


def sessions_report(ratio: float = 0.9, starved: int = 0) -> SessionsReport:
    rows = [sessions_row(load, "fifo", 1.0) for load in (0.8, 1.3)]
    rows += [sessions_row(load, "headrace", ratio, starved) for load in (0.8, 1.3)]
    return SessionsReport(setting=Setting(), seed=0, longest_think=60.0, rows=rows, missed=["one is missed"])


def what_if_report(agrees: bool) -> WhatIf:
    waits = RecordWaits(name="all", calls=9, answered=9, p50=1, p90=2, p99=3, mean=1, longest=4, last=9)
    case = Case(
        name="recorded",
        calls=9,
        answered=9,
        retried=0,
        refused_429=None,
        finished=9.0,
        per_second=1.0,
        errors={},
        everybody=waits,
        priorities=[],
        tenants=[],
        use=[],
    )
    pair = (1.0, 1.1)
    agreement = Agreement(name="all", calls=9, mean=pair, p50=pair, p90=pair, finished=pair, near=1.0, agrees=agrees)
    return WhatIf(
        source="/somewhere/secret",
        backend="openai",
        first=0.0,
        span=9.0,
        around=0,
        left_out={},
        changes=[],
        agrees=agrees,
        calibration=[agreement],
        recorded=case,
        as_was=case,
        changed=None,
    )


def peers_report() -> PeersReport:
    jobs = [JobResult("small", 1, 1, 10, 1.0, 1.0), JobResult("large", 2, 1, 10, 1.0, None)]
    one = SystemResult("headrace", "by default", jobs, 10.0, 0.5, 2.0, 3, 1, {"rpm": 1}, 0, 0, 0, 1, None)
    return PeersReport(0, Limits(), 1, 2, None, [one])


def calibration(wrong: float) -> Calibration:
    row = CalibrationRow(truth="no difference", measure="success", difference=0.0, said={"noise": 45, "better": 5})
    return Calibration(
        experiments=50,
        tasks=30,
        repeats=5,
        arms=2,
        seed=0,
        error=0.05,
        wrong=wrong,
        wrong_low=0.0,
        wrong_high=0.2,
        mixed=0.02,
        rows=(row,),
    )


def durable_report() -> DurableReport:
    appends = AppendsReport(4_000.0, 258, [AppendsResult(64, (1, 2, 3), 1e5, 5e4, 19.0, 9.0)])
    path = PathResult(300, 1_200, 5_100, 5_100, Cost(200, 200), Cost(300, 300), Cost(400, 400), 1.2, 1.2)
    return DurableReport(Disk("ext4", 200.0), appends, [path], ResumeResult(9, 1.0, 0.1, 0.1, 0.1, 0.3, 0.03, 0.3))


RESULTS: dict[str, object] = {
    "load": load_report(),
    "fairness": [fairness_row("headrace", 9.0), fairness_row("fcfs", 400.0), fairness_row("vtc", 180.0)],
    "limits": [
        reached("requests", use=0.99, refused=0, met=True),
        reached("shorter", use=0.9, refused=9, met=None, target=None),
    ],
    "replay": [replayed("headrace", 50.0), replayed("fifo", 500.0)],
    "agents": sessions_report(),
    "what-if": [what_if_report(True)],
    "peers": peers_report(),
    "pool": [
        PoolResult("local", 60, 3, 200.0, 1.0, 0.0, 9.0, 0.0),
        PoolResult("workers", 60, 3, 90.0, 0.4, 6.0, 11.0, 2.0),
    ],
    "durable": durable_report(),
    "gateway": [Cell("json", 1, "direct", 20e3, 0.1, 0.2), Cell("json", 1, "headrace", 400.0, None, None, 3)],
    "experiment": calibration(0.02),
}


def record(name: str, result: object, *, quick: bool = False) -> Record:
    return Record(
        bench=name,
        command=f"headrace-bench {name} --json",
        quick=quick,
        version="1",
        code="c0de",
        machine=measuring.this_machine(),
        started="2026-01-31 12:00",
        seconds=125.0,
        exit_code=0,
        result=msgspec.Raw(msgspec.json.encode(result)),
    )


def section(name: str, result: object) -> Section:
    return BY_NAME[name].read(msgspec.json.encode(result))


def unmet(of: Section) -> list[str]:
    return [target.of for target in of.targets if not target.met]


def run_cli(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["report", *arguments], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


class Checked(HTMLParser):
    """Elements that are closed in the order in which they were opened, and what is fetched from elsewhere."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "src" or (name == "href" and not (value or "").startswith("#")):
                self.fetched.append(str(value))
            if name == "href":
                self.links.add((value or "").removeprefix("#"))
            if name == "id":
                self.ids.add(str(value))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Closed at once."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_benchmark_has_a_section_with_tables() -> None:
    """Each benchmark's JSON becomes a section with a table, and with a picture that is well-formed XML."""
    assert set(RESULTS) == set(BY_NAME)
    for name, result in RESULTS.items():
        made = section(name, result)
        assert made.tables
        assert made.pictures
        for table in made.tables:
            assert {len(row) for row in table.rows} <= {len(table.headings)}
        for picture in made.pictures:
            ET.fromstring(picture.svg)


def test_every_command_is_one_that_there_is() -> None:
    """What the plan runs, whole and quick, has options that the command line knows."""
    from typer.main import get_command

    group = get_command(app)
    for bench in BENCHES:
        for arguments in (bench.arguments, bench.quick):
            name, *rest = [*command(arguments, {TRACES: ".", LEDGER: "."}), "--json"]
            rest = ["." if part.startswith("./") else part for part in rest]
            group.commands[name].make_context(name, rest)  # type: ignore[attr-defined]


def test_what_a_bench_says_is_missed_is_missed() -> None:
    """A verdict of the benchmark itself shows as missed, also where rounded figures would pass."""
    assert unmet(section("limits", [reached("requests", use=0.98, refused=0, met=False)])) == ["requests: use"]
    assert unmet(section("limits", [reached("requests", use=0.99, refused=2, met=False)])) == ["requests: 429s"]
    assert unmet(section("what-if", [what_if_report(False)]))
    assert unmet(section("experiment", calibration(0.06)))
    assert len(unmet(section("agents", sessions_report(1.0)))) == 6
    assert unmet(section("agents", sessions_report(starved=1)))
    assert unmet(section("load", load_report(2.1))) == ["ratio at 10,000 agents, 100 tenants"]
    assert unmet(section("replay", [replayed("headrace", 101.0)]))
    assert "one is missed" in section("agents", sessions_report()).notes


def test_each_verdict_of_limits_is_the_benchs_own() -> None:
    """A case that lets few 429s pass is met with so many, and its section has no target missed."""
    case = next(case for case in CASES if case.refusals)
    assert not unmet(section("limits", [reached(case.name, use=0.99, refused=1, met=True)]))


def test_a_target_says_how_far_it_is_from_its_bound() -> None:
    """Differences have a sign and a share; those of shares are in points, and a bound of 0 has no share."""
    assert at_most("a", 2.5, 2.0).difference == "+0.50 (+25.0%)"
    assert at_most("a", 3, 0, ",.0f").difference == "+3"
    assert Target(of="a", measured=0.97, bound=0.98, met=False, at_least=True, form=".1%").difference == "-1.0 points"


def test_the_page_needs_nothing_else_and_hides_nothing() -> None:
    """The page is well nested, fetches nothing, links to what is on it, escapes words, and shows what is missed."""
    shown = [
        Shown(bench=BY_NAME[name], record=record(name, one), section=section(name, one))
        for name, one in RESULTS.items()
    ]
    shown[0] = Shown(
        bench=BENCHES[0], record=record("load", load_report(2.1)), section=section("load", load_report(2.1))
    )
    shown[-1] = Shown(bench=BENCHES[-1], why="nobody asked")
    text = page(shown)
    checked = Checked()
    checked.feed(text)
    assert not checked.open
    assert not checked.fetched
    assert checked.links <= checked.ids
    assert "http" not in text
    assert "<trace>" not in text
    assert "/somewhere/secret" not in text
    assert text.count('<td class="missed">missed</td>') == 2
    assert "nobody asked" in text
    assert "headrace-bench load --json" in re.sub("</?span>", "", text)
    assert "2 min" in text


@pytest.mark.parametrize(
    "svg",
    [
        bars([]),
        bars([Group("<a>", [Bar("x", None), Bar("y", 0.0, 0.0)])], log=True),
        bars([Group("a", [Bar("x", 5.0, 9.0)])]),
        stacked([]),
        stacked([("a & b", {"yes": 0.0, "no": 0.0}), ("c", {"no": 3.0})]),
        lines({}, x_label="x", y_label="y"),
        lines({"a": [(1.0, 2.0)]}, x_label="x", y_label="y"),
        lines({"a": [(1.0, 2.0), (0.0, -2.0)], "b": [(1.0, 0.0)]}, x_label="x", y_label="y", level=0.0),
    ],
)
def test_pictures_of_odd_figures_are_pictures(svg: str) -> None:
    """Nothing, one point, zeros and missing figures give well-formed pictures within their frame."""
    root = ET.fromstring(svg)
    wide, high = map(float, root.get("viewBox", "").split()[2:])
    for element in root:
        for name, most in (("x", wide), ("y", high), ("cx", wide), ("cy", high)):
            assert 0 <= float(element.get(name, "0")) <= most
        assert "nan" not in (element.get("d") or "")


def test_bars_are_as_long_as_their_figures() -> None:
    """Twice the figure is twice the length."""
    root = ET.fromstring(bars([Group("a", [Bar("x", 5.0), Bar("x", 10.0)])]))
    first, second = (float(one.get("width", "")) for one in root if one.tag == "rect")
    assert second == pytest.approx(2 * first)


def measured(
    folder: Path, runs: list[list[str]], *, quick: bool = True, fresh: bool = False, printed: bytes = b""
) -> Record:
    def run(arguments: object, say: object) -> tuple[int, bytes, str]:
        runs.append(list(arguments))  # type: ignore[call-overload]
        return 1, printed, "said /hidden/traces is broken"

    bench = BY_NAME["replay"]
    return measuring.measure(
        bench,
        folder,
        given={TRACES: "/hidden/traces"},
        shown={TRACES: "TRACES"},
        quick=quick,
        fresh=fresh,
        say=lambda line: None,
        run=run,
    )


def test_what_is_measured_is_not_measured_again(tmp_path: Path) -> None:
    """The same settings are run once, other settings or --fresh again, and no path is shown that nobody typed."""
    runs: list[list[str]] = []
    printed = msgspec.json.encode(RESULTS["replay"])
    first = measured(tmp_path, runs, printed=printed)
    assert first.measured
    assert measured(tmp_path, runs, printed=printed) == first
    assert len(runs) == 1
    assert runs[0][1].startswith("/hidden/traces/")
    measured(tmp_path, runs, printed=printed, fresh=True)
    measured(tmp_path, runs, printed=printed, quick=False)
    assert len(runs) == 3
    assert b"hidden" not in path_of(tmp_path, "replay").read_bytes()
    assert b"TRACES/azure" in path_of(tmp_path, "replay").read_bytes()


def test_what_gave_nothing_is_measured_again(tmp_path: Path) -> None:
    """A benchmark that printed no result keeps what it said last, and is run again the next time."""
    runs: list[list[str]] = []
    first = measured(tmp_path, runs, printed=b"Traceback")
    assert not first.measured
    assert first.said == "said TRACES is broken"
    assert load(tmp_path, "replay") == first
    measured(tmp_path, runs)
    assert len(runs) == 2


def test_other_source_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of another state of the source is not taken for this one's."""
    runs: list[list[str]] = []
    printed = msgspec.json.encode(RESULTS["replay"])
    measured(tmp_path, runs, printed=printed)
    monkeypatch.setattr(measuring, "code", lambda: "other")
    measured(tmp_path, runs, printed=printed)
    assert len(runs) == 2


def test_a_file_that_is_no_record_is_refused(tmp_path: Path) -> None:
    """A file of another shape is named in one sentence, from the command line with exit code 2."""
    path_of(tmp_path, "load").write_text('{"results": []}')
    with pytest.raises(UnreadableRecord, match="no record"):
        load(tmp_path, "load")
    code, _, told = run_cli("--from", str(tmp_path), "--out", str(tmp_path / "page"))
    assert code == 2
    assert "load.json is no record" in told.replace("\n", " ")


def test_a_page_of_results_that_are_there(tmp_path: Path) -> None:
    """--from runs nothing, says what is not there, and tells targets in --json; --check fails on a missed one."""
    save(tmp_path, record("load", load_report(2.1), quick=True))
    save(tmp_path, record("pool", [{"another": "shape"}]))
    arguments = ["--from", str(tmp_path), "--out", str(tmp_path / "page"), "--only", "load", "--only", "gateway"]
    code, told, _ = run_cli(*arguments, "--json")
    made = msgspec.json.decode(told)
    assert code == 0
    assert (made["met"], made["missed"]) == (1, 1)
    assert made["benches"][1]["why"] == "gateway.json is not there"
    assert "--quick" in (tmp_path / "page" / "index.html").read_text()
    code, told, _ = run_cli(*arguments, "--check")
    assert code == 1
    assert "missed: load: ratio at 10,000 agents" in told
    code, told, _ = run_cli("--from", str(tmp_path), "--out", str(tmp_path / "page"))
    assert code == 1
    assert "another shape" in told


def test_names_are_checked(tmp_path: Path) -> None:
    """A benchmark that there is not is wrong usage."""
    assert run_cli("--only", "speed", "--out", str(tmp_path))[0] == 2


def test_what_cannot_be_run_says_why(tmp_path: Path) -> None:
    """Without traces or a ledger a benchmark that needs one says what names it; the others need nothing."""
    assert "--ledger" in measuring.why_not(BY_NAME["what-if"], {})
    assert "--traces" in measuring.why_not(BY_NAME["fairness"], {})
    assert "vtc_real.csv" in measuring.why_not(BY_NAME["fairness"], {TRACES: str(tmp_path)})
    assert not measuring.why_not(BY_NAME["load"], {})


def test_a_benchmark_runs_in_a_process_of_its_own() -> None:
    """What the process prints and says comes back, with its exit code."""
    said: list[str] = []
    code, printed, last = measuring.in_a_process(
        ["experiment", "--calibrate", "--experiments", "10", "--json"], said.append
    )
    assert code == 0
    assert BY_NAME["experiment"].read(printed).tables
    assert last in said[-1]
    code, printed, last = measuring.in_a_process(["load", "--size", "many"], said.append)
    assert (code, printed) == (2, b"")
    assert last
