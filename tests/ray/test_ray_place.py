"""Workers placed on a Ray cluster of two nodes, by the program that the daemon starts for it."""

import socket
import subprocess
import sys

import msgspec

from bench.ray_local import Cluster
from orchestrator.pools.placement import Outcome, Placement, WorkerSettings
from tests.ray.listener import Listener, listening
from tests.ray.ray_cluster import require_ray


def placement(cluster: Cluster, listener: Listener, name: str, *, workers: int = 2, runs: int = 8) -> Placement:
    """So many workers, which report to the listener."""
    settings = WorkerSettings(daemons=(listener.url,), runs=runs, patience=600.0)
    return Placement(address=cluster.address, name=name, workers=workers, cpus=0.1, settings=settings)


def place(wanted: Placement) -> dict[str, str]:
    """Runs the program; what became of each actor."""
    code, outcomes = run(wanted)
    assert code == 0, outcomes
    return {outcome.name: outcome.state for outcome in outcomes}


def run(wanted: Placement) -> tuple[int, list[Outcome]]:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator.worker.ray_place"],
        input=msgspec.json.encode(wanted),
        capture_output=True,
        timeout=90,
        check=False,
    )
    return done.returncode, [msgspec.json.decode(line, type=Outcome) for line in done.stdout.splitlines()]


def test_placed_twice_workers_are_made_once(two_nodes: Cluster) -> None:
    """The second placement finds the workers of the first, and those are all that there are."""
    with listening() as listener:
        wanted = placement(two_nodes, listener, "twice")
        assert place(wanted) == {"twice-1": "made", "twice-2": "made"}
        first = listener.workers("twice-1", "twice-2")
        assert place(wanted) == {"twice-1": "there", "twice-2": "there"}
        assert listener.workers("twice-1", "twice-2") == first


def test_workers_that_are_too_many_or_of_other_settings_end(two_nodes: Cluster) -> None:
    """A placement of fewer workers or other settings ends what does not fit, and nothing of another daemon's."""
    with listening() as listener, listening() as another:
        place(placement(two_nodes, another, "other-more", workers=1))
        place(placement(two_nodes, listener, "other"))
        first = listener.workers("other-1", "other-2")
        assert place(placement(two_nodes, listener, "other", workers=1)) == {"other-1": "there", "other-2": "ended"}
        assert listener.workers("other-1") == {"other-1": first["other-1"]}
        code, outcomes = run(placement(two_nodes, listener, "other", workers=1, runs=9))
        assert (code, [outcome.state for outcome in outcomes]) == (0, ["ended", "made"])
        assert listener.workers("other-1") != {"other-1": first["other-1"]}
        assert another.workers("other-more-1").keys() == {"other-more-1"}


def test_workers_of_a_lost_node_begin_again_on_another(two_nodes: Cluster) -> None:
    """The workers of a node that is killed come up as new ones on the node that is left."""
    with listening() as listener:
        place(placement(two_nodes, listener, "lost"))
        first = listener.workers("lost-1", "lost-2")
        two_nodes.kill()
        two_nodes.add()
        second = listener.workers("lost-1", "lost-2")
        assert len(set(first.values()) & set(second.values())) == 1, "one was on the node that was killed"


def test_a_cluster_that_is_away_is_named() -> None:
    """Where no cluster answers the program says so, with the address, and soon."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        settings = WorkerSettings(daemons=("http://127.0.0.1:1",), runs=1, patience=1.0)
        require_ray()
        code, outcomes = run(Placement(address=address, name="x", workers=1, cpus=1.0, settings=settings))
    assert code == 1
    assert [outcome.state for outcome in outcomes] == ["failed"]
    assert f"no Ray cluster answers at {address}" in outcomes[0].why
