"""Sessions as a client sees them: what `/api/sessions` answers, what an exported log is, what pruning removes.

Times are seconds since the Unix epoch.

**An exported log** is JSON Lines. The first line is an `ExportHeader`, each further one an `ExportLine`: the session's
events in their order, numbered from 1 without gaps, word for word as they are stored. The header says how many follow,
so that a file that was cut short is no log. Whoever may read a session may export it; it goes to the same place as its
transcript, and is as confidential.
"""

from typing import Final, Literal

import msgspec
from msgspec import Struct

from agents.amounts import Limits
from orchestrator.views.names import Key
from orchestrator.views.runs import RunView

EXPORT_FORMAT: Final = "headrace-session"
EXPORT_VERSION: Final = 1
"""The version of the file's form. That of the events is in each `run_created`."""


class SessionView(Struct, frozen=True, kw_only=True):
    """One session in a list. `events` is the number of its last event, `updated` when that came.

    `holder` is the executor that has its lease, empty where nobody has, and `generation` counts how often it was taken.
    """

    session: str
    tenant: str
    events: int
    generation: int
    holder: str
    created: float
    updated: float


class SessionDetail(SessionView, frozen=True, kw_only=True):
    """One session with its latest runs, the oldest first. `total` counts all of them."""

    runs: tuple[RunView, ...] = ()
    total: int = 0


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of sessions in the order of their names. `next` is the cursor of the following page, empty on the last."""

    sessions: tuple[SessionView, ...]
    next: str = ""


class ExportHeader(Struct, frozen=True, kw_only=True):
    """The first line of an exported log: whose it was, and how many `events` follow."""

    format: Literal["headrace-session"] = EXPORT_FORMAT
    version: int = EXPORT_VERSION
    session: str
    tenant: str
    events: int
    exported: float = 0.0


class ExportLine(Struct, frozen=True, kw_only=True):
    """Each further line: an event, word for word, and its number in the session."""

    number: int
    event: msgspec.Raw


class ImportReport(Struct, frozen=True, kw_only=True):
    """What an imported log is here. `runs` were in it, the oldest first."""

    session: str
    tenant: str
    events: int
    runs: tuple[str, ...]


class PruneReport(Struct, frozen=True, kw_only=True):
    """What was removed, or, after a `dry_run`, what would be; `calls` of the ledger are None where nobody counted them.

    Whatever was touched since `before` stayed.
    """

    before: float
    dry_run: bool
    sessions: int
    runs: int
    events: int
    calls: int | None = None


class MessageRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to say to a run while it works; the model reads it with its next request.

    `key` is an id of the client's own choice: the same one again says nothing twice, so a lost answer can be repeated.
    """

    content: str
    key: Key = ""


class GrantRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Other limits for a live run, field by field; a field that is not given stays. `key` is as in `MessageRequest`."""

    limits: Limits
    key: Key = ""
