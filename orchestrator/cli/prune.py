"""`headrace prune`: removes what is old from the daemon's store."""

import time
from typing import Annotated, Final

import typer

from orchestrator.cli.amounts import seconds_of
from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.render import many, print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.sessions import PruneReport

EXAMPLES: Final = """
\b
Examples:
  headrace prune --older-than 30d --dry-run
  headrace prune --older-than 12w
"""


def prune(
    older_than: Annotated[
        str, typer.Option(metavar="SPAN", help="What nobody has touched for so long, as 12h, 30d or 4w.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing, say what it would be.")] = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Removes old sessions with their runs, and old model calls from the ledger.

    Sessions with a run that has not ended stay, and so do the sums of what tenants have spent. It touches all tenants,
    so where the daemon asks for keys, it takes an admin's. Export what you want to keep before (`headrace export`).
    """
    seconds = seconds_of("--older-than", older_than)

    async def work(client: Client, ending: SignalEnd) -> int:
        report = await client.prune(seconds, dry_run=dry_run)
        if json:
            print_json(report)
        else:
            print_text(prune_words(report))
        return DONE

    raise typer.Exit(speak(url, work))


def prune_words(report: PruneReport) -> str:
    """What was removed, on one line."""
    parts = [many(report.sessions, "session"), many(report.runs, "run"), many(report.events, "event")]
    if report.calls is not None:
        parts.append(f"{many(report.calls, 'call')} of the ledger")
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(report.before))
    return f"{', '.join(parts)} {'would be' if report.dry_run else 'were'} removed, untouched since {since}"
