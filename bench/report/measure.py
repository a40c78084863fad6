"""Runs benchmarks one after another, each in a process of its own, and writes down what they gave.

Not side by side: they measure time, and would take each other's cores.
"""

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shlex import join
from typing import Final

import msgspec

from bench.report.plan import LEDGER, TRACES, Bench, command
from bench.report.record import NOTHING, Record, UnreadableRecord, code, load, save, this_machine
from orchestrator.version import version

PROGRAM: Final = (sys.executable, "-c", "from bench.cli import main; main()")
LONGEST: Final = 2 * 3_600.0
"""Seconds after which a benchmark is ended."""

_PATIENCE: Final = 20.0

Run = Callable[[Sequence[str], Callable[[str], None]], tuple[int, bytes, str]]
"""Runs `headrace-bench` with arguments: its exit code, what it printed, and the last that it said."""


def why_not(bench: Bench, given: Mapping[str, str]) -> str:
    """Why a benchmark cannot be run with what was given; empty where it can."""
    if bench.needs(LEDGER) and LEDGER not in given:
        return "no ledger was named: --ledger names a daemon's data folder"
    if bench.files:
        if TRACES not in given:
            return f"{bench.files[0]} is not there: --traces names the folder that has it"
        missing = [name for name in bench.files if not (Path(given[TRACES]) / name).is_file()]
        if missing:
            return f"the folder of --traces has no {', '.join(missing)}"
    return ""


def measure(
    bench: Bench,
    folder: Path,
    *,
    given: Mapping[str, str],
    shown: Mapping[str, str],
    quick: bool,
    fresh: bool,
    say: Callable[[str], None],
    run: Run,
) -> Record:
    """The benchmark's record: the one that is in `folder` if nothing differs, else a new one. Raises `OSError`.

    `given` is what stands in for paths when it is run, `shown` what the page shows in its place.
    """
    arguments = bench.quick if quick else bench.arguments
    started = datetime.now(UTC)
    blank = Record(
        bench=bench.name,
        command=join(["headrace-bench", *command(arguments, shown), "--json"]),
        quick=quick and bench.quick != bench.arguments,
        version=version(),
        code=code(),
        machine=this_machine(),
        started=started.strftime("%Y-%m-%d %H:%M"),
        seconds=0.0,
        exit_code=0,
    )
    try:
        there = None if fresh else load(folder, bench.name)
    except UnreadableRecord:
        there = None
    if there is not None and there.measured and there.same(blank):
        say(f"{bench.name}: measured already, {there.started} UTC")
        return there
    say(blank.command)
    began = time.perf_counter()
    exit_code, printed, said = run([*command(arguments, given), "--json"], say)
    for stand_in, value in given.items():
        said = said.replace(value, shown[stand_in])
    record = msgspec.structs.replace(
        blank,
        seconds=round(time.perf_counter() - began, 1),
        exit_code=exit_code,
        said=said,
        result=msgspec.Raw(printed.strip()) if _usable(bench, printed) else NOTHING,
    )
    save(folder, record)
    return record


def _usable(bench: Bench, printed: bytes) -> bool:
    """Some exit with 1 where a target is missed, so what was printed decides."""
    try:
        bench.read(printed)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True


def in_a_process(arguments: Sequence[str], say: Callable[[str], None]) -> tuple[int, bytes, str]:
    """Runs it, and passes on what it says. An interrupt ends it, and so do two hours."""
    last = ""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen([*PROGRAM, *arguments], stdout=out, stderr=subprocess.PIPE, text=True)
        timer = threading.Timer(LONGEST, process.terminate)
        timer.daemon = True
        timer.start()
        try:
            assert process.stderr is not None
            for line in process.stderr:
                last = line.strip() or last
                say(f"  {line.rstrip()}")
            exit_code = process.wait()
        finally:
            timer.cancel()
            _end(process)
        out.seek(0)
        return exit_code, out.read(), last


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stderr is not None:
        process.stderr.close()
