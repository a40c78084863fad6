"""The end of a job: tables for people, one JSON object for programs."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from agents.messages import Usage
from agents.money import MILLION, Price
from orchestrator.cli.progress import dollars, duration
from orchestrator.jobs.job import JobReport
from orchestrator.tally import Tally


def cost_dollars(usage: Usage, price: Price | None) -> float | None:
    """What reported usage cost; None without a price or without usage."""
    cost = price.cost(usage) if price is not None else None
    return None if cost is None else cost / MILLION


def summary(report: JobReport, tally: Tally, price: Price | None) -> dict[str, Any]:
    """The whole report as one JSON object. Seconds, dollars, tokens as reported."""
    return {
        "job": report.job,
        "state": report.state,
        "message": report.message,
        "done": report.done,
        "failed": report.failed,
        "cancelled": list(report.cancelled),
        "unread_after": report.unread_after or None,
        "failures": report.failures,
        "errors": list(report.errors),
        "seconds": round(report.seconds, 3),
        "tokens": _tokens(tally.usage),
        "cost_dollars": cost_dollars(tally.usage, price),
        "tenants": {name: tenant_summary(tally, name) for name in tally.tenants},
    }


def tenant_summary(tally: Tally, name: str) -> dict[str, Any]:
    """One tenant's row as JSON."""
    tenant = tally.tenants[name]
    return {
        "calls": tenant.calls,
        "failed_calls": tenant.failed,
        "retries": tenant.retries,
        "tokens": _tokens(tenant.usage),
        "mean_wait_seconds": round(tenant.mean_wait, 3),
        "longest_wait_seconds": round(tenant.longest_wait, 3),
    }


def job_table(report: JobReport, tally: Tally, price: Price | None) -> Table:
    """What was done, what was not, and what it took."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    rate = (report.done + report.failed) / report.seconds if report.seconds > 0 else 0.0
    table.add_row("done", f"{report.done:,}")
    if report.failed:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(report.failures.items()))
        table.add_row("failed", f"{report.failed:,} (ended as: {reasons})")
    if report.cancelled:
        table.add_row("not finished", f"{len(report.cancelled):,}: {ranges(report.cancelled)}")
    if report.unread_after:
        table.add_row("not read", Text(f"the input behind {report.unread_after}"))
    retries = sum(tenant.retries for tenant in tally.tenants.values())
    if retries:
        table.add_row("retries", f"{retries:,}")
    usage = tally.usage
    cached = f" ({usage.cached:,} cached)" if usage.cached else ""
    table.add_row("tokens", f"{usage.all_input or 0:,} in{cached}, {usage.output or 0:,} out")
    cost = cost_dollars(usage, price)
    if cost is not None:
        table.add_row("cost", dollars(cost))
    calls = sum(tenant.calls for tenant in tally.tenants.values())
    waited = sum(tenant.waited for tenant in tally.tenants.values())
    longest = max((tenant.longest_wait for tenant in tally.tenants.values()), default=0.0)
    if calls:
        table.add_row("waiting", f"{waited / calls:.2f} s a call on average, {longest:.2f} s at most")
    table.add_row("time", f"{duration(report.seconds)}, {rate:,.1f} items/s")
    return table


def tenant_table(tally: Tally, weights: Mapping[str, float]) -> Table:
    """Calls, tokens and waits per tenant, and its share of service under contention beside its weight's."""
    table = plain_table("Tenants")
    for name in ("tenant", "weight", "calls", "tokens\nin", "tokens\nout", "mean\nwait", "longest\nwait"):
        table.add_column(name, justify="left" if name == "tenant" else "right")
    table.add_column("share while\nall waited", justify="right")
    table.add_column("share by\nweight", justify="right")
    shares = tally.contended_share
    total = sum(weights.values())
    for name, weight in weights.items():
        tenant = tally.tenants[name]
        table.add_row(
            name,
            f"{weight:g}",
            f"{tenant.calls:,}",
            f"{tenant.usage.all_input or 0:,}",
            f"{tenant.usage.output or 0:,}",
            f"{tenant.mean_wait:.1f} s",
            f"{tenant.longest_wait:.1f} s",
            f"{shares[name]:.0%}" if shares else "never did",
            f"{weight / total:.0%}",
        )
    return table


def plain_table(title: str) -> Table:
    """A table with a line under its head and nothing else, so that eighty columns go to what it says."""
    return Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )


def ranges(ordinals: tuple[int, ...], most: int = 8) -> str:
    """`3-7, 9, 12-14`, cut after `most` ranges."""
    spans: list[list[int]] = []
    for ordinal in sorted(ordinals):
        if spans and ordinal == spans[-1][1] + 1:
            spans[-1][1] = ordinal
        else:
            spans.append([ordinal, ordinal])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in spans[:most]]
    return ", ".join(texts) + (", ..." if len(spans) > most else "")


def _tokens(usage: Usage) -> dict[str, int | None]:
    return {"input": usage.all_input, "cached": usage.cached, "output": usage.output}
