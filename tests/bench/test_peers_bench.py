"""The peers benchmark, small: what its parts do, what it measures and what it says."""

import asyncio
import io
import json
import time
import tomllib
from collections import Counter

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from bench.peers.bucket import Bucket
from bench.peers.cli import register
from bench.peers.client import asked_for
from bench.peers.provider import Counts
from bench.peers.report import jain, report, result
from bench.peers.systems import by_job, configuration, gateway_system, known_systems
from bench.peers.table import peers_tables
from bench.peers.work import LARGE, SMALL, Answered, Limits, Told, jobs

LIMITS = Limits(rpm=600, tpm=60_000)


def command() -> Typer:
    app = Typer()
    app.callback()(lambda: None)
    register(app)
    return app


def test_jobs_take_turns_and_a_seed_gives_the_same_ones() -> None:
    """The calls of both jobs alternate until the small one has no more, and a seed decides every prompt."""
    items = jobs(2, 5, seed=3)
    assert [item.job for item in items] == [SMALL, LARGE, SMALL, LARGE, LARGE, LARGE, LARGE]
    assert items == jobs(2, 5, seed=3)
    assert items != jobs(2, 5, seed=4)
    assert {job: len(part) for job, part in by_job(items).items()} == {SMALL: 2, LARGE: 5}


def test_a_bucket_lets_a_burst_through_and_then_keeps_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amounts of 10 at 10 a second with a burst of 3 s pass three at once, then one each second."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)

    async def passing() -> list[float]:
        bucket = Bucket(10, 3)
        passed = []
        for _ in range(5):
            await bucket.take(10)
            passed.append(round(now, 2))
        bucket.correct(-20)
        await bucket.take(10)
        passed.append(round(now, 2))
        await bucket.take(100)
        return [*passed, round(now, 2)]

    with asyncio.Runner() as runner:
        assert runner.run(passing()) == [0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 4.0]


def test_the_exact_pause_counts_before_the_rounded_one() -> None:
    """A server's pause in milliseconds is preferred, one in words of no number is none."""
    assert asked_for(httpx2.Headers({"retry-after": "2", "retry-after-ms": "1250"})) == 1.25
    assert asked_for(httpx2.Headers({"retry-after": "2"})) == 2.0
    assert asked_for(httpx2.Headers({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"})) == 0.0
    assert asked_for(None) == 0.0


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=8))
def test_jains_index_is_1_for_even_shares_and_never_below_one_part(amounts: list[float]) -> None:
    """The index lies between one part in n and 1, and is 1 where all have the same."""
    assert 1 / len(amounts) - 1e-9 <= jain(amounts) <= 1 + 1e-9
    assert jain([amounts[0]] * len(amounts)) == pytest.approx(1)


def test_figures_follow_from_what_clients_and_provider_saw() -> None:
    """Goodput, waste, unanswered calls and evenness are those of a small case counted by hand."""
    items = jobs(1, 3)
    told = [
        Told([Answered(SMALL, 2.0, 100)], refused=1),
        Told([Answered(LARGE, 1.0, 100), Answered(LARGE, 4.0, 200)], errors=2),
    ]
    counts = Counts(arrived=7, completed=4, aborted=0, throttled={"total_tokens": 3}, tokens=550)
    found = result("one", "", items, told, counts, LIMITS)
    assert (found.goodput, found.use, found.last) == (100.0, 0.1, 4.0)
    assert (found.attempts, found.refused, found.seen, found.wasted) == (7, 3, 1, 150)
    assert (found.errors, found.unanswered, found.jain) == (2, 1, 1.0)
    assert [(job.half, job.ended) for job in found.jobs] == [(2.0, 2.0), (4.0, None)]


def test_a_system_without_any_answer_is_reported_and_shown() -> None:
    """Nothing answered gives no rate, no ratio and no evenness, and a table none the less."""
    items = jobs(1, 1)
    nothing = result("none", "", items, [Told()], Counts(0, 0, 0, {}, 0), LIMITS)
    found = report(LIMITS, items, [nothing])
    assert (found.floor, found.systems[0].goodput_ratio, found.systems[0].jain) == (None, None, None)
    console = Console(record=True, width=200, file=io.StringIO())
    console.print(peers_tables(found))
    assert "calls without an answer" in console.export_text()


def test_plans_hold_every_call_once_and_split_buckets_the_limits_once() -> None:
    """Whatever the system, its processes have all calls together, and their buckets not more than the limits."""
    items = jobs(3, 9)
    systems = [*known_systems(LIMITS, within=5).values(), gateway_system("http://127.0.0.1:1/v1/", 2, {}, within=5)]
    for system in systems:
        plans = system.plans("http://127.0.0.1:1/v1", items)
        assert Counter(item for plan in plans for item in plan.items) == Counter(items)
        if plans[0].manner == "bucket":
            assert sum(plan.tpm for plan in plans) == LIMITS.tpm


def test_the_daemon_is_told_of_the_short_window_only_where_the_report_says_so() -> None:
    """The default daemon knows a minute's limits; the other one has a window's share of each as a limit besides."""
    plain, told = (tomllib.loads(configuration("http://127.0.0.1:1/v1", LIMITS, told=told)) for told in (False, True))
    assert "limits" not in plain["backends"]["upstream"]
    assert told["backends"]["upstream"]["limits"] == [
        {"kind": "requests", "amount": 100.0, "per": 10.0},
        {"kind": "total_tokens", "amount": 10_000.0, "per": 10.0},
    ]


def test_headers_name_the_job() -> None:
    """A gateway's clients send the headers that were asked for, with the job's name in them."""
    system = gateway_system("http://127.0.0.1:1/v1", 2, {"x-team": "t-{job}"}, within=5)
    plans = system.plans("http://127.0.0.1:1/v1", jobs(1, 1))
    assert [plan.headers for plan in plans] == [{SMALL: {"x-team": "t-small"}}, {LARGE: {"x-team": "t-large"}}]


def test_the_command_measures_side_by_side() -> None:
    """Every call is answered through the gateway and past it, no token is wasted, and the JSON holds the ratios."""
    wanted = ["--quick", "--tpm", "600000", "--rpm", "6000", "--only", "retry", "--only", "headrace", "--json"]
    ran = CliRunner().invoke(command(), ["peers", *wanted])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert [system["name"] for system in found["systems"]] == ["retry on 429", "headrace"]
    assert (found["small"], found["large"]) == (4, 12)
    for system in found["systems"]:
        assert (system["unanswered"], system["errors"], system["wasted"]) == (0, 0, 0)
        assert system["goodput_ratio"] > 0
    tokens = [[job["tokens"] for job in system["jobs"]] for system in found["systems"]]
    assert tokens[0] == tokens[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "best"], "there is no best"),
        (["--against", "https://api.example.com/v1"], "not a URL on loopback"),
        (["--header", "nothing"], "not a header"),
        (["--window", "0.01"], "less than 1"),
    ],
)
def test_wrong_usage_is_refused_with_what_would_be_right(arguments: list[str], says: str) -> None:
    """What makes no sense ends with exit code 2 before anything is started."""
    ran = CliRunner().invoke(command(), ["peers", *arguments], env={"COLUMNS": "300"})
    assert ran.exit_code == 2
    assert says in " ".join(ran.output.split())
