"""`headrace show`: everything about one run."""

import time
from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json, print_table, print_text
from orchestrator.cli.run_end import detail_table, transcript
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL

EXAMPLES: Final = """
\b
Examples:
  headrace show 3fa2b1c09d5e7788
  headrace show 3fa2b1c09d5e7788 --json | jq -r .answer
"""


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id; `headrace ps --all` lists them.")],
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Shows everything about one run: where it stands, what it used, and what was said."""

    async def work(client: Client, ending: SignalEnd) -> int:
        detail = await client.run(run)
        if json:
            print_json(detail)
            return DONE
        print_table(detail_table(detail, time.time()))
        for block in transcript(detail):
            print_text(f"\n{block}")
        return DONE

    raise typer.Exit(speak(url, work))
