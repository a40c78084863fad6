"""`headrace approvals`, `approve`, `deny` and `answer`: what people are asked by runs, and what they say to it."""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

import typer

from agents.errors import HeadraceError
from orchestrator.cli.connect import Json, Url, speak
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.render import print_json, print_table, print_text
from orchestrator.cli.request_words import outcome_words, request_facts, requests_table
from orchestrator.cli.signals import SignalEnd
from orchestrator.cli.words import own_name, read_text
from orchestrator.client.client import Client
from orchestrator.client.wire import DEFAULT_URL
from orchestrator.views.approvals import ApprovalView

EXAMPLES: Final = """
\b
Examples:
  headrace approvals --tenant web
  headrace approvals 3fa2b1c09d5e7788/2/0    all of one request
  headrace approvals --json | jq -r '.approvals[].id'
"""
APPROVE_EXAMPLES: Final = """
\b
Examples:
  headrace approve 3fa2b1c09d5e7788/2/0
  headrace approve 3fa2b1c09d5e7788          the only thing that this run asks
"""
DENY_EXAMPLES: Final = """
\b
Examples:
  headrace deny 3fa2b1c09d5e7788/2/0 --note "Not before Monday"
"""
ANSWER_EXAMPLES: Final = """
\b
Examples:
  headrace answer 3fa2b1c09d5e7788/2/0 "The one in the north"
  headrace answer 3fa2b1c09d5e7788/2/0 - < answer.txt
"""

Id = Annotated[
    str, typer.Argument(metavar="ID", help="The request's id, or its run's where that asks one thing alone.")
]
Note = Annotated[str, typer.Option(help="Why; the log keeps it, and the model is told of a denial's.")]
By = Annotated[str, typer.Option("--as", help="Your name, as the log keeps it; your login if not given.")]


class Ambiguous(HeadraceError):
    """A run was named that asks nothing, or several things."""


def approvals(
    id: Annotated[str, typer.Argument(metavar="[ID]", help="Show all of this request.")] = "",
    tenant: Annotated[str, typer.Option(help="Only what this tenant's runs ask.")] = "",
    job: Annotated[str, typer.Option(help="Only what runs of this job ask.")] = "",
    run: Annotated[str, typer.Option(help="Only what this run asks.")] = "",
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Lists what people are asked and have not answered, the oldest first: tool calls to approve, and questions.

    A run that asks waits for the answer as long as that takes, and holds nothing meanwhile.
    """

    async def work(client: Client, ending: SignalEnd) -> int:
        if id:
            _show(await client.approval(id), url, json=json)
            return DONE
        found = await client.approvals(tenant=tenant, job=job, run=run)
        if json:
            print_json(found)
        elif found.approvals:
            print_table(requests_table(found.approvals, time.time()))
            if len(found.approvals) < found.total:
                say(f"the oldest {len(found.approvals):,} of {found.total:,} are shown")
        else:
            say("nobody is asked anything")
        return DONE

    raise typer.Exit(speak(url, work))


def approve(id: Id, note: Note = "", by: By = "", json: Json = False, url: Url = DEFAULT_URL) -> None:
    """Approves a tool call: it runs, with exactly the arguments that were shown, once."""
    _say(id, lambda client, one: client.decide(one, "approved", by=by or own_name(), note=note), url, json=json)


def deny(id: Id, note: Note = "", by: By = "", json: Json = False, url: Url = DEFAULT_URL) -> None:
    """Denies a tool call, which never runs, or leaves a question without an answer; the model is told, and goes on."""
    _say(id, lambda client, one: client.decide(one, "denied", by=by or own_name(), note=note), url, json=json)


def answer(
    id: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer; - reads it from stdin.")],
    by: By = "",
    json: Json = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Answers a question: the model reads these words."""
    words = read_text(text, "the answer")
    _say(id, lambda client, one: client.answer(one, words, by=by or own_name()), url, json=json)


async def only_request(client: Client, id: str) -> str:
    """The request of this id, or the only one that the run of this id has open. Raises `Ambiguous`."""
    if "/" in id:
        return id
    found = await client.approvals(run=id)
    if len(found.approvals) == 1:
        return found.approvals[0].id
    if not found.approvals:
        view = await client.run(id)
        raise Ambiguous(f"run {view.run} asks nothing at the moment; it is {view.state}")
    ids = ", ".join(view.id for view in found.approvals[:10])
    raise Ambiguous(f"run {id} asks {found.total:,} things, so name one of them: {ids}")


def _say(id: str, what: Callable[[Client, str], Awaitable[ApprovalView]], url: str, *, json: bool) -> None:
    async def work(client: Client, ending: SignalEnd) -> int:
        view = await what(client, await only_request(client, id))
        if json:
            print_json(view)
        else:
            print_text(f"{view.id} is {outcome_words(view)}")
        return DONE

    raise typer.Exit(speak(url, work))


def _show(view: ApprovalView, url: str, *, json: bool) -> None:
    if json:
        print_json(view)
    else:
        print_table(request_facts(view, time.time(), url))
