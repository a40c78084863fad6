"""The page: sections, targets and how they were made, as one HTML document that needs nothing else."""

from collections.abc import Sequence
from html import escape
from typing import Final

from msgspec import Struct

from bench.report.parts import Picture, Section, Table, Target
from bench.report.plan import Bench
from bench.report.record import Record
from bench.report.style import STYLE

_OPEN_ROWS: Final = 16
"""Tables with more rows are folded."""


class Shown(Struct, frozen=True, kw_only=True):
    """A benchmark on the page. Without a section, `why` says why there is none."""

    bench: Bench
    record: Record | None = None
    section: Section | None = None
    why: str = ""


def page(shown: Sequence[Shown]) -> str:
    """The whole document."""
    records = [one.record for one in shown if one.record is not None]
    body = [_header(records), _summary(shown), *map(_bench, shown)]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>Headrace: benchmarks</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _header(records: Sequence[Record]) -> str:
    lines = ["<h1>Headrace: benchmarks</h1>"]
    if records:
        days = sorted(record.started for record in records)
        when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
        machines = dict.fromkeys(
            f"{one.machine.cores} cores, Python {one.machine.python}, {one.machine.system}" for one in records
        )
        versions = dict.fromkeys(f"{one.version} (source {one.code})" for one in records)
        took = sum(one.seconds for one in records)
        lines.append(
            f'<p class="dim">Begun {escape(when)} UTC. {escape("; ".join(machines))}. Headrace'
            f" {escape(', '.join(versions))}. All of it took {_duration(took)}.</p>"
        )
        if len(versions) > 1:
            lines.append('<p class="notice">Not all of this was measured on the same source.</p>')
    if any(one.quick for one in records):
        lines.append(
            '<p class="notice">Measured with <code>--quick</code>: small workloads and few repeats, which show that'
            " everything works. The targets are those of the whole benchmarks.</p>"
        )
    return "\n".join(lines)


def _summary(shown: Sequence[Shown]) -> str:
    targets = [(one, target) for one in shown if one.section is not None for target in one.section.targets]
    missed = [(one, target) for one, target in targets if not target.met]
    rows = []
    for one in shown:
        link = f'<a href="#{one.bench.name}">{escape(one.bench.title)}</a>'
        if one.section is None:
            rows.append(f'<tr><td>{link}</td><td class="dim" colspan="3">not measured: {escape(one.why)}</td></tr>')
            continue
        its = one.section.targets
        unmet = sum(not target.met for target in its)
        cell = f'<td class="n missed">{unmet}</td>' if unmet else '<td class="n">0</td>'
        took = _duration(one.record.seconds) if one.record is not None else ""
        counts = (
            f'<td class="n">{len(its) - unmet}</td>{cell}' if its else '<td class="n dim" colspan="2">has none</td>'
        )
        rows.append(f'<tr><td>{link}</td>{counts}<td class="n">{took}</td></tr>')
    words = f"{len(targets) - len(missed)} of {len(targets)} targets are met."
    parts = [f"<h2>Targets</h2>\n<p><strong>{words}</strong></p>"]
    parts.append(
        '<div class="wide"><table><thead><tr><th>benchmark</th><th class="n">met</th><th class="n">missed</th>'
        f'<th class="n">took</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )
    if missed:
        parts.append("<h3>Missed</h3>" + _targets([target for _, target in missed], [one for one, _ in missed]))
    return "\n".join(parts)


def _bench(shown: Shown) -> str:
    bench, record, section = shown.bench, shown.record, shown.section
    parts = [f'<section id="{bench.name}">', f"<h2>{escape(bench.title)}</h2>", f"<p>{escape(bench.about)}</p>"]
    if record is not None:
        quick = ": a quick measurement" if record.quick else ""
        words = " ".join(f"<span>{escape(word)}</span>" for word in record.command.split(" "))
        parts.append(f"<pre><code>{words}</code></pre>")
        parts.append(f'<p class="dim">{escape(record.started)} UTC, took {_duration(record.seconds)}{quick}.</p>')
    if section is None:
        parts.append(f'<p class="notice">Not measured: {escape(shown.why)}.</p>')
    else:
        if section.targets:
            parts.append(_targets(section.targets))
        parts.append(f'<div class="pictures">{"".join(map(_picture, section.pictures))}</div>')
        parts += map(_table, section.tables)
        if section.notes:
            notes = "".join(f"<li>{escape(note)}</li>" for note in section.notes)
            parts.append(f'<ul class="dim notes">{notes}</ul>')
    parts.append("</section>")
    return "\n".join(parts)


def _targets(targets: Sequence[Target], of: Sequence[Shown] = ()) -> str:
    """Targets as a table, with links to the benchmarks where those are named."""
    rows = []
    for place, target in enumerate(targets):
        link = f'<td><a href="#{of[place].bench.name}">{escape(of[place].bench.name)}</a></td>' if of else ""
        verdict = '<td class="met">met</td>' if target.met else '<td class="missed">missed</td>'
        rows.append(
            f'<tr>{link}<td class="of">{escape(target.of)}</td><td class="n">{target.measured:{target.form}}</td>'
            f'<td class="n">{escape(target.asked)}</td><td class="n">{escape(target.difference)}</td>{verdict}</tr>'
        )
    first = "<th>benchmark</th>" if of else ""
    return (
        f'<div class="wide"><table class="targets"><thead><tr>{first}<th>target</th><th class="n">measured</th>'
        '<th class="n">asked</th><th class="n">difference</th><th></th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _picture(picture: Picture) -> str:
    caption = f'<br><span class="dim">{escape(picture.caption)}</span>' if picture.caption else ""
    svg = picture.svg.replace("<svg ", f'<svg aria-label="{escape(picture.title)}" ', 1)
    return f"<figure><figcaption><strong>{escape(picture.title)}</strong>{caption}</figcaption>{svg}</figure>"


def _table(table: Table) -> str:
    def kind(place: int) -> str:
        return "" if place < table.words else ' class="n"'

    head = "".join(f"<th{kind(place)}>{escape(words)}</th>" for place, words in enumerate(table.headings))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind(place)}>{escape(cell)}</td>" for place, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    caption = f'<p class="dim">{escape(table.caption)}</p>' if table.caption else ""
    unfolded = " open" if len(table.rows) <= _OPEN_ROWS else ""
    return (
        f"<details{unfolded}><summary>{escape(table.title)}</summary>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{caption}</details>'
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6_000 else f"{seconds / 3_600:.1f} h"
