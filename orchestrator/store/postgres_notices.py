"""What other processes append, as it comes: one connection that listens, on a thread of its own.

Whenever it has begun to listen, first or again, everybody looks once at everything; so nothing is missed while it does
not, and nobody has to wait for it.
"""

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
import trio
from psycopg import sql

from orchestrator.store.postgres_group import noticed
from orchestrator.store.postgres_link import Address
from orchestrator.store.postgres_schema import Link

PAUSE: Final = 1.0
"""Seconds between tries to connect."""


class Notices:
    """The thread. `on_notice` is called on trio's thread, with the sessions that have grown, or None for all.

    `ours` is the server's number of the connection that this store writes with: what that says is known already.
    """

    def __init__(self, address: Address, on_notice: Callable[[list[str] | None], object], ours: Callable[[], int]):
        self._address = address
        self._on_notice = on_notice
        self._ours = ours
        self._token = trio.lowlevel.current_trio_token()
        self._ear, self._mouth = os.pipe()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="postgres notices", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread soon."""
        self._closing = True
        os.write(self._mouth, b".")

    def join(self) -> None:
        """Waits for its end; blocks."""
        self._thread.join()
        os.close(self._ear)
        os.close(self._mouth)

    def _run(self) -> None:
        while not self._closing:
            try:
                with self._address.connect() as link:
                    link.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.schema)))
                    self._tell(None)
                    self._follow(link)
            except psycopg.Error:
                select.select([self._ear], [], [], PAUSE)

    def _follow(self, link: Link) -> None:
        while not self._closing:
            select.select([link.fileno(), self._ear], [], [])
            link.pgconn.consume_input()
            while (notice := link.pgconn.notifies()) is not None:
                if notice.be_pid != self._ours():
                    self._tell(noticed(notice.extra.decode()))

    def _tell(self, sessions: list[str] | None) -> None:
        with suppress(trio.RunFinishedError):  # nobody is left to be told
            self._token.run_sync_soon(self._on_notice, sessions)
