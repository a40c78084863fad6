"""The `headrace` command: one file per group of commands, put together here."""

import sys
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version

import typer

from agents.errors import HeadraceError
from orchestrator.cli.demo import demo
from orchestrator.cli.exits import INTERRUPTED, USAGE, complain
from orchestrator.cli.job import app as job
from orchestrator.cli.simulate import simulate
from orchestrator.garbage import tune_collector

app = typer.Typer(
    name="headrace",
    help="Leads the model calls of many agents to one scarce model backend, fairly and within its limits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(job, name="job")
app.command("simulate")(simulate)
app.command("demo")(demo)


@app.command()
def version() -> None:
    """Prints the version."""
    try:
        typer.echo(f"headrace {distribution_version('headrace')}")
    except PackageNotFoundError:
        typer.echo("headrace, run from its source tree")


def main() -> None:
    """The console script. A `HeadraceError` is one message, never a traceback."""
    tune_collector()
    try:
        app()
    except HeadraceError as error:
        complain(error.message)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        complain("interrupted; nothing was started")
        sys.exit(INTERRUPTED)
