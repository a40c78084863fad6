"""What SQLite's errors mean for whoever uses the store."""

import sqlite3
from pathlib import Path

from orchestrator.store.errors import StoreError, StoreFull, StoreLocked, StoreUnusable


def code_of(error: sqlite3.Error) -> int:
    """The primary result code, 0 where there is none (the fault is the program's, not the file's)."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def problem(error: sqlite3.Error, path: Path) -> StoreError:
    """The error as one sentence for a person."""
    match code_of(error):
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"store {path}: there is no room for it to grow; free some, or prune it")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreLocked(f"store {path}: another program has the file locked for writing; end what it does there")
        case sqlite3.SQLITE_CORRUPT:
            return StoreUnusable(f"store {path}: the file is damaged ({error}); restore it from a copy")
        case sqlite3.SQLITE_NOTADB:
            return StoreUnusable(f"store {path}: the file is no SQLite database; name another file")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreUnusable(f"store {path}: the file cannot be written; give this user the right to")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnusable(f"store {path}: the file cannot be opened; its folder has to exist and be writable")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StoreError(f"store {path}: {error} ({name})")
