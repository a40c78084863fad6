"""`[pool]`: where runs are driven."""

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from agents.errors import InvalidLimits
from orchestrator.config.numbers import Count, NotNegative, Positive
from orchestrator.config.words import said_keys

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS: Final = re.compile(r"https?://[^/@?#\s]+/?")

RAY: Final = frozenset({"address", "workers", "runs", "cpus", "url", "key_env", "key_file", "patience"})
"""The keys of a pool on a Ray cluster."""


class PoolTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[pool]`.

    `local` drives runs in the daemon itself. With `workers` they are driven by worker processes, which are started by
    hand, anywhere, as `headrace worker --daemon URL`. With `ray` the daemon has worker processes placed on the Ray
    cluster at `address` (`auto` is the one that this machine belongs to): as many as `workers`, each of which takes
    `cpus` of a node and drives up to `runs` at once.

    Workers reach the daemon at `url`, which need not be said where it listens on an address that they can use. Where
    it asks for keys, theirs is an admin's, and stands in the environment variable `key_env` or the file `key_file` of
    the machine that the worker is on. A worker that has found no daemon for `patience` seconds ends.

    A worker that was not heard of for `lease_seconds` is gone, and its runs are given to others.
    """

    kind: Literal["local", "workers", "ray"] = "local"
    lease_seconds: Annotated[float, Meta(ge=1, le=3600, extra={"finite": True})] = 30.0
    address: str = "auto"
    workers: Count = 2
    runs: Count = 64
    cpus: NotNegative = 0.5
    url: str | None = None
    key_env: str | None = None
    key_file: str | None = None
    patience: Positive = 600.0

    def __post_init__(self) -> None:
        said = said_keys(self).keys()
        if self.kind != "ray" and said & RAY:
            raise InvalidLimits(min(said & RAY), 'is for a pool on a Ray cluster, which has kind = "ray"')
        if self.kind == "local" and "lease_seconds" in said:
            raise InvalidLimits("lease_seconds", 'is for worker processes: kind = "workers" or "ray"')
        if not self.address.strip():
            raise InvalidLimits("address", 'must be that of a Ray cluster, or "auto"')
        if self.url is not None and not _ADDRESS.fullmatch(self.url):
            # not quoted: it may hold a password
            raise InvalidLimits("url", "must be an address as http://host:port, without path, user and password")
        if self.key_env is not None and self.key_file is not None:
            raise InvalidLimits("key_file", "give it or key_env, not both")
        if self.key_env is not None and not _VARIABLE.fullmatch(self.key_env):
            raise InvalidLimits("key_env", "must be the name of an environment variable, not the key itself")
