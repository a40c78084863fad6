"""`headrace-bench`: a command of its own, so that the daemon never imports the benchmarks."""

import typer

from bench.costs_cli import costs
from bench.experiment.cli import register as register_experiment
from bench.fairness.cli import register as register_fairness
from bench.peers.cli import register as register_peers
from bench.replay.cli import register as register_replay
from bench.report.cli import register as register_report
from bench.sessions.cli import register as register_agents
from bench.soak.cli import register as register_soak
from bench.whatif.cli import register as register_what_if

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


app.add_typer(costs)
register_fairness(app)
register_replay(app)
register_agents(app)
register_what_if(app)
register_peers(app)
register_experiment(app)
register_report(app)
register_soak(app)


def main() -> None:
    """The console script."""
    app()
