"""`headrace job ls|show|results|retry|cancel|rm`: the jobs that a daemon knows."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.job_report import job_facts, job_row_table
from orchestrator.cli.job_results import fetch_results
from orchestrator.cli.job_table import show_table
from orchestrator.cli.job_transcript import show_transcript
from orchestrator.cli.options import WrongOption
from orchestrator.cli.render import print_json, print_table, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.jobs import LIVE_PHASES, JobView

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id; `headrace job ls` lists them.")]

LS_EXAMPLES: Final = """
\b
Examples:
  headrace job ls
  headrace job ls --live --json | jq '.jobs[] | {job, phase, done}'
"""
SHOW_EXAMPLES: Final = """
\b
Example:
  headrace job show letters-3fa2b1
"""
RESULTS_EXAMPLES: Final = """
\b
Examples:
  headrace job results letters-3fa2b1 | jq -r .value
  headrace job results letters-3fa2b1 -o out.jsonl --follow
  headrace job results letters-3fa2b1 -o out.jsonl --follow --resume    go on where the file ends
  headrace job results letters-3fa2b1 --table                           a row for each input, in their order
  headrace job results review-3fa2b1 --transcript                       what was said in a debate
"""
RETRY_EXAMPLES: Final = """
\b
Examples:
  headrace job retry letters-3fa2b1 && headrace job results letters-3fa2b1 -o out.jsonl --follow
  headrace job retry letters-3fa2b1 --failed
"""
CANCEL_EXAMPLES: Final = """
\b
Example:
  headrace job cancel letters-3fa2b1
"""


def ls(
    live: Annotated[bool, typer.Option("--live", help="Only those that have not ended.")] = False,
    tenant: Annotated[str, typer.Option(help="Only this tenant's.")] = "",
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Lists jobs, the newest first. A + behind the number of inputs says that more may come."""

    async def work(client: Client, ending: SignalEnd) -> int:
        jobs = tuple(
            view
            for view in (await client.jobs()).jobs
            if (not live or view.phase in LIVE_PHASES) and tenant in ("", view.tenant)
        )
        if json:
            print_json({"jobs": jobs})
        else:
            print_table(job_row_table(jobs, time.time()))
        return DONE

    raise typer.Exit(speak(url, work))


def show(job: JobId, json: Json = False, url: Url = DEFAULT_URL) -> None:
    """Shows everything about one job: what is done, what failed and why, what it used."""

    async def work(client: Client, ending: SignalEnd) -> int:
        view = await client.job(job)
        if json:
            print_json(view)
        else:
            print_table(job_facts(view, time.time()))
        return DONE

    raise typer.Exit(speak(url, work))


def results(
    job: JobId,
    output: Annotated[str, typer.Option("--output", "-o", help="Where they go; - is stdout.")] = "-",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones until the job has ended.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Add what the file lacks; it holds the beginning of these results.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Empty an output file that has content.")] = False,
    table: Annotated[
        bool, typer.Option("--table", help="For people: a row for each input in their order, those so far.")
    ] = False,
    transcript: Annotated[
        bool, typer.Option("--transcript", help="For people: what was said in a debate, and what its claims came to.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Writes a job's results as JSON Lines, those so far or, with --follow, all of them."""
    path = None if output == "-" else Path(output)
    shown = "--table" if table else "--transcript"
    if (table or transcript) and (path is not None or follow or resume):
        raise WrongOption(f"{shown}: goes to standard output as it is now; give no -o, --follow or --resume with it")
    if table and transcript:
        raise WrongOption("--transcript: shows what was said; give this or --table, not both")

    async def work(client: Client, ending: SignalEnd) -> int:
        if table:
            return await show_table(client, job)
        if transcript:
            return await show_transcript(client, job)
        return await fetch_results(client, job, path, follow=follow, overwrite=overwrite, resume=resume)

    raise typer.Exit(speak(url, work))


def retry(
    job: JobId,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only what failed, not what was cancelled or never began.")
    ] = False,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Runs once more what failed, was cancelled or never began."""

    async def work(client: Client, ending: SignalEnd) -> int:
        view = await client.retry_job(job, only_failed=failed)
        _tell(view, json=json)
        if not json:
            say(f"Its results: headrace job results {view.job} -o FILE --follow")
        return DONE

    raise typer.Exit(speak(url, work))


def cancel(job: JobId, json: Json = False, url: Url = DEFAULT_URL) -> None:
    """Ends a job: nothing new is begun, its live runs are cancelled, what is done is kept."""

    async def work(client: Client, ending: SignalEnd) -> int:
        _tell(await client.cancel_job(job), json=json)
        return DONE

    raise typer.Exit(speak(url, work))


def rm(job: JobId, url: Url = DEFAULT_URL) -> None:
    """Deletes a job that has ended, with its inputs and results."""

    async def work(client: Client, ending: SignalEnd) -> int:
        await client.remove_job(job)
        print_text(f"{job} removed")
        return DONE

    raise typer.Exit(speak(url, work))


def _tell(view: JobView, *, json: bool) -> None:
    if json:
        print_json(view)
        return
    of = f"{view.done:,} {'rounds' if view.debate is not None else f'of {view.received:,}'} done"
    print_text(f"{view.job} {view.phase}: {of}, {view.failed:,} failed, {view.cancelled:,} cancelled")
