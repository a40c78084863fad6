"""What a check found: a table and lines to paste for people, one JSON object for programs."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agents.money import MILLION
from orchestrator.check.report import CheckReport, Finding, LimitSeen
from orchestrator.cli.progress import dollars, duration
from orchestrator.cli.report import plain_table

_WORDS = {"ok": Text("ok", "green"), "no": Text("no", "red"), "unclear": Text("unclear", "yellow")}

_KINDS = {
    "requests": "requests",
    "total_tokens": "tokens",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
}
_DAY = 86400.0


def as_json(report: CheckReport, table: Sequence[str] | None) -> dict[str, Any]:
    """The whole report. Seconds, dollars, tokens as reported; `config` holds the lines to paste."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    cost = found.pop("cost_micro")
    found["cost_dollars"] = None if cost is None else cost / MILLION
    usage = report.usage
    found["usage"] = {"input": usage.all_input, "cached": usage.cached, "output": usage.output}
    found["config"] = config_lines(report, table)
    return found


def print_report(console: Console, report: CheckReport, table: Sequence[str] | None) -> None:
    """The report for a person."""
    console.print()
    if report.verdict != "unusable" or len(report.findings) > 1:
        _print_findings(console, report, table)
    console.print(Text(f"{_spent(report)}."), soft_wrap=True)
    console.print(Text(_conclusion(report), "bold"), soft_wrap=True)


def _print_findings(console: Console, report: CheckReport, table: Sequence[str] | None) -> None:
    several = len({finding.endpoint for finding in report.findings}) > 1
    if report.findings:
        console.print(_findings(report.findings, several=several))
    if report.limits:
        console.print(_limits(report.limits, several=several))
    lines = config_lines(report, table)
    if lines and report.verdict != "unusable":
        console.print(Text("For the configuration", "bold"))
        for line in lines:
            console.print(Text(f"  {line}" if line else ""), soft_wrap=True)
        console.print()


def config_lines(report: CheckReport, table: Sequence[str] | None) -> list[str]:
    """Lines of TOML: whole tables where `table` begins one, else only what is to be added to the backend's."""
    name = "upstream" if table is not None else report.backend
    found = [*(table or ()), *dict.fromkeys(limit.line for limit in report.limits if limit.line)]
    width = max((len(setting.line) for setting in report.settings), default=0)
    found += [f"{setting.line.ljust(width)}  # {setting.why}" for setting in report.settings]
    if not found:
        return []
    lines = [f"[backends.{name}]", *found]
    if table is not None:
        lines += ["", f"[models.{msgspec.json.encode(report.model).decode()}]", f'backends = ["{name}"]']
    return lines


def _findings(findings: Sequence[Finding], *, several: bool) -> Table:
    """One row per question. What several questions learned from one request is shown beside the first."""
    table = plain_table("What it can do")
    table.add_column("")
    table.add_column("")
    table.add_column("first\ntoken", justify="right", no_wrap=True)
    table.add_column("tokens\n/s", justify="right", no_wrap=True)
    table.add_column("")
    shown: set[tuple[float | None, float | None]] = set()
    for finding in findings:
        figures = (finding.first_token, finding.tokens_per_second)
        first, rate = (None, None) if figures in shown else figures
        shown.add(figures)
        name = finding.name
        if several and name == "answers":
            name = f"{name}: {finding.endpoint}"
        table.add_row(
            Text(name),
            _WORDS[finding.state],
            "" if first is None else f"{first:.2f} s",
            "" if rate is None else f"{rate:,.0f}",
            Text(finding.says),
        )
    return table


def _limits(limits: Sequence[LimitSeen], *, several: bool) -> Table:
    table = plain_table("What it says of its limits")
    for heading in ("limit", "in all", "left", "full again in"):
        table.add_column(heading, justify="left" if heading == "limit" else "right")
    for limit in limits:
        kind = _KINDS.get(limit.kind, limit.kind)
        span = {None: "", _DAY: " a day"}.get(limit.span, " a minute")
        table.add_row(
            Text(f"{kind}{span}{f' of {limit.endpoint}' if several else ''}"),
            "" if limit.limit is None else f"{limit.limit:,.0f}",
            "" if limit.remaining is None else f"{limit.remaining:,.0f}",
            "" if limit.reset is None else f"{limit.reset:,.1f} s",
        )
    return table


def _spent(report: CheckReport) -> str:
    usage = report.usage
    parts = [f"{report.requests} request{'' if report.requests == 1 else 's'} in {duration(report.seconds)}"]
    if usage.all_input is not None or usage.output is not None:
        cached = f" ({usage.cached:,} cached)" if usage.cached else ""
        parts.append(f"{usage.all_input or 0:,} tokens in{cached} and {usage.output or 0:,} out")
    if report.unreported:
        parts.append(f"{report.unreported} answered without saying how many tokens")
    if report.cost_micro is not None:
        parts.append(f"{dollars(report.cost_micro / MILLION)} at the given price")
    return ", ".join(parts)


def _conclusion(report: CheckReport) -> str:
    if report.verdict == "usable":
        return "It is usable."
    if report.verdict == "incomplete":
        return f"It is usable, but {report.message}."
    if report.verdict == "unusable":
        return f"It cannot be used: {report.message.rstrip('.')}."
    return "The check was interrupted."
