"""What is written beside the logs: executors, blobs, and what nobody has touched for long. For the writer."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from orchestrator.store.base import Pruned
from orchestrator.store.postgres_group import NOTIFY
from orchestrator.store.postgres_ledger import prune_calls
from orchestrator.store.postgres_schema import Link

_BEAT: Final = (
    "INSERT INTO executors VALUES (%(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))"
    " ON CONFLICT (holder) DO UPDATE SET until = excluded.until"
)
_DOOMED: Final = (
    "SELECT session FROM sessions WHERE updated < %s"
    " AND NOT EXISTS (SELECT FROM runs WHERE runs.session = sessions.session AND open)"
    " AND NOT EXISTS (SELECT FROM executors WHERE executors.holder = sessions.holder AND until > clock_timestamp())"
    " ORDER BY session FOR UPDATE"
)
_ORPHANS: Final = (
    "DELETE FROM blobs WHERE added < %s AND NOT EXISTS"
    " (SELECT FROM records WHERE position(convert_to(digest, 'UTF8') IN data) > 0)"
)


def beat(holder: str, seconds: float) -> Callable[[Link], None]:
    """The executor is alive for so long from now, by the server's clock."""

    def write(link: Link) -> None:
        link.execute(_BEAT, {"holder": holder, "seconds": seconds})

    return write


def drop(holder: str) -> Callable[[Link], None]:
    """The executor is gone."""

    def write(link: Link) -> None:
        link.execute("DELETE FROM executors WHERE holder = %s", [holder])

    return write


def put_blob(data: bytes) -> tuple[str, Callable[[Link], None]]:
    """A blob's digest, and what keeps it."""
    digest = hashlib.sha256(data).hexdigest()

    def write(link: Link) -> None:
        link.execute(
            "INSERT INTO blobs VALUES (%s, %s, extract(epoch FROM clock_timestamp()))"
            " ON CONFLICT (digest) DO UPDATE SET added = excluded.added",
            [digest, data],
        )

    return digest, write


def prune(before: float) -> Callable[[Link], Pruned]:
    """Removes what nobody has touched since then. A blob is looked for in every record, so this may take a while."""

    def write(link: Link) -> Pruned:
        doomed = [row[0] for row in link.execute(_DOOMED, [before])]
        gone = {name: _remove(link, name, doomed) for name in ("runs", "batches", "records", "sessions")}
        link.execute(_ORPHANS, [before])
        link.execute("DELETE FROM executors WHERE until < clock_timestamp() - interval '1 day'")
        calls = prune_calls(link, before)
        link.execute(NOTIFY, [""])
        return Pruned(sessions=len(doomed), runs=gone["runs"], events=gone["records"], calls=calls)

    return write


def _remove(link: Link, table: Any, sessions: list[str]) -> int:
    return link.execute(f"DELETE FROM {table} WHERE session = ANY(%s)", [sessions]).rowcount
