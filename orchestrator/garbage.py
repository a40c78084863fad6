"""How Python's cyclic garbage collector is set in a process that owns a queue.

Thousands of waiting calls are thousands of live objects, and the default thresholds make the collector look through the
youngest of them after every 700 new ones. Almost nothing here is garbage in a cycle (errors that hold their own
traceback are), so looking seventy times less often costs some megabytes and saves a quarter of the owner's time.
"""

import gc

THRESHOLDS = (50_000, 20, 50)
"""New container objects before a young collection, and the ratios of the older generations to it."""


def tune_collector() -> None:
    """Sets the thresholds, and takes what exists already (modules, mostly) out of the collector's sight."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
