"""The fairness benchmark's figures as tables for people."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bench.fairness.measure import Row
from bench.fairness.published import DIFFERENCES, FIRST_TOKEN, PUBLISHED, SOURCE
from bench.fairness.targets import Verdict


def tables(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> RenderableType:
    """All of it: a table for each suite, the targets, and why the published figures differ."""
    parts: list[RenderableType] = []
    for suite in dict.fromkeys(row.suite for row in rows):
        own = [row for row in rows if row.suite == suite]
        parts.append(_suite(suite, own))
        if any(row.first_token for row in own):
            parts.append(_first_tokens(suite, own))
    if verdicts:
        parts.append(_targets(verdicts))
    if any((row.suite, row.policy) in PUBLISHED for row in rows):
        parts.append(Text(f"Published: {SOURCE}. Why it differs:"))
        parts += [Text(f"- {difference}") for difference in DIFFERENCES]
    return Group(*parts)


def _suite(suite: str, rows: Sequence[Row]) -> Table:
    table = Table(
        title=f"{suite}: service difference per second, medians of {rows[0].replicates} replicates",
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("max", "from-to", "mean", "var.", "tok/s", "backlogged", "aborted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.policy,
            f"{row.max:,.1f}",
            f"{row.lowest_max:,.0f}-{row.highest_max:,.0f}",
            f"{row.mean:,.1f}",
            f"{row.variance:,.0f}",
            f"{row.tokens_per_second:,.0f}",
            "-" if row.backlogged_max is None else f"{row.backlogged_max:,.1f}",
            f"{row.aborted:,.0f}",
        )
        found = PUBLISHED.get((row.suite, row.policy))
        if found is not None:
            table.add_row(
                "  published",
                f"{found.max:,.1f}",
                "",
                f"{found.mean:,.1f}",
                f"{found.variance:,.0f}",
                f"{found.tokens_per_second:,.0f}",
                "",
                f"{found.aborted:,.0f}",
                style="dim",
            )
    return table


def _first_tokens(suite: str, rows: Sequence[Row]) -> Table:
    clients = list(dict.fromkeys(client for row in rows for client in row.first_token))
    table = Table(
        title=f"{suite}: mean seconds to the first token, by client", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("policy", no_wrap=True)
    for client in clients:
        table.add_column(client, justify="right")
    if any((suite, row.policy) in FIRST_TOKEN for row in rows):
        table.add_column("published")
    for row in rows:
        table.add_row(row.policy, *_seconds(row, clients))
    return table


def _seconds(row: Row, clients: Sequence[str]) -> Iterator[str]:
    for client in clients:
        seconds = row.first_token.get(client)
        yield "-" if seconds is None else f"{seconds:,.1f}"
    published = FIRST_TOKEN.get((row.suite, row.policy))
    if published is not None:
        yield " / ".join(f"{seconds:g}" for seconds in published.values())


def _targets(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="Targets", box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("suite", "policy"):
        table.add_column(heading, no_wrap=True)
    table.add_column("figure")
    for heading in ("measured", "target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for verdict in verdicts:
        sign = ">=" if verdict.at_least else "<="
        table.add_row(
            verdict.suite,
            verdict.policy,
            verdict.figure,
            f"{verdict.measured:,.1f}",
            f"{sign} {verdict.bound:,.1f}",
            "met" if verdict.met else "missed",
            style="" if verdict.met else "bold",
        )
    return table
