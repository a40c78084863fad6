"""A Ray cluster of several nodes on one machine, for as long as somebody holds its standard input.

    python -m bench.ray_cluster NODES PORT

It prints its address as soon as all nodes are up: a head without a processor, on which no actor has a place, and
`NODES` nodes with two each. Every node has a loopback address of its own, since Ray tells nodes apart by theirs. The
head listens on `PORT`, 0 for any. Then it obeys lines, and answers each with a line: `kill` ends the oldest node,
the head aside, as the loss of its machine would: all that runs there is killed; `add` puts a further node in. At the
end of its input everything is taken down. See `bench.ray_local`, which starts it as it should be started.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ray.cluster_utils import Cluster

HEALTH: Final = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 2,
}
"""Nodes are missed after one second, where Ray's own settings take twenty."""

STORE: Final = 80_000_000
"""Bytes of each node's object store, in which nothing is put: about as small as Ray takes it."""


def serve(nodes: int, port: int) -> None:
    """The cluster, until the input ends."""
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            **({"gcs_server_port": port} if port else {}),
            "node_ip_address": "127.0.0.2",
            "object_store_memory": STORE,
            "_system_config": HEALTH,
            "include_dashboard": False,
            "include_log_monitor": False,
        },
    )
    members: list[Any] = []
    addresses = (f"127.0.0.{last}" for last in range(3, 250))

    def add() -> None:
        address = next(addresses)
        members.append(cluster.add_node(num_cpus=2, node_ip_address=address, object_store_memory=STORE))

    try:
        for _ in range(nodes):
            add()
        print(cluster.address, flush=True)
        for line in sys.stdin:
            match line.split():
                case ["kill"]:
                    _kill(members.pop(0))
                case ["add"]:
                    add()
                case words:
                    raise SystemExit(f"unknown: {words}")
            print("done", flush=True)
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def _kill(node: Any) -> None:
    """SIGKILL for all processes of the node, the actors' first."""
    raylet = node.all_processes["raylet"][0].process.pid
    for pid in [*_below(raylet), raylet]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)


def _below(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_below(int(child))]
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    serve(int(sys.argv[1]), int(sys.argv[2]))
