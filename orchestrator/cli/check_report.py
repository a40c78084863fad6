"""What a check found: tables and lines to paste for people, one JSON object for programs."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from agents.money import MILLION
from orchestrator.check.report import CheckReport, Finding, LimitSeen
from orchestrator.cli.progress import duration
from orchestrator.cli.render import cells, clean, columns, console, facts, money, print_table, tokens
from orchestrator.config.flags import UPSTREAM

_STYLES: Final = {"ok": "green", "no": "red", "unclear": "yellow"}
_KINDS: Final = {
    "requests": "requests",
    "total_tokens": "tokens",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}
_SPANS: Final = {60.0: " a minute", 86400.0: " a day"}


def as_json(report: CheckReport, table: Sequence[str] | None) -> dict[str, Any]:
    """The whole report. Seconds, dollars, tokens as reported; `config` holds the lines to paste."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    cost, usage = found.pop("cost_micro"), report.usage
    found["cost_dollars"] = None if cost is None else cost / MILLION
    found["usage"] = {"input": usage.all_input, "cached": usage.cached, "output": usage.output}
    found["config"] = config_lines(report, table)
    return found


def print_report(report: CheckReport, table: Sequence[str] | None) -> None:
    """The report for a person, on standard output."""
    out = console()
    several = len({finding.endpoint for finding in report.findings}) > 1
    if report.verdict != "unusable" or len(report.findings) > 1:
        print_table(_findings(report.findings, several=several))
        out.print()
    if report.limits and report.verdict != "unusable":
        print_table(_limits(report.limits, several=several))
        out.print()
    lines = config_lines(report, table)
    if lines:
        out.print(Text("For the configuration:", "bold"))
        for line in lines:
            out.print(Text(clean(f"  {line}" if line else "")), soft_wrap=True)
        out.print()
    print_table(_spent(report))
    out.print(Text(clean(_conclusion(report)), "bold"), soft_wrap=True)


def config_lines(report: CheckReport, table: Sequence[str] | None) -> list[str]:
    """Lines of TOML: whole tables where `table` begins one, else what is to be added to the backend's."""
    if report.verdict == "unusable":
        return []
    name = UPSTREAM if table is not None else report.backend
    limits = dict.fromkeys(limit.line for limit in report.limits if limit.line)
    width = max((len(setting.line) for setting in report.settings), default=0)
    settings = [f"{setting.line.ljust(width)}  # {setting.why}" for setting in report.settings]
    found = [*(table or ()), *limits, *settings]
    if not found:
        return []
    lines = [f"[backends.{name}]", *found]
    if table is not None:
        lines += ["", f"[models.{msgspec.json.encode(report.model).decode()}]", f'backends = ["{name}"]']
    return lines


def _findings(findings: Sequence[Finding], *, several: bool) -> Table:
    """One row per question. What several questions learned from one request is shown beside the first."""
    table = columns("question", "", "first\ntoken", "tokens\n/s", "what was seen", right=("first\ntoken", "tokens\n/s"))
    shown: set[tuple[float | None, float | None]] = set()
    for finding in findings:
        figures = (finding.first_token, finding.tokens_per_second)
        first, rate = (None, None) if figures in shown else figures
        shown.add(figures)
        name = f"answers: {finding.endpoint}" if several and finding.name == "answers" else finding.name
        question, first_token, per_second, says = cells(
            name,
            "" if first is None else f"{first:.2f} s",
            "" if rate is None else f"{rate:,.0f}",
            finding.says,
        )
        table.add_row(question, Text(finding.state, _STYLES[finding.state]), first_token, per_second, says)
    return table


def _limits(limits: Sequence[LimitSeen], *, several: bool) -> Table:
    table = columns("limit it tells of", "in all", "left", "full again in", right=("in all", "left", "full again in"))
    for limit in limits:
        span = "" if limit.span is None else _SPANS.get(limit.span, "")
        of = f" of {limit.endpoint}" if several else ""
        table.add_row(
            *cells(
                f"{_KINDS.get(limit.kind, limit.kind)}{span}{of}",
                "" if limit.limit is None else f"{limit.limit:,.0f}",
                "" if limit.remaining is None else f"{limit.remaining:,.0f}",
                "" if limit.reset is None else f"{limit.reset:,.1f} s",
            )
        )
    return table


def _spent(report: CheckReport) -> Table:
    table = facts()
    table.add_row("requests", f"{report.requests} in {duration(report.seconds)}")
    if report.usage.all_input is not None or report.usage.output is not None:
        more = f"; {report.unreported} answers did not say" if report.unreported else ""
        table.add_row("tokens", f"{tokens(report.usage)}{more}")
        if report.cost_micro is not None:
            table.add_row("cost", money(report.cost_micro))
    return table


def _conclusion(report: CheckReport) -> str:
    if report.verdict == "usable":
        return "It is usable."
    if report.verdict == "incomplete":
        return f"It is usable, but {report.message}."
    if report.verdict == "unusable":
        return f"It cannot be used: {report.message.rstrip('.')}."
    return "The check was interrupted."
