"""What differs between two configurations, and what of it can change while the daemon runs.

Everything is compared key by key as it stands in the file, so that a person finds again what they changed. What can
change live is named here; all the rest needs a restart.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from orchestrator.config.limit_tables import LimitKeys
from orchestrator.config.problems import Path, show_path
from orchestrator.config.schema import Config
from orchestrator.config.tool_table import ToolTable
from orchestrator.config.words import SECRET, in_words, keys_of

LIVE_DAEMON: Final = frozenset(
    {"admission", "default_model", "max_live_runs", "runs_per_tenant", "runs_in_all", "keep_ended_runs"}
)
LIVE_TABLES: Final = frozenset({"agents", "tenants"})
LIVE_ENDPOINT: Final = frozenset({*LimitKeys.__struct_fields__, "concurrency"})
LIVE_BACKEND: Final = frozenset({*LIVE_ENDPOINT, "retry"})
LIVE_FAIR: Final = "weights"


class Change(Struct, frozen=True):
    """One thing that differs, in words."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}: {self.before} -> {self.after}"


class Difference(Struct, frozen=True):
    """What differs: what can change while the daemon runs, and what needs a restart."""

    live: list[Change]
    restart: list[Change]

    def __bool__(self) -> bool:
        return bool(self.live or self.restart)


def difference(old: Config, new: Config) -> Difference:
    """What leads from `old` to `new`. Where the file lies is no difference."""
    found = Difference([], [])
    for path, before, after in _changes(old, new, ()):
        change = Change(show_path(path), _show(before, path), _show(after, path))
        (found.live if _is_live(path, old, after) else found.restart).append(change)
    return found


def _is_live(path: Path, old: Config, after: object) -> bool:
    table, keys = path[0], path[1:]
    if table == "daemon":
        return keys[0] in LIVE_DAEMON
    if table == "store":
        return keys == ("keep_days",)
    if table == "models":
        # a backend that is not there yet cannot serve; what takes one away or puts others first is fine
        return all(backend in old.backends for backend in _backends_of(keys, after))
    if table == "backends":
        if keys[1:3] == ("fair", LIVE_FAIR):
            return True
        if len(keys) > 3 and keys[1] == "endpoints":
            return keys[3] in LIVE_ENDPOINT
        return len(keys) > 1 and keys[1] in LIVE_BACKEND
    if table == "tools":
        # the servers that run are those of the start
        return not any(_is_server(tool) for tool in (old.tools.get(str(keys[0])), after)) and keys[1:] != ("mcp",)
    return table in LIVE_TABLES


def _is_server(tool: object) -> bool:
    return isinstance(tool, ToolTable) and tool.mcp is not None


def _backends_of(keys: Path, after: object) -> tuple[str, ...]:
    if keys[1:] == ("backends",):
        assert isinstance(after, tuple)
        return after
    return getattr(after, "backends", ())


def _changes(old: Any, new: Any, path: Path) -> Iterator[tuple[Path, Any, Any]]:
    """The smallest parts that differ, with their paths. None stands for what is not there."""
    if old == new and type(old) is type(new):
        return
    if isinstance(old, Struct) and type(old) is type(new):
        yield from _mappings(keys_of(old), keys_of(new), path)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _mappings(old, new, path)
    elif _tables(old) and _tables(new) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from _changes(*pair, (*path, place))
    else:
        yield path, old, new


def _mappings(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Any, Any]]:
    for key in (*old, *(key for key in new if key not in old)):
        yield from _changes(old.get(key), new.get(key), (*path, key))


def _tables(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, Struct) for item in value)


def _show(value: object, path: Path) -> str:
    return in_words(value, secret=not SECRET.isdisjoint(path))
