"""`headrace init`: writes a configuration to start from."""

import os
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.exits import USAGE, complain, say
from orchestrator.config.find import FILE
from orchestrator.config.template import template


def init(
    path: Annotated[Path, typer.Argument(help="The file to write, or the folder to write it in.")] = Path(FILE),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Writes a configuration to start from.

    It is commented, and works as it is, with a simulated model.

    \b
    headrace init
    headrace config check
    headrace serve
    """
    place = path / FILE if path.is_dir() else path
    try:
        _write(place, template(), replace=force)
    except FileExistsError:
        complain(f"{place} is there already; --force replaces it")
        raise typer.Exit(USAGE) from None
    except OSError as error:
        complain(f"cannot write {place}: {(error.strerror or str(error)).lower()}")
        raise typer.Exit(USAGE) from None
    say(f"Wrote {place}. Next: `headrace config check {place}`, then `headrace serve --config {place}`.")


def _write(place: Path, text: str, *, replace: bool) -> None:
    """The whole file or nothing: a disk that is full never leaves half a configuration where a whole one was."""
    if not replace:
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
        return
    beside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)
