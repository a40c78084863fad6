"""`python -m tests.chaos SEED` plays one schedule again; `python -m tests.chaos FROM:TO [--jobs N]` plays many."""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time

from tests.chaos.play import Verdict, play
from tests.chaos.schedule import schedule

HANGS_AFTER = 120
"""Seconds of the wall clock; a schedule takes a twentieth of one."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("seeds", help="a seed, or FROM:TO")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at ten failures")
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    if not last:
        verdict = _play(int(first))
        print(json.dumps(_shown(schedule(int(first))), indent=1))
        print(verdict)
        return 1 if verdict.violations else 0
    return _many(range(int(first), int(last)), given.jobs, keep_going=given.keep_going)


def _shown(value: object) -> object:
    fields = getattr(value, "__struct_fields__", None)
    if fields is not None:
        return {name: _shown(getattr(value, name)) for name in fields}
    return [_shown(one) for one in value] if isinstance(value, tuple) else value


def _many(seeds: range, jobs: int, *, keep_going: bool) -> int:
    began, failed, done = time.monotonic(), list[Verdict](), 0
    with multiprocessing.Pool(jobs) as pool:
        for verdict in pool.imap_unordered(_play, seeds, chunksize=20):
            done += 1
            if verdict.violations:
                failed.append(verdict)
                print(verdict, flush=True)
                if len(failed) >= 10 and not keep_going:
                    break
            if done % 1000 == 0:
                print(f"{done:,} of {len(seeds):,}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{done:,} schedules in {time.monotonic() - began:.0f} s, {len(failed)} with violations")
    return 1 if failed else 0


def _play(seed: int) -> Verdict:
    """One schedule; where it hangs at a moment that does not pass, its seed is said and the process ends."""

    def hangs(number: int, frame: object) -> None:
        print(f"seed {seed} hangs: python -m tests.chaos {seed}", file=sys.stderr, flush=True)
        os._exit(1)

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_AFTER)
    try:
        return play(seed)
    finally:
        signal.alarm(0)


if __name__ == "__main__":
    sys.exit(main())
