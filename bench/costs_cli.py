"""`headrace-bench load`, `traces`, `gateway`, `durable`, `pool`: what parts of Headrace cost, against a baseline."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.durable import PARTS, QUICK, WHOLE, measure_durable
from bench.durable_table import tables
from bench.gateway import CONNECTIONS, measure_gateway
from bench.gateway_table import requests_table, streams_table
from bench.load import SIZES, LoadReport, measure
from bench.paced import measure_streams
from bench.pool import POOLS, measure_pool
from bench.pool_table import pool_table
from bench.processes import NotStarted, ended_by_signals
from bench.ray_local import local_cluster
from bench.traced import measure_traced
from orchestrator.client.errors import ClientError
from orchestrator.store.errors import StoreError
from orchestrator.telemetry.config import TelemetryNotInstalled

_TEMPORARY: Final = Path(tempfile.gettempdir())
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

costs = typer.Typer()


def _size(text: str) -> tuple[int, int]:
    """`AGENTSxTENANTS`, for example 10000x100."""
    agents, separator, tenants = text.lower().partition("x")
    if not separator or not agents.isdigit() or not tenants.isdigit():
        raise typer.BadParameter(f"{text!r} is not AGENTSxTENANTS, for example 10000x100")
    size = int(agents), int(tenants)
    if not 1 <= size[1] <= size[0] <= 100_000:
        raise typer.BadParameter(f"{text}: between 1 and 100,000 agents, and at least as many agents as tenants")
    return size


@costs.command(epilog="Example: headrace-bench load --json > load.json")
def load(
    size: Annotated[
        list[str] | None, typer.Option(help="AGENTSxTENANTS; may be given again. Growth is last against first.")
    ] = None,
    calls: Annotated[int, typer.Option(min=100, max=1_000_000, help="Calls per size and repeat, about.")] = 40_000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Repeats; the median counts.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """What the whole owner path costs, against a bare memory-channel round trip in the same process."""
    sizes = [_size(text) for text in size] if size else SIZES
    note = Console(stderr=True, highlight=False)
    report = measure(sizes, calls=calls, repeats=repeats, on_progress=lambda line: note.print(line, style="dim"))
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    else:
        _print(report)


@costs.command(epilog="Example: headrace-bench traces --repeats 3")
def traces(
    calls: Annotated[int, typer.Option(min=100, max=1_000_000, help="Calls per way and repeat, about.")] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Repeats; the median counts.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """What OpenTelemetry's traces cost an owner: off, sampled out, made, and sent to a receiver on this machine."""
    note = Console(stderr=True, highlight=False)
    try:
        with ended_by_signals():
            results = measure_traced(
                calls=calls, repeats=repeats, on_progress=lambda line: note.print(line, style="dim")
            )
    except (NotStarted, TelemetryNotInstalled) as error:
        note.print(str(error))
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(results).decode() + "\n")
        return
    table = Table(title="A call through an owner, with traces")
    for heading in ("traces", "CPU time", "ratio"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(result.traces, f"{result.microseconds:.1f} us", f"{result.ratio:.2f}")
    Console().print(table)


def _print(report: LoadReport) -> None:
    table = Table(title="The owner path against a bare memory-channel round trip")
    for heading in ("agents", "tenants", "calls/s", "bare/s", "ratio", "bytes per agent"):
        table.add_column(heading, justify="right")
    for result in report.results:
        table.add_row(
            f"{result.agents:,}",
            f"{result.tenants:,}",
            f"{result.calls_per_second:,.0f}",
            f"{result.bare_per_second:,.0f}",
            f"{result.ratio:.2f}",
            f"{result.bytes_per_agent:,}",
        )
    console = Console()
    console.print(table)
    console.print(f"growth of the ratio from the first size to the last: {report.growth:.2f}")


@costs.command(
    epilog="""\b
Examples:
  headrace-bench gateway
  headrace-bench gateway --streams 1000
  python -m bench.stub          another gateway is put before this one, and then
  headrace-bench gateway --stub http://127.0.0.1:PORT/v1 --against http://127.0.0.1:4000/v1
"""
)
def gateway(
    connections: Annotated[
        list[int] | None, typer.Option(min=1, max=4096, help="Connections at once; may be given again.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another gateway before the same stub, by its base URL; may be given again."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="A header for those gateways, as 'name: value'; may be given again.")
    ] = None,
    stub: Annotated[
        str | None,
        typer.Option(help="The base URL of a `python -m bench.stub` that runs already; else one is started."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="Seconds for each cell.")] = 3.0,
    streams: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=20_000,
            help="Instead: how many streams of 50 tokens/s each target carries in time, up to so many. "
            "A stub of one's own then needs --rate 50.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of a table.")] = False,
) -> None:
    """Requests a second and latency through the daemon, against its upstream directly and against other gateways.

    On loopback only, with a stub as the model, each in a process of its own. Exit codes: 0 measured; 1 something did
    not start or does not answer; 2 wrong usage.
    """
    for url in [*(against or ()), *([stub] if stub else ())]:
        if urlsplit(url).scheme != "http" or urlsplit(url).hostname not in _LOOPBACK:
            raise typer.BadParameter(f"{url!r} is not a URL on loopback, for example http://127.0.0.1:4000/v1")
    note = Console(stderr=True, highlight=False)

    def say(line: str) -> None:
        note.print(line, style="dim")

    try:
        with ended_by_signals():
            if streams is None:
                at = connections or CONNECTIONS
                cells = measure_gateway(
                    at,
                    against=against or (),
                    headers=header or (),
                    stub_url=stub,
                    seconds=seconds,
                    on_progress=say,
                )
            else:
                cells = measure_streams(streams, against=against or (), stub_url=stub, seconds=seconds, on_progress=say)
    except (NotStarted, OSError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(cells).decode() + "\n")
    else:
        Console().print(requests_table(cells) if streams is None else streams_table(cells, streams))


@costs.command(
    epilog="""\b
Examples:
  headrace-bench durable --quick
  headrace-bench durable --dir /var/tmp --json > durable.json
  headrace-bench durable --part resume
"""
)
def durable(
    folder: Annotated[
        Path,
        typer.Option(
            "--dir",
            exists=True,
            file_okay=False,
            writable=True,
            help="Where files go for the time being. On a file system in memory a sync costs nothing.",
        ),
    ] = _TEMPORARY,
    part: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(PARTS)}; may be given again. All if not given.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer and smaller: seconds instead of minutes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """What it costs that runs survive: appends, agents' calls, resuming after a kill.

    Durable appends are held against one sync each, agents over a store on disk against agents over one in memory,
    resuming runs against starting them.

    Exit codes: 0 measured; 1 a process or the store failed; 2 wrong usage.
    """
    unknown = sorted(set(part or ()) - set(PARTS))
    if unknown:
        raise typer.BadParameter(f"there is no part {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    note = Console(stderr=True, highlight=False)
    try:
        with ended_by_signals():
            report = measure_durable(
                QUICK if quick else WHOLE,
                folder=folder,
                parts=part or PARTS,
                on_progress=lambda line: note.print(line, style="dim", markup=False),
            )
    except (NotStarted, OSError, StoreError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    console = Console()
    for table in tables(report):
        console.print(table)
    console.print(f"{folder} is on {report.disk.file_system}; a sync there costs {report.disk.sync_us:.0f} us")


@costs.command(
    epilog="""\b
Examples:
  headrace-bench pool
  headrace-bench pool --ray --json > pool.json
  headrace-bench pool --pools local,ray --cluster 10.0.0.1:6379
"""
)
def pool(
    runs: Annotated[int, typer.Option(min=1, max=100_000, help="Runs of each job.")] = 400,
    calls: Annotated[int, typer.Option(min=1, max=100, help="Model calls of each run.")] = 3,
    pools: Annotated[
        str | None, typer.Option(help=f"Which of {', '.join(POOLS)}, with commas; local is always one.")
    ] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Start a small Ray cluster here, and measure ray as well.")
    ] = False,
    cluster: Annotated[str, typer.Option(help="The address of a Ray cluster that runs already, for ray.")] = "",
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Repeats; the median counts.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of a table.")] = False,
) -> None:
    """What it costs that worker processes drive runs, against the daemon that drives them itself.

    Exit codes: 0 measured; 1 something did not start, or failed; 2 wrong usage.
    """
    wanted = [name.strip() for name in (pools or "local,workers").split(",")]
    unknown = sorted(set(wanted) - set(POOLS))
    if unknown:
        raise typer.BadParameter(f"there is no pool {', '.join(unknown)}; there are: {', '.join(POOLS)}")
    chosen = [name for name in POOLS if name in {"local", *wanted, *(["ray"] if ray or cluster else [])}]
    if "ray" in chosen and not (ray or cluster):
        raise typer.BadParameter("ray needs --ray, which starts a small cluster here, or --cluster ADDRESS")
    note = Console(stderr=True, highlight=False)
    try:
        with ended_by_signals(), ExitStack() as stack:
            if "ray" in chosen and not cluster:
                cluster = stack.enter_context(local_cluster()).address
            results = measure_pool(
                chosen,
                runs=runs,
                calls=calls,
                repeats=repeats,
                cluster=cluster,
                on_progress=lambda line: note.print(line, style="dim", markup=False),
            )
    except (NotStarted, OSError, ClientError) as error:
        note.print(f"headrace-bench: {error}", style="red", markup=False)
        raise typer.Exit(1) from None
    if json:
        sys.stdout.write(msgspec.json.encode(results).decode() + "\n")
    else:
        Console().print(pool_table(results))
