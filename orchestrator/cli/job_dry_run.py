"""`headrace job start --dry-run`: what a job comes to, with nothing started."""

from contextlib import aclosing, suppress

from rich.table import Table
from rich.text import Text

from orchestrator.cli.connect import speak
from orchestrator.cli.exits import DONE
from orchestrator.cli.job_estimate import Estimate, Volume, estimate
from orchestrator.cli.job_remote import RemoteJob
from orchestrator.cli.progress import duration
from orchestrator.cli.render import clean, facts, money, print_json, print_table
from orchestrator.cli.signals import SignalEnd
from orchestrator.client.client import Client
from orchestrator.jobs.inputs import InputStream, Item, check_sources
from orchestrator.jobs.job import chain, peek
from orchestrator.jobs.template import TemplateError


def foretell(options: RemoteJob) -> int:
    """Reads the inputs, asks the daemon for its limits and prices, prints what follows, and returns the exit code."""

    async def work(client: Client, ending: SignalEnd) -> int:
        volume = await measure(options) if options.request.takes_inputs else Volume(0, 0)
        foretold = estimate(options.request, volume, await client.capabilities(), await client.queue())
        if options.json:
            print_json(foretold)
        else:
            print_table(_table(foretold))
        return DONE

    return speak(options.url, work)


async def measure(options: RemoteJob) -> Volume:
    """Reads all inputs, one at a time. Raises `InputError` and `TemplateError` as a start would."""
    assert options.template is not None
    sources = check_sources(options.inputs, options.input_format, skip=options.output)
    stream = InputStream(sources, options.input_format, skip=options.output)
    items = size = unreadable = 0
    async with aclosing(stream.items()) as every:
        head = await peek(every, options.template)
        async with aclosing(chain(head, every)) as rest:
            async for item in rest:
                prompt = None
                if isinstance(item, Item):
                    with suppress(TemplateError):
                        prompt = options.template.fill(item.fields, item.origin)
                if prompt is None:
                    unreadable += 1
                else:
                    items, size = items + 1, size + len(prompt.encode())
    return Volume(items, size, unreadable)


def _table(foretold: Estimate) -> Table:
    table = facts()

    def fact(name: str, value: str) -> None:
        table.add_row(name, Text(clean(value)))

    fact("calls", f"{foretold.calls:,}")
    fact("tokens", f"about {foretold.input_tokens:,} in, at most {foretold.output_tokens:,} out")
    cost = foretold.micro_dollars
    fact("cost", "not known: the model has no price" if cost is None else f"at most {money(cost)}")
    if foretold.seconds is None:
        fact("time", "not known: no limit is")
    else:
        fact("time", f"about {duration(foretold.seconds)}, by {foretold.limited_by}")
    for words in foretold.stops:
        fact("budget", f"does not suffice: {words}")
    for words in foretold.assumptions:
        fact("if", words)
    return table
