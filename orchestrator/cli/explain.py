"""`headrace explain`: why a call or a run waited."""

import re
from typing import Annotated, Final

import typer
from rich.table import Table

from orchestrator.cli.amounts import seconds_of
from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, USAGE, complain, say
from orchestrator.cli.render import cells, columns, print_json, print_table, print_text
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.client.errors import Refusal
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.explain.words import seconds as span
from orchestrator.views.explain import CallExplanation, RunExplanation

EXAMPLES: Final = """
\b
A call's key is RUN/STEP/ATTEMPT for an agent's, and stands in the header x-headrace-call of every answer to a program.

\b
Examples:
  headrace explain 3fa2b1c09d5e7788
  headrace explain 3fa2b1c09d5e7788/4/1
  headrace explain call-90c1d0f4a6c04c5f8a3b1e27
  headrace explain --tenant web --last 15m
  headrace explain --json --job nightly | jq '.calls[0].waits'
"""

CALL: Final = re.compile(r"call-[0-9a-f]+|.+/\d+/\d+")
NOT_FOUND: Final = 404


def explain(
    what: Annotated[str, typer.Argument(metavar="[RUN|CALL]", help="A run's id, or a call's key.")] = "",
    tenant: Annotated[str, typer.Option(help="The slowest calls of this tenant.")] = "",
    job: Annotated[str, typer.Option(help="The slowest calls of this job.")] = "",
    last: Annotated[str, typer.Option(metavar="SPAN", help="How far back those may lie: 15m, 2h, 3d.")] = "1h",
    number: Annotated[int, typer.Option("-n", min=1, max=100, help="How many of those.")] = 20,
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Says why a call or a run waited: for which limit, whose calls went before, and by which rule.

    Without a run or a call it lists the calls that waited longest.
    """
    if what and (tenant or job):
        complain("give a run or a call, or --tenant and --job for the slowest calls, but not both")
        raise typer.Exit(USAGE)
    back = seconds_of("--last", last)

    async def work(client: Client, ending: SignalEnd) -> int:
        if not what:
            slow = await client.slowest(back, tenant=tenant, job=job, size=number)
            if json:
                print_json(slow)
            elif slow.calls:
                print_table(slow_table(slow.calls))
            else:
                say(f"no call matches in the last {last}; --last looks back further")
            return DONE
        explained = await _explained(client, what)
        if json:
            print_json(explained)
        else:
            print_text("\n".join(explained.words))
            if isinstance(explained, RunExplanation) and explained.calls:
                print_text("")
                print_table(slow_table(explained.calls))
        return DONE

    raise typer.Exit(speak(url, work))


async def _explained(client: Client, what: str) -> CallExplanation | RunExplanation:
    """Ids of runs may look like a call's key, so whatever is not there as the one is looked for as the other."""
    try:
        return await (client.explain_call(what) if CALL.fullmatch(what) else client.explain_run(what))
    except Refusal as refused:
        if refused.status != NOT_FOUND:
            raise
        try:
            return await (client.explain_run(what) if CALL.fullmatch(what) else client.explain_call(what))
        except Refusal:
            raise refused from None


def slow_table(calls: tuple[CallExplanation, ...]) -> Table:
    """A row for each call, with what it waited for most."""
    table = columns("waited", "for", "call", "tenant/job", "priority", "state", right=("waited",), whole=("waited",))
    for call in calls:
        most = max(call.waits, key=lambda part: part.seconds).held_by if call.waits else ""
        whose = f"{call.tenant}/{call.job}" if call.job else call.tenant
        table.add_row(*cells(span(call.waited), most, call.call, whose, call.priority, call.state))
    return table
