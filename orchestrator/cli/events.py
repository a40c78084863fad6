"""`headrace events`: what happened in a run, event by event."""

import time
from contextlib import aclosing
from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Url, speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import print_json, print_text
from orchestrator.cli.run_events import EventWords
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL

EXAMPLES: Final = """
\b
Examples:
  headrace events 3fa2b1c09d5e7788 --follow
  headrace events 3fa2b1c09d5e7788 --json | jq 'select(.type == "tool_finished")'
"""


def events(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id; `headrace ps --all` lists them.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until the run has ended.")
    ] = False,
    after: Annotated[int, typer.Option(min=0, help="Only those behind this number.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print each event as JSON on a line of its own.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Shows what happened in a run, one line for each event: its number in the session, when it was, and what.

    With --follow it waits for a daemon that is started anew, and goes on where it was.
    """

    async def work(client: Client, ending: SignalEnd) -> int:
        words = EventWords()
        async with aclosing(client.events(run, after, follow=follow)) as stream:
            async for number, data in stream:
                if json:
                    print_json(data)
                else:
                    when = words.moment(data, time.time())
                    print_text(f"{number:>4}  {f'{when}  ' if when else ''}{words.line(data)}")
        return DONE

    raise typer.Exit(speak(url, work))
