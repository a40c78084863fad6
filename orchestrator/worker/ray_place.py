"""Placing workers on a Ray cluster: a program of its own, so that the daemon need not have Ray inside.

    python -m orchestrator.worker.ray_place < PLACEMENT

It makes the actors that are missing, ends those that are too many or were made for other settings, says what it did
(`orchestrator.pools.placement`), and exits. Actors are detached: they outlive this program and the daemon, and Ray
starts them again on another node where theirs is lost. Run twice it makes nothing twice: an actor has a name, and a
name is given once.

The nodes must have the same versions of Python, Ray and Headrace, and whatever the configured tools import.
"""

import ipaddress
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from orchestrator.pools.placement import NAMESPACE, Outcome, Placement, actor_name

REACHED_WITHIN: Final = 5.0
"""Seconds in which the cluster's head must take a connection; Ray itself tries for minutes."""
ANSWERS_WITHIN: Final = 5.0
"""Seconds in which an actor that is there says what it was made for. One that is being started again does not."""
MADE_WITHIN: Final = 30.0
"""Seconds in which new actors, all together, have begun; then they wait for room."""
LEAVES_WITHIN: Final = 20.0
"""Seconds for an actor to let go of its runs in good order before it is killed."""

INSTALL: Final = 'pip install "headrace[ray]"'


class Away(Exception):
    """The cluster cannot be reached; the message says why."""


def place(placement: Placement) -> list[Outcome]:
    """Brings the cluster's actors in line with `placement`. Blocks; raises `Away`."""
    ray = connect(placement.address)
    try:
        return _Placing(ray, placement).all()
    finally:
        ray.shutdown()


def connect(address: str) -> Any:
    """Ray, connected to the cluster at `address`. Raises `Away`."""
    try:
        import ray
    except ImportError as error:
        raise Away(f"Ray is not installed beside the daemon: `{INSTALL}`") from error
    more: dict[str, Any] = {}
    if address != "auto" and "://" not in address:
        host = _reach(address)
        if ipaddress.ip_address(host).is_loopback:
            more["_node_ip_address"] = host  # Ray would look for a node with the machine's own address
    try:
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False, **more)
    except Exception as error:
        raise Away(f"no Ray cluster answers at {address}: {_first_line(error)}") from error
    return ray


def _reach(address: str) -> str:
    try:
        parts = urlsplit(f"//{address}")
        with socket.create_connection((parts.hostname or "", parts.port or 6379), REACHED_WITHIN) as link:
            return str(link.getpeername()[0])
    except (OSError, ValueError) as error:
        raise Away(f"no Ray cluster answers at {address}: {error}") from error


class _Placing:
    def __init__(self, ray: Any, placement: Placement) -> None:
        self._ray = ray
        self._placement = placement
        self._settings = msgspec.json.encode(placement.settings)

    def all(self) -> list[Outcome]:
        names = [actor_name(self._placement, number) for number in range(1, self._placement.workers + 1)]
        known = set(self._ray.util.list_named_actors())
        found = {name: self._look_at(name) for name in names if name in known}
        ended = self._end({name for name, outcome in found.items() if outcome.state == "ended"} | self._surplus(known))
        there = [outcome for outcome in found.values() if outcome.state != "ended"]
        return ended + there + self._make([name for name in names if name not in {known.name for known in there}])

    def _surplus(self, known: set[str]) -> set[str]:
        """Actors of this name with a number that is none of the wanted ones."""
        parts = {name: name.rpartition("-") for name in known}
        mine = {name: number for name, (base, _, number) in parts.items() if base == self._placement.name}
        return {name for name, number in mine.items() if number.isdigit() and int(number) > self._placement.workers}

    def _look_at(self, name: str) -> Outcome:
        """Whether it may stay."""
        try:
            actor = self._ray.get_actor(name)
            settings = self._ray.get(actor.made_for.remote(), timeout=ANSWERS_WITHIN)
        except self._ray.exceptions.GetTimeoutError:
            return Outcome(state="there", name=name, why="it is not up yet, or waits for a node with room")
        except (ValueError, self._ray.exceptions.RayActorError):
            return Outcome(state="ended", name=name)
        return Outcome(state="there" if settings == self._settings else "ended", name=name)

    def _end(self, names: set[str]) -> list[Outcome]:
        """All of them at once, in good order as far as time allows; they have given their names back then."""
        leaving = {}
        for name in sorted(names):
            with suppress(ValueError):
                actor = self._ray.get_actor(name)
                leaving[actor.leave.remote()] = actor
        _, late = (
            self._ray.wait(list(leaving), num_returns=len(leaving), timeout=LEAVES_WITHIN) if leaving else ([], [])
        )
        for reference in late:
            self._ray.kill(leaving[reference], no_restart=True)
        until = time.monotonic() + ANSWERS_WITHIN
        while names & set(self._ray.util.list_named_actors()) and time.monotonic() < until:
            time.sleep(0.05)
        return [Outcome(state="ended", name=name) for name in sorted(names)]

    def _make(self, names: list[str]) -> list[Outcome]:
        from orchestrator.worker.ray_worker import RayWorker

        options = {
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "max_restarts": -1,
            "num_cpus": self._placement.cpus,
            "scheduling_strategy": "SPREAD",
            "get_if_exists": True,
        }
        remote = self._ray.remote(RayWorker)
        actors = {name: remote.options(name=name, **options).remote(name, self._settings) for name in names}
        until = time.monotonic() + MADE_WITHIN
        return [self._begun(name, actor, until - time.monotonic()) for name, actor in actors.items()]

    def _begun(self, name: str, actor: Any, seconds: float) -> Outcome:
        try:
            self._ray.get(actor.made_for.remote(), timeout=max(seconds, 0.1))
        except self._ray.exceptions.GetTimeoutError:
            return Outcome(state="waiting", name=name, why="no node of the cluster has room for it")
        except self._ray.exceptions.RayError as error:
            return Outcome(state="failed", name=name, why=_last_line(error))
        return Outcome(state="made", name=name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _last_line(error: Exception) -> str:
    """Ray quotes a whole traceback, whose last line is the error."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


def main() -> None:
    """The program. Exit codes: 0 placed, also in part; 1 the cluster is away."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    placement = msgspec.json.decode(sys.stdin.buffer.read(), type=Placement)
    try:
        outcomes, code = place(placement), 0
    except Away as away:
        outcomes, code = [Outcome(state="failed", why=str(away))], 1
    for outcome in outcomes:
        sys.stdout.write(msgspec.json.encode(outcome).decode() + "\n")
    sys.stdout.flush()
    sys.exit(code)


if __name__ == "__main__":
    main()
