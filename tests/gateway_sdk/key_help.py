"""Keys for a daemon that is about to start."""

import time
from pathlib import Path

from orchestrator.key_file import change_keys


def add_key(folder: Path, tenant: str) -> str:
    """A new key of `tenant` in the daemon's folder, as `headrace keys add` makes it."""
    return change_keys(folder, lambda ring: ring.add(tenant, time.time())).text
