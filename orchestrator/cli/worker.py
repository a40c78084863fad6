"""`headrace worker`: a process that drives runs of a daemon elsewhere."""

from functools import partial
from typing import Annotated, Final

import trio
import typer

from agents.errors import HeadraceError
from orchestrator.cli.connect import KEY, tell
from orchestrator.cli.exits import USAGE, complain
from orchestrator.cli.render import clean
from orchestrator.cli.signals import until_signalled
from orchestrator.client.wire import DEFAULT_URL

EXAMPLES: Final = """
\b
Examples:
  headrace worker
  headrace worker --daemon http://10.0.0.5:8700 --key-file /run/secrets/headrace
  headrace worker --daemon http://10.0.0.5:8700 --daemon http://10.0.0.6:8700 --runs 256

\b
The daemon gives runs to workers where its configuration says [pool] kind = "workers".
SIGTERM has it leave each run when it has no call under way, and end then; a second one leaves all at once.
"""


def worker(
    daemon: Annotated[
        list[str] | None,
        typer.Option(
            "--daemon",
            envvar="HEADRACE_URL",
            help=f"An address of the daemon, {DEFAULT_URL} without; further ones are tried where it is away.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="How many runs to drive at once.", min=1, max=100_000)] = 64,
    name: Annotated[str, typer.Option(help="What it is called; its machine's name and a number without it.")] = "",
    key_env: Annotated[
        str | None, typer.Option(help=f"The environment variable that holds an admin's key, {KEY} without.")
    ] = None,
    key_file: Annotated[str | None, typer.Option(help="The file that holds it instead.")] = None,
    patience: Annotated[float, typer.Option(help="Seconds without a daemon after which it ends.", min=0)] = 600.0,
) -> None:
    """Drives runs of a daemon in this process: their tools are called here, and their models there.

    Exit codes: 0 it ended as it was told; 2 wrong usage, or the daemon refuses it; 3 there was no daemon.
    """
    # what drives runs takes as long to load as everything that the other commands need
    from orchestrator.cli.worker_command import in_options, key_place, work
    from orchestrator.worker.config import WorkerConfig

    try:
        config = WorkerConfig(
            daemons=tuple(daemon or [DEFAULT_URL]),
            runs=runs,
            name=name,
            patience=patience,
            tell=tell,
            **key_place(key_env, key_file),
        )
        config.key()
    except HeadraceError as error:
        complain(clean(in_options(error)))
        raise typer.Exit(USAGE) from None
    code = trio.run(partial(until_signalled, partial(work, config), "ended before it had begun"))
    raise typer.Exit(code)
