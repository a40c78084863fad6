"""Recorded sessions of coding agents, as kv-cache-tester publishes them (callanjfox/kv-cache-tester, Apache-2.0).

Columns: `trace_id,agent,idx,t_s,kind,model,in_tok,out_tok,prefix_shared_tok,api_s,think_s,stop`. A row is a call of an
agent, or (kind `subagent`) the place where its agent starts another, whose calls are those of agent `AGENT/IDX`, timed
from its own start. Such a row's time is when the subagent *ended*: less its duration it falls within a second of the
end of the call before it, for every one that was waited for.

So a session is a graph: a subagent's first call follows the call that started it, several started at once work side by
side, and their parent's next call follows all that it waited for (`completed`). One `async_launched` is not waited for.

Known limits: where a call's duration was not recorded its follower's think time is not either; then it is the time
between the two less what the output takes at `RATE` tokens a second. The models differ within a session, and no
`SessionCall` says which it was.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from bench.traces.base import Session, SessionCall
from bench.traces.rows import Row, rows

COLUMNS: Final = (
    "trace_id",
    "agent",
    "idx",
    "t_s",
    "kind",
    "in_tok",
    "out_tok",
    "prefix_shared_tok",
    "api_s",
    "think_s",
    "stop",
)
RATE: Final = 50.0
_CALLS: Final = ("n", "s")


def read_sessions(path: Path, *, longest_think: float | None = None) -> list[Session]:
    """The sessions of a file in its order, those without a single call left out.

    `longest_think` in seconds cuts longer pauses short: people go home over night. Raises `TraceError`.
    """
    sessions = []
    for name, own in _by_session(rows(path, COLUMNS)):
        calls = _Reader(own).calls()
        if longest_think is not None:
            calls = [replace(call, think=min(call.think, longest_think)) for call in calls]
        if calls:
            sessions.append(Session(name=name, calls=tuple(calls)))
    return sessions


def _by_session(table: Iterator[Row]) -> Iterator[tuple[str, list[Row]]]:
    name, own, seen = "", list[Row](), set[str]()
    for row in table:
        if row.text("trace_id") != name or not own:
            if own:
                yield name, own
            name, own = row.text("trace_id"), []
            if name in seen:
                raise row.bad("trace_id", "of a session that has not ended above: a session's rows stand together")
            seen.add(name)
        own.append(row)
    if own:
        yield name, own


class _Reader:
    """One session's rows, agent by agent, put into the order in which calls depend on one another."""

    def __init__(self, table: list[Row]) -> None:
        self._by_agent: dict[str, list[Row]] = {}
        for row in table:
            self._by_agent.setdefault(row.text("agent"), []).append(row)
        self._root = next(iter(self._by_agent))
        self._calls: list[SessionCall] = []

    def calls(self) -> list[SessionCall]:
        self._agent(self._root, (), 0.0)
        for unknown in self._by_agent.values():
            raise unknown[0].bad("agent", "one that a row of kind subagent starts")
        return self._calls

    def _agent(self, name: str, before: tuple[int, ...], delay: float) -> tuple[int, ...]:
        """Adds an agent's calls, of which the first comes `delay` seconds after those in `before`, and returns those
        with which it ends.
        """
        ended, first = 0.0, True
        waits: tuple[int, ...] = ()
        for row in self._by_agent.pop(name, ()):
            at = row.seconds("t_s")
            if row.text("kind") == "subagent":
                start, end, waited = _span(row)
                last = self._agent(f"{name}/{row.text('idx')}", before, max(0.0, start - ended))
                if waited and last != before:
                    ended, waits = max(ended, end), (*waits, *last)
                continue
            if row.text("kind") not in _CALLS:
                raise row.bad("kind", "n, s (a call, plain or streamed) or subagent")
            recorded = None if first or waits else row.optional_seconds("think_s")
            think = max(0.0, at - ended) if recorded is None else recorded
            self._calls.append(_call(row, name, think + (delay if first else 0.0), (*before, *waits)))
            before, waits, first = (len(self._calls) - 1,), (), False
            ended = max(ended, at + _duration(row))
        return (*before, *waits)


def _span(row: Row) -> tuple[float, float, bool]:
    """A subagent's start and end in its parent's seconds, and whether its parent waited for it."""
    at, taken = row.seconds("t_s"), row.optional_seconds("api_s")
    if taken is None or row.text("stop") == "async_launched":
        return at, at, False
    return max(0.0, at - taken), at, True


def _duration(row: Row) -> float:
    taken = row.optional_seconds("api_s")
    return row.tokens("out_tok") / RATE if taken is None else taken


def _call(row: Row, agent: str, think: float, after: tuple[int, ...]) -> SessionCall:
    given = row.tokens("in_tok")
    return SessionCall(
        input=given,
        output=row.tokens("out_tok"),
        think=think,
        after=after,
        agent=agent,
        cached=min(given, row.tokens("prefix_shared_tok")),
        seconds=row.optional_seconds("api_s"),
    )
