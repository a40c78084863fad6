"""Virtual time: the same every time, and what real time would have been."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from bench.play import Played, Recorder, play
from bench.policies import POLICIES, served
from bench.recorded import RecordedBackend, Speed
from bench.replay.settings import Provider
from bench.traces.base import TraceCall
from bench.virtual import in_virtual_time
from tests.bench.replay_rig import played

ROOT = Path(__file__).resolve().parents[2]


def test_two_processes_give_the_same_bytes() -> None:
    """A replay's report is the same to the byte in processes that hash differently."""
    command = [sys.executable, "-m", "tests.bench.replay_rig"]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    ]
    first, second = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert first.startswith(b'[{"trace":"workload"')
    assert first == second


def test_the_seed_decides_the_order_of_tasks_and_nothing_outside_does() -> None:
    """The same seed gives the same order whatever was run before, and another seed another one."""

    async def scenario() -> list[int]:
        order: list[int] = []

        async def one(number: int) -> None:
            await trio.sleep(1.0)
            order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(one, number)
        return order

    first = in_virtual_time(scenario, seed=3)
    random.seed(0)
    in_virtual_time(scenario, seed=4)
    assert in_virtual_time(scenario, seed=3) == first
    assert in_virtual_time(scenario, seed=4) != first
    assert sorted(first) == list(range(40))


def test_hours_pass_at_once_and_an_error_comes_out_as_it_is() -> None:
    """The clock begins at 0 and shows what was slept; a scenario's own error is raised."""

    async def scenario() -> float:
        assert trio.current_time() == 0.0
        await trio.sleep(36_000.0)
        return trio.current_time()

    async def broken() -> None:
        await trio.sleep(1.0)
        raise LookupError("broken")

    assert in_virtual_time(scenario) == 36_000.0
    with pytest.raises(LookupError, match="broken"):
        in_virtual_time(broken)
    assert in_virtual_time(scenario) == 36_000.0


def test_trio_is_left_as_it_was() -> None:
    """Neither its generator nor its switch is changed for what runs afterwards."""
    scheduler = trio._core._run  # type: ignore[attr-defined]
    before = scheduler._r.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    played()
    assert (scheduler._r.getstate(), scheduler._ALLOW_DETERMINISTIC_SCHEDULING) == before


SHORT = Provider(concurrency=2, speed=Speed(first_token=0.03, output_rate=500.0, steps=2), headers=(0.0, 0.0))


async def _short() -> tuple[list[Played], float]:
    """Some calls that have to wait for one another, since two may run at once: a bit more than a second."""
    calls = [TraceCall(at=0.02 * n, input=10, output=10 + 25 * (n % 3), tenant=f"t{n % 4}") for n in range(24)]
    backend: RecordedBackend = SHORT.backend(0)
    recorder, began = Recorder(), trio.current_time()
    async with served(POLICIES["headrace"], SHORT.config(), [SHORT.endpoint(backend)], hooks=[recorder]) as to:
        await play(calls, to.call, recorder)
    return recorder.played, trio.current_time() - began


def test_virtual_and_real_time_agree() -> None:
    """The same calls through the same owner end at the same times, to the delays of a real machine."""
    virtual, virtual_end = in_virtual_time(_short)
    real, real_end = trio.run(_short)
    assert virtual_end > 1.0
    # a busy machine is only ever late
    assert virtual_end - 0.05 < real_end < virtual_end * 1.5 + 0.5
    assert len(real) == len(virtual) == 24
    assert {one.outcome for one in real} == {"ok"}
    waited = sum(one.waited for one in virtual)
    assert waited > 2.0
    assert waited * 0.8 < sum(one.waited for one in real) < waited * 2.0 + 5.0
