"""Runs on a Ray cluster of two nodes, with a real daemon: a node is lost, the daemon is killed, the cluster is away."""

from pathlib import Path

from bench.ray_local import Cluster, local_cluster
from orchestrator.client.client import open_client
from tests.daemon.process import ROOT
from tests.ray.deeds import FOLDER, done, processes
from tests.ray.ray_cluster import require_ray
from tests.ray.ray_daemon import Place, free_port, hold_to_the_rules, start_job, until, until_ended

ITEMS = 24


def begun(deeds: Path, job: str) -> bool:
    """Whether the job is in the middle of its deeds, on both nodes."""
    return done(deeds, "posted", job).total() >= ITEMS // 4 and len(processes(deeds, job)) >= 2


async def test_runs_of_a_lost_node_go_on_elsewhere(two_nodes: Cluster, deeds: Path, tmp_path: Path) -> None:
    """A node is killed in the middle of a job: each item has one line all the same, and nothing is done twice."""
    place = Place(tmp_path, free_port(), two_nodes.address)
    with place.daemon():
        async with open_client(place.url) as client:
            await start_job(client, "lost", ITEMS)
            await until(lambda: begun(deeds, "lost"))
            two_nodes.kill()
            view = await until_ended(client, "lost")
            assert (view.phase, view.done) == ("done", ITEMS), view
            assert await hold_to_the_rules(client, "lost", ITEMS, deeds) > 0
    two_nodes.add()


async def test_workers_outlive_a_killed_daemon(two_nodes: Cluster, deeds: Path, tmp_path: Path) -> None:
    """A daemon is killed and started again: the same workers go on with what they drive, and no run is taken over."""
    place = Place(tmp_path, free_port(), two_nodes.address, lease_seconds=20.0)
    async with open_client(place.url) as client:
        with place.daemon():
            await start_job(client, "orphans", ITEMS)
            await until(lambda: begun(deeds, "orphans"))
            before = {worker.worker for worker in (await client.workers()).workers}
        with place.daemon():
            view = await until_ended(client, "orphans")
            assert (view.phase, view.done) == ("done", ITEMS), view
            assert {worker.worker for worker in (await client.workers()).workers} == before
            assert await hold_to_the_rules(client, "orphans", ITEMS, deeds) == 0


async def test_a_cluster_that_comes_later_is_found(tmp_path: Path) -> None:
    """A daemon whose cluster is away says so and waits; runs begin as soon as the cluster is there."""
    require_ray()
    port, deeds = free_port(), tmp_path / "deeds"
    deeds.mkdir()
    place = Place(tmp_path, free_port(), f"127.0.0.2:{port}")
    with place.daemon() as process:
        process.hear(f"no Ray cluster answers at 127.0.0.2:{port}")
        async with open_client(place.url) as client:
            await start_job(client, "early", 2)
            with local_cluster(port=port, PYTHONPATH=str(ROOT), **{FOLDER: str(deeds)}):
                view = await until_ended(client, "early")
                assert (view.phase, view.done) == ("done", 2), view
                await hold_to_the_rules(client, "early", 2, deeds)
