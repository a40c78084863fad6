"""The `headrace` command: one file per command or group of commands, put together here."""

import sys

import typer

from agents.errors import HeadraceError
from orchestrator.cli import (
    approvals,
    archive,
    cancel,
    check,
    config,
    dashboards,
    demo,
    events,
    explain,
    grant,
    init,
    job,
    keys,
    prune,
    ps,
    run,
    serve,
    sessions,
    show,
    simulate,
    tell,
    top,
    worker,
)
from orchestrator.cli.exits import INTERRUPTED, USAGE, complain
from orchestrator.garbage import tune_collector
from orchestrator.version import version as installed_version

app = typer.Typer(
    name="headrace",
    help="Leads the model calls of many agents to one scarce model backend, fairly and within its limits.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("init")(init.init)
app.command("serve", epilog=serve.EXAMPLES)(serve.serve)
app.command("worker", epilog=worker.EXAMPLES)(worker.worker)
app.command("run", epilog=run.EXAMPLES)(run.run)
app.add_typer(job.app, name="job")
app.command("ps", epilog=ps.EXAMPLES)(ps.ps)
app.command("show", epilog=show.EXAMPLES)(show.show)
app.command("events", epilog=events.EXAMPLES)(events.events)
app.command("cancel", epilog=cancel.EXAMPLES)(cancel.cancel)
app.command("tell", epilog=tell.EXAMPLES)(tell.tell)
app.command("grant", epilog=grant.EXAMPLES)(grant.grant)
app.command("approvals", epilog=approvals.EXAMPLES)(approvals.approvals)
app.command("approve", epilog=approvals.APPROVE_EXAMPLES)(approvals.approve)
app.command("deny", epilog=approvals.DENY_EXAMPLES)(approvals.deny)
app.command("answer", epilog=approvals.ANSWER_EXAMPLES)(approvals.answer)
app.command("sessions", epilog=sessions.EXAMPLES)(sessions.sessions)
app.command("export", epilog=archive.EXPORT_EXAMPLES)(archive.export)
app.command("import", epilog=archive.IMPORT_EXAMPLES)(archive.import_)
app.command("prune", epilog=prune.EXAMPLES)(prune.prune)
app.command("top", epilog=top.EXAMPLES)(top.top)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("check", epilog=check.EXAMPLES)(check.check)
app.add_typer(config.app, name="config")
app.add_typer(keys.app, name="keys")
app.command("simulate")(simulate.simulate)
app.command("demo")(demo.demo)
app.command("dashboards", epilog=dashboards.EXAMPLES)(dashboards.dashboards)


@app.command()
def version() -> None:
    """Prints the version."""
    typer.echo(f"headrace {installed_version()}")


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
