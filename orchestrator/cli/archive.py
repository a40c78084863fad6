"""`headrace export` and `headrace import`: a session's log as a file, and back."""

from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.log_file import export_log, read_log
from orchestrator.cli.render import many, print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL

EXPORT_EXAMPLES: Final = """
\b
Examples:
  headrace export letters -o letters.jsonl
  headrace export 3fa2b1c09d5e7788 | jq -c 'select(.event.type == "tool_started") | .event'
"""
IMPORT_EXAMPLES: Final = """
\b
Examples:
  headrace import letters.jsonl
  headrace import - --url http://127.0.0.1:8701 < letters.jsonl
"""


def export(
    name: Annotated[str, typer.Argument(metavar="SESSION|RUN", help="A session, or a run, for its session.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The file it goes to; - is stdout.")] = "-",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Writes a session's log as JSON Lines: a header, then every event with its number.

    A file appears when all of it has come, and never in part. Whatever was said is in it, and only you can read it.
    """
    path = None if output == "-" else Path(output)

    async def work(client: Client, ending: SignalEnd) -> int:
        header = await export_log(client, name, path, overwrite=overwrite)
        if path is not None:
            say(f"session {header.session}: {many(header.events, 'event')} in {path}")
        return DONE

    raise typer.Exit(speak(url, work))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `headrace export` wrote; - is stdin.")],
    tenant: Annotated[str, typer.Option(help="Whose it is to be; otherwise whose it was.")] = "",
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Brings an exported log in, as a session of the name it had; a session or run that is there already is refused.

    A run in it that has not ended is taken up. A log is believed word for word, limits included, so where the daemon
    asks for keys, this takes an admin's.
    """
    path = None if file == "-" else Path(file)

    async def work(client: Client, ending: SignalEnd) -> int:
        async with read_log(path) as pieces:
            report = await client.import_session(pieces, tenant=tenant)
        if json:
            print_json(report)
        else:
            came = f"{many(report.events, 'event')}, {many(len(report.runs), 'run')}"
            print_text(f"{report.session} of tenant {report.tenant}: {came}")
        return DONE

    raise typer.Exit(speak(url, work))
