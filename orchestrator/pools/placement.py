"""What the daemon says to the program that places workers on a Ray cluster, and what it hears.

The program reads one `Placement` from its standard input, and writes an `Outcome` on a line of its own for each thing
that it did or found; see `orchestrator.worker.ray_place`.
"""

from typing import Literal

from msgspec import Struct, field

from orchestrator.version import version as installed_version

NAMESPACE = "headrace"
"""Ray's namespace for all actors of all daemons."""


class WorkerSettings(Struct, frozen=True, kw_only=True):
    """What a worker on another machine needs to know: see `[pool]`. Names its key, and never holds one.

    A worker of other settings is made anew, and so is one of another `version`.
    """

    daemons: tuple[str, ...]
    runs: int
    patience: float
    key_env: str | None = None
    key_file: str | None = None
    version: str = field(default_factory=installed_version)


class Placement(Struct, frozen=True, kw_only=True):
    """`workers` actors called `NAME-1`, `NAME-2` and so on, each with `cpus` of a node of the cluster at `address`."""

    address: str
    name: str
    workers: int
    cpus: float
    settings: WorkerSettings


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of the actor `name`; of the whole placement where the name is empty. `why` is for people.

    `there`: it was there before. `made`: it was made and runs. `waiting`: it was made, and no node has room for it yet.
    `ended`: it was one too many, or made for other settings, and has ended. `failed`: it cannot be made.
    """

    state: Literal["there", "made", "waiting", "ended", "failed"]
    name: str = ""
    why: str = ""


def actor_name(placement: Placement, number: int) -> str:
    """The name of actor `number`, counted from 1."""
    return f"{placement.name}-{number}"


def actor_of(worker: str) -> str:
    """The actor that a worker process calls itself after: each process of an actor adds a mark of its own."""
    return worker.rpartition(".")[0]
