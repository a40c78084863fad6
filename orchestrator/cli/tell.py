"""`headrace tell`: says something to a run while it works."""

from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.words import read_text
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL

EXAMPLES: Final = """
\b
Examples:
  headrace tell 3fa2b1c09d5e7788 "Only rivers longer than 100 km"
  headrace tell 3fa2b1c09d5e7788 - < correction.txt
"""


def tell(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A live run's id; `headrace ps` lists them.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What to say; - reads it from stdin.")],
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Says something to a run while it works: its model reads it with the next request.

    Once the command has ended, the message is in the run's log. A run that has ended takes none: go on with its session
    (`headrace run --session`).
    """
    words = read_text(text, "the message")

    async def work(client: Client, ending: SignalEnd) -> int:
        view = await client.message_run(run, words)
        if json:
            print_json(view)
        else:
            print_text(f"{view.run} was told")
        return DONE

    raise typer.Exit(speak(url, work))
