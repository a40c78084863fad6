"""What the demo ends with: each agent's answer, a table per tenant, and where to look next."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.demo_tasks import DemoTenant
from orchestrator.progress import duration
from orchestrator.report import tenant_summary, tenant_table
from orchestrator.tally import Tally

NEXT = """\
Where to look next:
  your own text:       headrace job start --embedded --backend local --input FILE --prompt 'Summarise: {text}'
  your own server:     headrace job start --embedded --backend openai --base-url URL --model NAME --rpm N --tpm N ...
  a provider to test:  headrace simulate --rpm 60
  how it works:        README.md, ARCHITECTURE.md"""


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
    # A pipe has no width; 120 columns hold every answer.
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_answers(report))
    console.print(tenant_table(report.tally, {tenant.name: tenant.weight for tenant in report.tenants}))
    console.print(Text(_conclusion(report)))
    console.print(Text(NEXT))


def _answers(report: DemoReport) -> Table:
    table = Table(title="Answers", title_justify="left", title_style="bold")
    for name in ("tenant", "agent", "answer", "expected", "", "tool calls", "ended at"):
        table.add_column(name, justify="right" if name in ("tool calls", "ended at") else "left")
    judged = report.backend == "local"
    for answer in report.answers:
        mark = ("right" if answer.right else "wrong") if judged else ""
        table.add_row(
            answer.tenant,
            answer.item,
            Text(_cut(answer.answer if answer.ok else f"{answer.reason}: {answer.answer}")),
            answer.expected,
            Text(mark, style="green" if answer.right else "red"),
            str(answer.tool_calls),
            f"{answer.seconds:.1f} s",
        )
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


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
