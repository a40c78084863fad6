"""`headrace-bench replay`: a trace under several policies side by side."""

import sys
import time
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import typer
from rich.console import Console

from agents.errors import InvalidLimits
from bench.policies import POLICIES, Policy, policy_named
from bench.replay.limits_cli import register as register_limits
from bench.replay.plot import NoPlot, plot
from bench.replay.report import PolicyReport, report
from bench.replay.run import replay
from bench.replay.settings import Provider, Shape
from bench.replay.table import replay_tables
from bench.traces.base import TraceCall, TraceError
from bench.traces.detect import read_trace

MOST_CALLS: Final = 500_000
"""Calls of one trace that are played at most, per policy: some five minutes."""

CountedName = Literal["at_admission", "reconciled", "as_produced"]
AlgorithmName = Literal["fixed_window", "sliding_window", "token_bucket"]

Amount = float | None


def register(app: typer.Typer) -> None:
    """Adds this command, and the one that shows how far limits are used."""
    register_limits(app)
    app.command(
        name="replay",
        epilog="""\b
Examples:
  headrace-bench replay azure2023_conv.csv.gz --rpm 300 --tpm 400000 --tenants 5
  headrace-bench replay azure2023_conv.csv.gz --tpm 400000 --tenants 5 --policy headrace --policy fifo --deadline 120
  headrace-bench replay .headrace --rpm 60 --plot waits.png
""",
    )(replay_command)


def replay_command(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACE...", help="Files of any known format, or a daemon's folder.")
    ],
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", help=f"One of {', '.join(POLICIES)}; may be given again. [default: headrace, no-policy]"
        ),
    ] = None,
    rpm: Annotated[Amount, typer.Option(min=1, help="Requests a minute.")] = None,
    tpm: Annotated[Amount, typer.Option(min=1, help="Tokens a minute, input and output.")] = None,
    input_tpm: Annotated[Amount, typer.Option(min=1, help="Input tokens a minute.")] = None,
    output_tpm: Annotated[Amount, typer.Option(min=1, help="Output tokens a minute.")] = None,
    counted: Annotated[CountedName, typer.Option(help="What the provider counts, and when.")] = "reconciled",
    algorithm: Annotated[AlgorithmName, typer.Option(help="How the provider enforces a limit.")] = "sliding_window",
    window: Annotated[
        Amount, typer.Option(min=0.1, max=59, help="Seconds of a shorter window that it enforces in proportion.")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=100_000, help="Calls at once.")] = None,
    speed: Annotated[float, typer.Option(min=0.001, max=1000, help="How many times faster calls come.")] = 1.0,
    span: Annotated[Amount, typer.Option(min=1, help="Seconds that are played, after --speed.")] = None,
    tenants: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Part the calls among tenants, the k-th with a share as 1/k.")
    ] = None,
    interactive: Annotated[float, typer.Option(min=0, max=1, help="Share of calls that are interactive.")] = 0.0,
    batch: Annotated[float, typer.Option(min=0, max=1, help="Share of calls that are batch.")] = 0.0,
    deadline: Annotated[Amount, typer.Option(min=0.1, help="Seconds that each call has from its arrival.")] = None,
    noise: Annotated[
        float, typer.Option(min=0, max=1, help="Sigma of the log-normal factor between a call's bytes and its tokens.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result to the byte.")] = 0,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="Draw the waits into a file (.png, .svg or .pdf).")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of tables.")] = False,
) -> None:
    """Recorded calls under each policy: waits, use of limits, 429s, fairness, goodput under deadlines.

    In virtual time, through the owner's own code: an hour takes seconds. Without a limit nobody waits.

    Exit codes: 0 played; 1 a trace cannot be read, a call is larger than a limit, or the picture cannot be drawn;
    2 wrong usage.
    """
    note = Console(stderr=True, highlight=False)
    if interactive + batch > 1:
        raise typer.BadParameter("--interactive and --batch are shares, together at most 1")
    try:
        chosen = [policy_named(name) for name in dict.fromkeys(policies or ("headrace", "no-policy"))]
        provider = Provider(
            requests=rpm,
            total_tokens=tpm,
            input_tokens=input_tpm,
            output_tokens=output_tpm,
            counted=counted,
            algorithm=algorithm,
            window=window,
            concurrency=concurrency,
        )
        provider.endpoint(provider.backend(seed))
    except (ValueError, InvalidLimits) as error:
        raise typer.BadParameter(str(error)) from None
    shape = Shape(
        speed=speed, span=span, tenants=tenants, interactive=interactive, batch=batch, deadline=deadline, seed=seed
    )
    try:
        whole = [(path, _calls(path, shape)) for path in traces]
        done = [_under_each(path, calls, chosen, provider, noise, seed, note) for path, calls in whole]
        if picture is not None:
            plot(done, picture)
    except (TraceError, NoPlot) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode([one for reports in done for one in reports]).decode() + "\n")
        return
    for reports in done:
        Console().print(replay_tables(reports))


def _calls(path: Path, shape: Shape) -> list[TraceCall]:
    calls = shape.bend(read_trace(path).calls)
    if len(calls) > MOST_CALLS:
        raise TraceError(path, None, f"has {len(calls):,} calls to play, more than {MOST_CALLS:,}; --span plays a part")
    return calls


def _under_each(
    path: Path,
    calls: list[TraceCall],
    policies: list[Policy],
    provider: Provider,
    noise: float,
    seed: int,
    note: Console,
) -> list[PolicyReport]:
    reports = []
    for policy in policies:
        began = time.process_time()
        result = report(path.name, policy.name, replay(calls, policy, provider, noise=noise, seed=seed))
        took = time.process_time() - began
        note.print(f"{path.name}, {policy.name}: {result.ended:,.0f} s played in {took:.1f} s of one core", style="dim")
        reports.append(result)
    return reports
