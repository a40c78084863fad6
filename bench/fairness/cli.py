"""`headrace-bench fairness`."""

import sys
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from bench.fairness.measure import REAL, Row, measure, suites
from bench.fairness.systems import POLICIES, is_policy
from bench.fairness.table import tables
from bench.fairness.targets import verdicts
from bench.traces.base import TraceError

USUAL: Final = (REAL, "overload", "overload-multi", "on_off_less", "proportional")
"""The suites that have published figures or targets."""

TRACE_NAME: Final = "vtc_real.csv"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        name="fairness",
        epilog="""\b
Examples:
  headrace-bench fairness --trace traces/vtc_real.csv
  headrace-bench fairness --suite overload --policy vtc --policy headrace --json
  headrace-bench fairness --trace traces --suite real --policy headrace@1 --policy headrace@1.15 --policy headrace@1.35
""",
    )(fairness)


def fairness(
    trace: Annotated[
        Path | None,
        typer.Option(
            envvar="HEADRACE_TRACES", help=f"{TRACE_NAME}, or the folder that it is in; without it no suite `{REAL}`."
        ),
    ] = None,
    suite: Annotated[
        list[str] | None, typer.Option(help=f"A suite, or `all`; may be given again. Usually {', '.join(USUAL)}.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=f"One of {', '.join(POLICIES)}; or headrace@FILL: FILL tokens in flight per token of KV cache."
        ),
    ] = None,
    replicates: Annotated[int, typer.Option(min=1, max=1_000, help="Replicates; the median counts.")] = 20,
    seed: Annotated[int, typer.Option(help="Draws phases, lengths, and the jitter of 50 ms.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, max=256, help="Processes; as many as cores.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 where a target is missed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of tables.")] = False,
) -> None:
    """How evenly clients are served: the VTC paper's workloads and measure, on a fixed model of its engine.

    In virtual time. Its policies order the engine's own queue; Headrace's owner, unmodified, stands in front of it.
    """
    note = Console(stderr=True, highlight=False)
    path = _trace(trace)
    policies = list(dict.fromkeys(policy or POLICIES))
    for name in policies:
        if not is_policy(name):
            raise typer.BadParameter(f"{name!r} is none of {', '.join(POLICIES)}, headrace@FILL", param_hint="--policy")
    try:
        names = _suites(suite, path)
        if not suite and path is None:
            note.print(f"without --trace there is no suite {REAL!r}", style="dim")
        rows = measure(
            names,
            policies,
            trace=path,
            replicates=replicates,
            seed=seed,
            workers=workers,
            on_row=lambda row: note.print(_line(row), style="dim"),
        )
    except TraceError as error:
        note.print(str(error))
        raise typer.Exit(2) from None
    found = verdicts(rows)
    if json:
        sys.stdout.write(msgspec.json.encode(rows).decode() + "\n")
    else:
        Console().print(tables(rows, found))
    if check and not all(verdict.met for verdict in found):
        raise typer.Exit(1)


def _trace(given: Path | None) -> Path | None:
    return given / TRACE_NAME if given is not None and given.is_dir() else given


def _suites(given: list[str] | None, trace: Path | None) -> list[str]:
    """The suites to run. Raises `TraceError`."""
    there = suites(trace)
    if not given:
        return [name for name in USUAL if name in there]
    names = list(there) if "all" in given else list(dict.fromkeys(given))
    for name in names:
        if name not in there:
            more = f" ({REAL} needs --trace)" if name == REAL else ""
            raise typer.BadParameter(f"{name!r} is none of {', '.join(there)}{more}", param_hint="--suite")
    return names


def _line(row: Row) -> str:
    figures = f"{row.max:.1f} / {row.mean:.1f} / {row.variance:.0f}"
    return f"{row.suite} {row.policy}: {figures} at {row.tokens_per_second:.0f} tokens/s"
