"""Pools: runs that are driven by worker processes, while the daemon stays the owner of all that is shared."""
