"""`headrace grant`: other limits for a run while it works."""

from typing import Annotated, Final

import typer

from orchestrator.cli.amounts import LIMITS_HELP, limit_words, limits_of
from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL

EXAMPLES: Final = """
\b
Examples:
  headrace grant 3fa2b1c09d5e7788 rounds=40
  headrace grant 3fa2b1c09d5e7788 tokens=200000 dollars=1.50 timeout=2h
"""


def grant(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A live run's id; `headrace ps` lists them.")],
    limits: Annotated[list[str], typer.Argument(metavar="LIMIT=AMOUNT...", help=f"{LIMITS_HELP}; each in all.")],
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Gives a run other limits of its own while it works; those that are not named stay.

    An amount is what the run may use in all, what it has used already included. The budgets of its job and its tenant
    stay what they are. For a run that a limit has stopped: `headrace run --session SESSION --continue --grant ...`.
    """
    granted = limits_of("LIMIT", limits)

    async def work(client: Client, ending: SignalEnd) -> int:
        view = await client.grant_run(run, granted)
        if json:
            print_json(view)
        else:
            print_text(f"{view.run} was granted {limit_words(granted)}")
        return DONE

    raise typer.Exit(speak(url, work))
