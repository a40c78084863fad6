"""`headrace keys`: who may use the daemon. It changes a file in the daemon's data folder, which need not run."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from orchestrator.cli.amounts import seconds_of
from orchestrator.cli.connect import Json
from orchestrator.cli.exits import DONE, say
from orchestrator.cli.options import PriorityOption
from orchestrator.cli.render import age, cells, columns, print_json, print_table, print_text
from orchestrator.config import find
from orchestrator.config.decode import load
from orchestrator.config.schema import Config
from orchestrator.key_file import change_keys, read_keys
from orchestrator.keys import KeyRecord, KeyRing, NewKey, Role

app = typer.Typer(help="Keys: who may use the daemon.", no_args_is_help=True, rich_markup_mode=None)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The daemon's configuration; otherwise the one it would take.")
]
DataDir = Annotated[Path | None, typer.Option(help="The daemon's data folder; otherwise the configuration's.")]


class KeyView(Struct, frozen=True, kw_only=True):
    """One key as it is shown. Times are seconds since the epoch."""

    id: str
    tenant: str
    name: str
    role: str
    highest_priority: str | None
    created: float
    expires: float | None
    state: str


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A key just made, with the only copy of itself there will ever be."""

    key: str


@app.callback()
def group() -> None:
    """Keys: who may use the daemon.

    As long as there is none, whoever is on this machine may use it, and nobody else can. With the first key everybody
    needs one. The daemon sees a change within a second.
    """


@app.command()
def add(
    tenant: Annotated[str, typer.Argument(help="Whose work the key's calls, runs and jobs are.")],
    name: Annotated[str, typer.Option(help="What or whom it is for, to tell keys apart.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="It sees all tenants' work, and may act for each.")] = False,
    priority: Annotated[
        PriorityOption | None, typer.Option(help="The highest that its work may have, below what its tenant may.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="For how long it holds, as 12h, 30d or 4w.")] = None,
    json: Json = False,
    config: ConfigOption = None,
    data_dir: DataDir = None,
) -> None:
    """Makes a key and prints it, once: only its digest is kept.

    \b
    headrace keys add web --name "the web app"
    export HEADRACE_KEY=$(headrace keys add ops --admin --expires 30d)
    """
    folder, now = _folder(config, data_dir), time.time()
    until = None if expires is None else now + seconds_of("--expires", expires)
    role: Role = "admin" if admin else "tenant"

    def change(ring: KeyRing) -> tuple[KeyRing, NewKey]:
        return ring.add(tenant, now, name=name, role=role, highest_priority=priority, expires=until)

    first = not read_keys(folder)
    new = change_keys(folder, change)
    if json:
        print_json(NewKeyView(**_shown(new.record, now), key=new.text))
    else:
        print_text(new.text)
    say(f"Key {new.record.id} of tenant {tenant}{' (admin)' * admin}. It is not shown again.")
    if first:
        say("It is the first: from now on the daemon asks everybody for a key. Commands take theirs from HEADRACE_KEY.")
    raise typer.Exit(DONE)


@app.command("ls")
def list_keys(json: Json = False, config: ConfigOption = None, data_dir: DataDir = None) -> None:
    """Lists keys by their ids, the newest last, with those that hold no more."""
    folder, now = _folder(config, data_dir), time.time()
    views = [KeyView(**_shown(record, now)) for record in read_keys(folder)]
    if json:
        print_json(views)
    elif views:
        table = columns("id", "tenant", "name", "role", "priority", "age", "expires", "state", right=("age",))
        for view in views:
            expires = "never" if view.expires is None else f"{datetime.fromtimestamp(view.expires, UTC):%Y-%m-%d %H:%M}"
            priority = "" if view.highest_priority is None else f"up to {view.highest_priority}"
            row = (view.id, view.tenant, view.name, view.role, priority, age(now - view.created), expires, view.state)
            table.add_row(*cells(*row))
        print_table(table)
    else:
        say(f"there are no keys in {folder}: whoever is on this machine may use the daemon, and nobody else can")
    raise typer.Exit(DONE)


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The key's id.", metavar="ID")],
    json: Json = False,
    config: ConfigOption = None,
    data_dir: DataDir = None,
) -> None:
    """Ends a key. What was begun with it goes on; one that was ended before stays as it is, which is no error."""
    now = time.time()
    record = change_keys(_folder(config, data_dir), lambda ring: ring.revoke(key, now))
    if json:
        print_json(KeyView(**_shown(record, now)))
    else:
        print_text(f"{record.id} of tenant {record.tenant} is revoked")
    raise typer.Exit(DONE)


def _folder(config: Path | None, folder: Path | None) -> Path:
    """The data folder of the daemon that the same options would start."""
    if folder is not None:
        return folder.absolute()
    found = find.find_config(config)
    return find.data_dir(Config() if found is None else load(found))


def _shown(record: KeyRecord, now: float) -> dict[str, Any]:
    shown = ("id", "tenant", "name", "role", "highest_priority", "created", "expires")
    return {**{name: getattr(record, name) for name in shown}, "state": record.state(now)}
