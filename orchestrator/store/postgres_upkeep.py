"""What is written beside the logs: executors, blobs, and what nobody has touched for long. For the writer."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from orchestrator.store.base import Pruned
from orchestrator.store.postgres_group import NOTIFY
from orchestrator.store.postgres_ledger import prune_calls
from orchestrator.store.postgres_schema import Link

PORTION: Final = 200
"""How many sessions are removed in one transaction."""

_BEAT: Final = (
    "INSERT INTO executors VALUES (%(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))"
    " ON CONFLICT (holder) DO UPDATE SET until = excluded.until"
)
_DOOMED: Final = (
    "SELECT session FROM sessions WHERE updated < %s"
    " AND NOT EXISTS (SELECT FROM runs WHERE runs.session = sessions.session AND open)"
    " AND NOT EXISTS (SELECT FROM executors WHERE executors.holder = sessions.holder AND until > clock_timestamp())"
    " ORDER BY session LIMIT %s FOR UPDATE"
)
_ORPHANS: Final = (
    "SELECT digest FROM blobs WHERE added < %s AND NOT EXISTS"
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


def prune_sessions(before: float) -> Callable[[Link], Pruned]:
    """Removes some of the sessions that nobody has touched since then; none are left when these are no whole portion.

    A portion at a time, so that appends and beats, which are written by the same hand, never wait for long.
    """

    def write(link: Link) -> Pruned:
        doomed = [row[0] for row in link.execute(_DOOMED, [before, PORTION])]
        gone = {name: _remove(link, name, doomed) for name in ("runs", "batches", "records", "sessions")}
        if doomed:
            link.execute(NOTIFY, [""])
        return Pruned(sessions=len(doomed), runs=gone["runs"], events=gone["records"], calls=0)

    return write


def orphans(before: float) -> Callable[[Link], list[str]]:
    """The blobs of before then that no record names. It looks into every record, so it is for a reader."""

    def read(link: Link) -> list[str]:
        return [row[0] for row in link.execute(_ORPHANS, [before])]

    return read


def prune_rest(before: float, blobs: list[str]) -> Callable[[Link], int]:
    """Removes these blobs, unless somebody has put one again meanwhile, and calls, and executors of long ago. How many
    calls there were.
    """

    def write(link: Link) -> int:
        link.execute("DELETE FROM blobs WHERE digest = ANY(%s) AND added < %s", [blobs, before])
        link.execute("DELETE FROM executors WHERE until < clock_timestamp() - interval '1 day'")
        return prune_calls(link, before)

    return write


def _remove(link: Link, table: Any, sessions: list[str]) -> int:
    return link.execute(f"DELETE FROM {table} WHERE session = ANY(%s)", [sessions]).rowcount
