"""`headrace dashboards`: what Prometheus and Grafana need to show a daemon."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.exits import USAGE, complain, say
from orchestrator.dashboards.shipped import shipped

EXAMPLES: Final = """
\b
Examples:
  headrace dashboards monitoring
  prometheus --config.file=monitoring/prometheus.yml
"""

NEXT: Final = """\
Next: `prometheus --config.file={folder}/prometheus.yml` scrapes the daemon at 127.0.0.1:8700.
{folder}/README.md says how Grafana takes the dashboards in, and what to do where the daemon has keys."""


def dashboards(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to; made if it is not there.")],
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there and differ.")] = False,
) -> None:
    """Writes Grafana dashboards, alert rules and a Prometheus configuration.

    A file that is there and differs is never overwritten without --force; then nothing is written at all.
    """
    try:
        texts = shipped()
        changed = {path: text for path, text in texts.items() if _differs(folder / path, text)}
        kept = sorted(path for path in changed if (folder / path).exists())
        if kept and not force:
            complain(f"{folder} has other versions of {', '.join(kept)}; --force replaces them")
            raise typer.Exit(USAGE)
        _write(folder, changed)
    except OSError as error:
        complain(f"cannot write {error.filename or folder}: {(error.strerror or str(error)).lower()}")
        raise typer.Exit(USAGE) from None
    for path in sorted(changed):
        typer.echo(folder / path)
    if len(changed) < len(texts):
        say(f"{len(texts) - len(changed)} files were there already, and are the same.")
    say(NEXT.format(folder=folder))


def _differs(place: Path, text: str) -> bool:
    """True also where nothing is yet."""
    try:
        return place.read_bytes() != text.encode()
    except FileNotFoundError:
        return True


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="")
