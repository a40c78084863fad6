"""`headrace-bench what-if`: the ledger of a real owner, played again as it was and changed."""

import json
import math
import random
from pathlib import Path

import msgspec
import pytest
import trio
import typer
from typer.testing import CliRunner

from agents.port import Call, Flow, Priority
from bench.play import submit
from bench.policies import POLICIES
from bench.recorded import RecordedBackend, recorded
from bench.traces.ledger import FILE, read_rows
from bench.virtual import in_virtual_time
from bench.whatif import cli
from bench.whatif.change import read_change
from bench.whatif.record import records_of, with_priorities
from bench.whatif.report import WhatIf
from bench.whatif.run import find_out
from bench.whatif.table import what_if_tables
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.config.policy import dispatch_of, rules_of
from orchestrator.daemon.stores import FILE as DAEMONS_FILE
from orchestrator.ledger import LedgerHook
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.store.ledger_port import CallRow
from orchestrator.store.sqlite import open_sqlite

CONFIG = """
[backends.api]
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
rpm = 60
concurrency = 8

[tenants.alice]
weight = 1

[tenants.bob]
weight = 3
"""
NOON = 1_700_000_000.0

app = typer.Typer()


@app.callback()
def bench() -> None:
    """Only the one command, so that no other bench has a say here."""


cli.register(app)


class _Rows(list[CallRow]):
    """A ledger that keeps what has ended."""

    def write(self, rows: "list[CallRow] | tuple[CallRow, ...]") -> None:
        self.extend(row for row in rows if row.ended is not None)


def _daemon_day(config: Path, *, agents: bool = False) -> list[CallRow]:
    """The ledger of an owner under that file: 60 s in which two tenants ask for twice what its limit lets through.

    As agents, six runs each make eight calls one after the other instead.
    """
    was = read_change(config, None, ()).was
    rules = rules_of(was, "api")["api"]
    rows = _Rows()

    async def scenario() -> None:
        hook = LedgerHook(rows, wall=lambda: NOON + trio.current_time())
        backend = RecordedBackend([SimLimit(kind="requests", amount=60)])
        endpoint = Endpoint("api", backend, rules.limits, rules.in_flight, rules.concurrency)
        owner = Owner(OwnerConfig("api", dispatch_of(was, "api")), [endpoint], hooks=[hook], rng=random.Random(1))
        rng = random.Random(2)

        async def ask(tenant: str, run: str, key: str) -> None:
            request = recorded(rng.randint(20, 300), rng.randint(5, 80), noise=rng.lognormvariate(0.0, 0.2))
            flow = Flow(tenant, "", run)
            await submit(owner, Call(request, flow, Priority.STANDARD, agent=bool(run), key=key))

        async def run_of(tenant: str, run: str) -> None:
            for step in range(8):
                await ask(tenant, run, f"{run}/{step}")
                await trio.sleep(0.5)

        async with trio.open_nursery() as nursery:
            await nursery.start(owner.run)
            async with trio.open_nursery() as callers:
                if agents:
                    for number in range(12):
                        callers.start_soon(run_of, ("alice", "bob")[number % 2], f"run{number}")
                else:
                    for number in range(120):
                        await trio.sleep(rng.expovariate(2.0))
                        callers.start_soon(ask, ("alice", "bob")[number % 2], "", f"call{number}")
            nursery.cancel_scope.cancel()

    in_virtual_time(scenario)
    return sorted(rows, key=lambda row: (row.arrived, row.key))


def _write(folder: Path, rows: list[CallRow]) -> Path:
    path = folder / "calls.jsonl"
    path.write_bytes(b"\n".join(msgspec.json.encode(row) for row in rows) + b"\n")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "headrace.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def ledger(config: Path) -> Path:
    return _write(config.parent, _daemon_day(config))


def _ask(ledger: Path, config: Path, *sets: str, **options: bool) -> WhatIf:
    (report,) = find_out(ledger, read_change(config, None, sets), **options)  # type: ignore[arg-type]
    return report


def _means(report: WhatIf) -> tuple[float, float, float, float]:
    assert report.changed is not None
    was, now = ({one.name: one.mean for one in case.tenants} for case in (report.as_was, report.changed))
    return was["alice"], now["alice"], was["bob"], now["bob"]


def test_nothing_changed_is_what_was_recorded(ledger: Path, config: Path) -> None:
    """The replay of a queue that grew for a minute has its waits, call by call, and says so."""
    report = _ask(ledger, config)
    everybody = report.calibration[0]
    assert everybody.mean[0] > 10.0
    assert everybody.near > 0.95
    assert report.agrees
    assert everybody.finished[1] == pytest.approx(everybody.finished[0], abs=1.0)
    assert report.changed is None


def test_another_weight_turns_the_waits_around(ledger: Path, config: Path) -> None:
    """Who has the greater weight waits less; the end stays where it was."""
    report = _ask(ledger, config, "tenants.alice.weight=3", "tenants.bob.weight=1")
    alice, alice_now, bob, bob_now = _means(report)
    assert bob < 0.5 * alice
    assert alice_now < 0.5 * bob_now
    assert report.changed is not None
    assert report.changed.finished == pytest.approx(report.as_was.finished, rel=0.05)
    assert report.changes == ["tenants.alice.weight: 1 -> 3", "tenants.bob.weight: 3 -> 1"]


def test_twice_the_limit_ends_sooner_and_half_of_it_later(ledger: Path, config: Path) -> None:
    """Waits, the end and the limit's use follow the limit, without a 429 either way."""
    twice, half = _ask(ledger, config, "backends.api.rpm=120"), _ask(ledger, config, "backends.api.rpm=30")
    assert twice.changed is not None
    assert half.changed is not None
    assert twice.changed.everybody.mean < 0.2 * twice.as_was.everybody.mean
    assert twice.changed.finished < twice.as_was.finished - 30.0
    assert half.changed.everybody.mean > 2.0 * half.as_was.everybody.mean
    assert half.changed.finished > half.as_was.finished + 60.0
    assert (twice.changed.refused_429, half.changed.refused_429) == (0, 0)
    assert [use.amount for use in twice.changed.use] == [120.0]


def test_a_limit_that_the_provider_does_not_have_costs_429s(ledger: Path, config: Path) -> None:
    """Where the provider goes on as it did, calls without any policy are refused, and our own wait as they did."""
    ours = _ask(ledger, config, "backends.api.rpm=120", limits_as_was=True)
    (alone,) = find_out(ledger, read_change(config, None, ()), policy=POLICIES["no-policy"])
    assert ours.changed is not None
    assert alone.changed is not None
    assert ours.changed.everybody.mean == pytest.approx(ours.as_was.everybody.mean, rel=0.2)
    assert alone.changed.refused_429 is not None
    assert alone.changed.refused_429 > 50
    assert alone.changes == ["policy: headrace -> no-policy"]


def test_agents_ask_again_as_soon_as_they_are_answered(config: Path) -> None:
    """Twice the limit ends runs in far less time, as their calls wait for one another and not for the clock."""
    ledger = _write(config.parent, _daemon_day(config, agents=True))
    closed = _ask(ledger, config, "backends.api.rpm=240")
    opened = _ask(ledger, config, "backends.api.rpm=240", open_loop=True)
    assert closed.agrees
    assert opened.agrees
    assert closed.calibration[0].finished[1] == pytest.approx(closed.calibration[0].finished[0], rel=0.02)
    assert closed.changed is not None
    assert opened.changed is not None
    assert closed.changed.finished < 0.6 * closed.as_was.finished
    assert opened.changed.finished > 0.9 * opened.as_was.finished


def test_a_default_priority_is_that_of_the_calls_made_with_it(ledger: Path, config: Path) -> None:
    """A tenant's calls with its old default go first under the new one; those of other priorities stay."""
    report = _ask(ledger, config, 'tenants.alice.default_priority="interactive"')
    alice, alice_now, bob, bob_now = _means(report)
    assert alice_now < 0.5 * alice
    assert bob_now > bob
    assert report.changed is not None
    assert [one.name for one in report.changed.priorities] == ["interactive", "standard"]
    (record,) = records_of(read_rows(ledger))
    batch = with_priorities(record.calls, {"alice": Priority.BATCH}, {"alice": Priority.INTERACTIVE})
    assert batch == record.calls


def test_what_came_before_only_warms_up(ledger: Path, config: Path) -> None:
    """With a beginning in the midst of the queue the waits still agree, since those before it are played as well."""
    since = NOON + 30.0
    (report,) = find_out(ledger, read_change(config, None, ()), since=since, until=NOON + 60.0)
    assert report.around > 40
    assert report.first >= since
    assert report.agrees
    assert report.recorded.calls == report.as_was.calls == 120 - report.around


def _row(key: str, arrived: float, ended: float, *, run: str = "r", job: str = "") -> CallRow:
    return CallRow(
        key=key, tenant="t", job=job, run=run, backend="api", arrived=1000 + arrived, sent=1000 + arrived,
        ended=1000 + ended, outcome="ok", input=10, output=5,
    )  # fmt: skip


def test_what_a_call_waited_for_is_seen_in_its_run() -> None:
    """Two calls side by side follow the one before them, a third follows both, and a client's follows none."""
    rows = [
        _row("plan", 0.0, 2.0),
        _row("left", 3.0, 5.0),
        _row("right", 3.0, 7.0),
        _row("client", 6.0, 6.5, run=""),
        _row("sum", 8.0, 9.0),
    ]
    (record,) = records_of(rows)
    assert [asked.after for asked in record.calls] == [(), (0,), (0,), (), (1, 2)]
    assert [asked.think for asked in record.calls] == pytest.approx([0.0, 1.0, 1.0, 0.0, 1.0])
    (opened,) = records_of(rows, open_loop=True)
    assert not any(asked.after for asked in opened.calls)


def test_a_jobs_run_follows_the_one_that_made_room_for_it() -> None:
    """With two workers a third run begins when the first ends; one that began in the meantime waited for nobody."""
    rows = [
        _row("a", 0.0, 2.0, run="a", job="j"),
        _row("b", 0.0, 5.0, run="b", job="j"),
        _row("c", 2.1, 6.0, run="c", job="j"),
        _row("d", 3.5, 4.0, run="d", job="j"),
        _row("e", 2.2, 4.0, run="e", job="other"),
    ]
    (record,) = records_of(sorted(rows, key=lambda row: row.arrived))
    assert {asked.call.run: asked.after for asked in record.calls} == {"a": (), "b": (), "c": (0,), "d": (), "e": ()}


def test_what_cannot_be_played_is_counted() -> None:
    """Open calls, those that never went out and those without an answer are named, and bytes are as they were."""
    rows = [
        _row("ok", 0.0, 2.0),
        msgspec.structs.replace(_row("open", 1.0, 0.0), ended=None),
        msgspec.structs.replace(_row("unsent", 1.0, 2.0), sent=0.0, outcome="queue_timeout"),
        msgspec.structs.replace(_row("failed", 1.0, 2.0), outcome="unavailable", output=None),
        msgspec.structs.replace(_row("long", 3.0, 4.0), held_input=30),
        msgspec.structs.replace(_row("usual", 3.0, 4.0), held_input=15),
        msgspec.structs.replace(_row("usual too", 3.0, 4.0), held_input=15),
    ]
    (record,) = records_of(rows)
    assert record.left_out == {"open": 1, "never sent": 1, "failed": 1}
    assert [asked.noise for asked in record.calls] == [1.0, 2.0, 1.0, 1.0]


async def test_the_store_of_a_daemon_is_read_where_it_keeps_it(tmp_path: Path, config: Path) -> None:
    """A data folder and its file, in use, give the same calls as the lines."""
    rows = [_row(f"{number}", number, number + 1.0, run=f"{number}") for number in range(5)]
    assert FILE == DAEMONS_FILE
    async with open_sqlite(tmp_path / FILE) as store:
        store.ledger.write(rows)
        await store.ledger.flush()
        assert read_rows(tmp_path) == read_rows(tmp_path / FILE) == read_rows(_write(tmp_path, rows)) == rows
        assert [row.key for row in read_rows(tmp_path, since=1001.0, until=1003.0)] == ["1", "2"]


def _run(*arguments: str | Path) -> tuple[int, str, str]:
    ran = CliRunner().invoke(app, ["what-if", *map(str, arguments)], env={"COLUMNS": "200"})
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_command_says_the_same_twice(ledger: Path, config: Path) -> None:
    """Its JSON is the same to the byte, its tables name what was changed and what came of it."""
    arguments = (ledger, "--was", config, "--set", "backends.api.rpm=120", "--from", str(NOON), "--json")
    code, out, err = _run(*arguments)
    assert code == 0, err
    assert _run(*arguments)[1] == out
    (report,) = json.loads(out)
    assert (report["backend"], report["agrees"], report["recorded"]["calls"]) == ("api", True, 120)
    code, out, _ = _run(*arguments[:-1])
    assert code == 0
    for words in ("agrees with the record", "backends.api.rpm: 60 -> 120", "429s expected", "api: requests/min"):
        assert words in out
    assert what_if_tables(msgspec.convert(report, WhatIf))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--from", "yesterday"), 2, "no moment like"),
        (("--from", "20", "--to", "10"), 2, "--from is not before --to"),
        (("--policy", "best"), 2, "there is no policy"),
        (("--set", "backends.api.rpm"), 1, "must look like KEY=VALUE"),
        (("--set", "backends.api.rmp=3"), 1, "did you mean rpm?"),
        (("--set", "backends.api.tpm="), 1, "no such key in the file"),
        (("--set", "a b=3"), 1, "is not a key"),
        (("--to", "10"), 1, "has no calls of that time"),
        (("--config", "missing.toml"), 1, "cannot read it"),
    ],
)
def test_what_makes_no_sense_is_refused(
    ledger: Path, config: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """Each with its exit code and one sentence."""
    ended, _, err = _run(ledger, "--was", config, *arguments)
    assert (ended, says in " ".join(err.split())) == (code, True), err


def test_a_backend_that_is_nowhere_is_named(ledger: Path, config: Path) -> None:
    """A configuration without the backend of the calls is refused by the names of both."""
    other = config.parent / "other.toml"
    other.write_text(CONFIG.replace("backends.api", "backends.elsewhere"))
    code, _, err = _run(ledger, "--was", config, "--config", other)
    assert code == 1
    assert "has calls to the backend 'api'" in err
    assert "there: elsewhere" in err


def test_a_key_can_be_taken_away_and_text_needs_no_quotes(config: Path) -> None:
    """An empty value removes a limit, bare words are text, and tables are merged."""
    change = read_change(
        config, None, ("backends.api.rpm=", "backends.api.counted=at_admission", "tenants.alice={weight = 2}")
    )
    assert rules_of(change.now, "api")["api"].limits == ()
    assert change.now.backends["api"].counted == "at_admission"
    assert change.now.tenants["alice"].weight == 2.0
    assert math.isclose(change.now.tenants["bob"].weight, 3.0)
