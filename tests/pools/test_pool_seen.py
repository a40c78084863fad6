"""What people see of worker processes, and of runs that wait for one."""

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.port import Journal
from agents.scripted import ask, in_turn, say
from orchestrator.config.decode import decode_text
from orchestrator.daemon.workers import hint_of
from orchestrator.instruments.runs import MeteredJournal, RunMetrics
from tests.pools.pooled import LEASE, LOOKS, POSTS, Hand, Net, daemon, workers
from tests.runs.lasting import Kept

NO_WORKER = "no worker is connected; start one: headrace worker --daemon URL"


class Gauge:
    """The metrics of one daemon's runs, as they are scraped."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._metrics = RunMetrics(self._registry)

    def journal(self, log: Journal) -> Journal:
        return MeteredJournal(log, self._metrics)

    def states(self) -> dict[str, float]:
        families = text_string_to_metric_families(generate_latest(self._registry).decode())
        samples = [sample for family in families for sample in family.samples if sample.name.endswith("runs")]
        return {sample.labels["state"]: sample.value for sample in samples if sample.value}


async def test_a_run_says_that_no_worker_is_there(autojump_clock):
    """Listed and shown whole, for as long as that is so; with a worker there is nothing to say."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far:
        run = await far.start()
        await trio.sleep(1)
        assert (await far.service.view(run)).message == NO_WORKER
        assert (await far.service.detail(run)).message == NO_WORKER
        async with workers(transport, "a"):
            await trio.sleep(1)
            assert (await far.service.view(run)).message == ""
            assert (await far.service.wait(run)).message == ""


async def test_a_run_whose_worker_died_says_so_once_none_is_left(autojump_clock):
    """The dead worker counts until its time is over; then its run waits for another, and says for which."""
    transport = Net()
    async with daemon(transport=transport, script=POSTS) as far:
        async with workers(transport, "a"):
            run = await far.start()
            await trio.sleep(5)
        assert (await far.service.view(run)).message == ""
        await trio.sleep(2 * LEASE)
        assert (await far.service.view(run)).message == NO_WORKER


async def test_the_pool_in_a_few_numbers(autojump_clock):
    """Workers, what they drive, what waits; one that should have been heard of is named before it is given up."""
    async with daemon(script=POSTS) as far:
        assert far.pool.view().problem == NO_WORKER
        for _ in range(3):
            await far.start()
        hand = Hand(far.pool)
        await hand.poll(room=2)
        seen = far.pool.view()
        assert (seen.workers, seen.runs, seen.room, seen.waiting, seen.silent, seen.problem) == (1, 2, 0, 1, (), "")
        await trio.sleep(LEASE / 2 + 1)
        [silent] = far.pool.view().silent
        assert (silent.worker, silent.quiet) == ("hand", LEASE / 2 + 1)
        await trio.sleep(LEASE / 2)
        seen = far.pool.view()
        assert (seen.workers, seen.runs, seen.waiting, seen.silent, seen.problem) == (0, 0, 3, (), NO_WORKER)


async def test_a_run_that_a_worker_kept_over_a_restart_is_counted(autojump_clock):
    """No event says that it goes on, and yet the next daemon's gauge has it, in its state, until it ends."""
    store, transport, first, second = Kept(), Net(), Gauge(), Gauge()
    script = in_turn(ask("post", {"text": "a"}), ask("look", {"where": "b"}), say("done"))
    async with workers(transport, "w1"):
        async with daemon(store, script=script, transport=transport, journal=first.journal) as far:
            run = await far.start()
            await trio.sleep(10)
            assert first.states() == {"waiting_tool": 1}
        async with daemon(store, script=script, transport=transport, journal=second.journal) as far:
            await trio.sleep(5)
            assert second.states() == {"waiting_tool": 1}
            await trio.sleep(46.5)
            assert second.states() == {"waiting_model": 1}
            await far.service.wait(run)
            assert "run_resumed" not in await far.kinds(run)
            assert second.states() == {}


async def test_a_run_that_waited_over_a_restart_is_counted_when_it_starts(autojump_clock):
    """One that no worker had before the restart is in the next daemon's gauge as soon as it has one."""
    store, gauge = Kept(), Gauge()
    async with daemon(store, script=LOOKS) as far:
        run = await far.start()
    transport = Net()
    async with (
        daemon(store, script=LOOKS, transport=transport, journal=gauge.journal) as far,
        workers(transport, "w1"),
    ):
        await trio.sleep(LEASE + 0.5)
        assert sum(gauge.states().values()) == 1
        await far.service.wait(run)
        assert gauge.states() == {}


def test_the_hint_names_this_daemon():
    """Its address as the machine of a worker would write it; on Ray, workers come by themselves."""
    base = '[backends.sim]\nkind = "simulated"\n[pool]\nkind = "workers"\n[daemon]\n'
    assert (
        hint_of(decode_text(f"{base}port = 9000", "x")) == "start one: headrace worker --daemon http://127.0.0.1:9000"
    )
    assert hint_of(decode_text(f'{base}host = "::1"', "x")).endswith("http://[::1]:8700")
    assert hint_of(decode_text(f"{base}port = 0", "x")).endswith("--daemon URL")
    assert "0.0.0.0" not in hint_of(decode_text(f'{base}host = "0.0.0.0"', "x"))
    assert "Ray cluster at auto" in hint_of(decode_text(base.replace('"workers"', '"ray"'), "x"))
