"""`headrace-bench`: a command of its own, so that the daemon never imports the benchmarks."""

import sys
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from bench.load import SIZES, LoadReport, measure

app = typer.Typer(
    name="headrace-bench",
    help="Benchmarks of Headrace. Every speed is a ratio against a baseline in the same run.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback()
def bench() -> None:
    """Benchmarks of Headrace. Every speed is a ratio against a baseline in the same run."""


def _size(text: str) -> tuple[int, int]:
    """`AGENTSxTENANTS`, for example 10000x100."""
    agents, separator, tenants = text.lower().partition("x")
    if not separator or not agents.isdigit() or not tenants.isdigit():
        raise typer.BadParameter(f"{text!r} is not AGENTSxTENANTS, for example 10000x100")
    size = int(agents), int(tenants)
    if not 1 <= size[1] <= size[0] <= 100_000:
        raise typer.BadParameter(f"{text}: between 1 and 100,000 agents, and at least as many agents as tenants")
    return size


@app.command(epilog="Example: headrace-bench load --json > load.json")
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


def main() -> None:
    """The console script."""
    app()
