"""`headrace cancel`: takes runs away, one by one or all of a job."""

from contextlib import suppress
from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Json, Url, exit_code, speak, tell
from orchestrator.cli.exits import DONE, SOME_FAILED
from orchestrator.cli.options import WrongOption
from orchestrator.cli.render import print_json, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.errors import Refusal
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.runs import RunView

EXAMPLES: Final = """
\b
Examples:
  headrace cancel 3fa2b1c09d5e7788 77d0a4b2c1e9f633
  headrace cancel --job job-3fa2b1        a job, or all runs that were started for it
"""

_PAGE: Final = 1000


def cancel(
    runs: Annotated[list[str] | None, typer.Argument(help="Runs' ids.", metavar="RUN")] = None,
    job: Annotated[str, typer.Option(help="End this job, and with it all its runs.")] = "",
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Cancels runs. One that has ended stays as it is, which is no error.

    A run has a moment to end: `headrace show RUN` tells when it has.
    """
    if not runs and not job:
        raise WrongOption("name the runs to cancel, or a job with --job")

    async def work(client: Client, ending: SignalEnd) -> int:
        views: list[RunView] = []
        code = DONE
        for run in runs or ():
            try:
                views.append(await client.cancel_run(run))
            except Refusal as refusal:
                tell(refusal.message)
                code = exit_code(refusal) if len(runs or ()) == 1 else SOME_FAILED
        if job:
            views += await _cancel_job(client, job, quiet=json)
        if json:
            print_json(views)
            return code
        for view in views:
            had = f"had ended before: {view.reason}" if view.reason is not None else "is cancelled"
            print_text(f"{view.run} {had}")
        return code

    raise typer.Exit(speak(url, work))


async def _cancel_job(client: Client, job: str, *, quiet: bool) -> list[RunView]:
    """Ends a job; where there is none of this id, all live runs that were started under its name."""
    unknown: Refusal | None = None
    try:
        view = await client.cancel_job(job)
        if not quiet:
            print_text(f"job {view.job} is {view.phase}, with {view.live:,} live runs")
    except Refusal as refusal:
        if refusal.kind != "unknown_job":
            raise
        unknown = refusal
    found: list[RunView] = []
    if unknown is None:
        return found
    cursor = ""
    while True:
        page = await client.runs(observed=("pending", "running"), job=job, cursor=cursor, size=_PAGE)
        for run in page.runs:
            with suppress(Refusal):  # it ended and was forgotten meanwhile
                found.append(await client.cancel_run(run.run))
        cursor = page.next
        if not cursor:
            break
    if not found:
        raise unknown
    return found
