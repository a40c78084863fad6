"""What the demo ends with: each agent's answer, a table per tenant, and where to look next."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.cli.demo_tasks import DemoTenant
from orchestrator.cli.progress import duration
from orchestrator.cli.report import plain_table, tenant_summary, tenant_table
from orchestrator.tally import Tally

MOST_COLUMNS = 100
"""Holds nearly every answer. A pipe has no width of its own."""

NEXT = """\
Where to look next:
  headrace serve --upstream local   a daemon before this model, for jobs and runs of many tenants
  headrace job start --help         your own text, on this model or on a server
  headrace simulate --rpm 60        a provider with limits, to try things on
  README.md, ARCHITECTURE.md        what else there is, and how it works"""


class DemoAnswer(Struct, frozen=True):
    """One agent's end. `seconds` is when, since all began."""

    tenant: str
    item: str
    reason: str
    ok: bool
    answer: str
    expected: str
    right: bool
    tool_calls: int
    seconds: float


class DemoReport(Struct, frozen=True, kw_only=True):
    """Everything the demo has to tell. `fallback` says why the local model was not used, empty if it was."""

    backend: str
    fallback: str
    tenants: Sequence[DemoTenant]
    answers: Sequence[DemoAnswer]
    tally: Tally
    seconds: float


def print_report(report: DemoReport, *, json: bool) -> None:
    """To standard output, as tables or as one JSON object."""
    if json:
        print(msgspec.json.encode(_as_json(report)).decode(), flush=True)
        return
    console = Console(width=min(Console().width, MOST_COLUMNS) if sys.stdout.isatty() else MOST_COLUMNS)
    console.print(_answers(report))
    console.print(tenant_table(report.tally, {tenant.name: tenant.weight for tenant in report.tenants}))
    console.print(Text(_conclusion(report)))
    console.print(Text(NEXT))


def _answers(report: DemoReport) -> Table:
    table = plain_table("Answers")
    table.expand = True  # what is left is the answers'
    judged = report.backend == "local"  # filler is neither right nor wrong
    table.add_column("tenant", no_wrap=True)
    table.add_column("agent", no_wrap=True)
    table.add_column("answer", no_wrap=True, overflow="ellipsis", ratio=1)
    if judged:
        table.add_column("expected", no_wrap=True)
        table.add_column("", no_wrap=True)
    table.add_column("tools", justify="right", no_wrap=True)
    table.add_column("ended", justify="right", no_wrap=True)
    for answer in report.answers:
        text = answer.answer if answer.ok else f"{answer.reason}: {answer.answer}"
        row: list[str | Text] = [answer.tenant, answer.item, Text(" ".join(text.split()))]
        if judged:
            row += [answer.expected, Text("right", "green") if answer.right else Text("wrong", "red")]
        table.add_row(*row, str(answer.tool_calls), f"{answer.seconds:.1f} s")
    return table


def _conclusion(report: DemoReport) -> str:
    ended = sum(answer.ok for answer in report.answers)
    used_tool = sum(answer.tool_calls > 0 for answer in report.answers)
    text = f"{ended} of {len(report.answers)} agents ended with an answer in {duration(report.seconds)}"
    text += f"; {used_tool} used a tool"
    if report.backend == "local":
        text += f"; {sum(answer.right for answer in report.answers)} answers are right (the model is very small)"
    else:
        text += f"; on the simulated model ({report.fallback})"
    return text + ".\n"


def _as_json(report: DemoReport) -> dict[str, Any]:
    shares = report.tally.contended_share
    total = sum(tenant.weight for tenant in report.tenants)
    return {
        "backend": report.backend,
        "fallback": report.fallback or None,
        "seconds": round(report.seconds, 3),
        "agents": list(report.answers),
        "tenants": {
            tenant.name: tenant_summary(report.tally, tenant.name)
            | {
                "weight": tenant.weight,
                "weight_share": tenant.weight / total,
                "contended_share": shares.get(tenant.name),
                "contended_calls": report.tally.tenants[tenant.name].contended_calls,
            }
            for tenant in report.tenants
        },
    }
