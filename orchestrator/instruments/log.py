"""Structured logs: a hook on transitions, and how log lines look.

| what happened                                            | level   |
|----------------------------------------------------------|---------|
| a call is queued, started, answered                      | debug   |
| a caller left before the answer                          | info    |
| an attempt failed and is tried again                     | warning |
| a call ended without an answer, or was not admitted      | warning |

A transition holds no prompt and no answer, so no log line does. When a provider is down every call fails alike, and
when a job is cancelled every caller leaves: of equal lines, debugging aside, at most `BURST` in `SPAN` seconds are
written, and the next one that is says how many were not.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Literal, TextIO

import structlog
from msgspec import Struct
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from orchestrator.transitions import ALL_KINDS, Transition

Level = Literal["debug", "info", "warning", "error"]

BURST = 20
SPAN = 10.0

SECRET_KEYS = frozenset({"api_key", "apikey", "authorization", "key", "password", "secret", "token", "x-api-key"})

LEVELS: Mapping[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class _Burst(Struct):
    """Equal lines since `since`: how many were written and how many held back."""

    since: float
    written: int = 0
    suppressed: int = 0


class Bursts:
    """Lets few of many equal lines through: `most` in `SPAN` seconds."""

    __slots__ = ("_bursts", "_most")

    def __init__(self, most: int = BURST) -> None:
        self._most = most
        self._bursts: dict[tuple[str, ...], _Burst] = {}

    def next(self, key: tuple[str, ...], at: float) -> dict[str, int] | None:
        """None where this line is one too many, else what it says of those before it that were."""
        burst = self._bursts.get(key)
        if burst is None or at - burst.since > SPAN:
            suppressed = 0 if burst is None else burst.suppressed
            burst = self._bursts[key] = _Burst(at, suppressed=suppressed)
        if burst.written >= self._most:
            burst.suppressed += 1
            return None
        burst.written += 1
        more = {"suppressed": burst.suppressed} if burst.suppressed else {}
        burst.suppressed = 0
        return more


class LogHook:
    """Implements `orchestrator.transitions.Hook`. What is below `level` is not even asked for.

    `burst` is how many equal lines are written in `SPAN` seconds.
    """

    __slots__ = ("_bursts", "_debug", "_info", "_log", "wants")

    def __init__(self, log: FilteringBoundLogger, level: Level = "info", *, burst: int = BURST) -> None:
        self._log = log
        self._debug = level == "debug"
        self.wants = frozenset(ALL_KINDS if self._debug else ("retrying", "finished"))
        self._info = self._debug or level == "info"
        self._bursts = Bursts(burst)

    def __call__(self, transition: Transition) -> None:
        kind, outcome = transition.kind, transition.outcome
        if kind == "retrying" or (kind == "finished" and outcome not in ("ok", "caller_gone")):
            self._few(self._log.warning, transition)
        elif self._debug:
            self._log.debug(f"call {kind}", **fields(transition))
        elif self._info and outcome == "caller_gone" and kind == "finished":
            self._few(self._log.info, transition)

    def _few(self, write: Callable[..., object], transition: Transition) -> None:
        more = self._bursts.next((transition.backend, transition.kind, transition.outcome), transition.at)
        if more is not None:
            write(f"call {transition.kind}", **fields(transition), **more)


def fields(transition: Transition) -> dict[str, object]:
    """What a transition says, without what it leaves empty. Seconds are rounded to milliseconds."""
    flow, usage = transition.flow, transition.usage
    said: dict[str, object] = {
        "call": transition.key,
        "backend": transition.backend,
        "tenant": flow.tenant,
        "job": flow.job,
        "run": flow.run,
        "priority": transition.priority.name.lower(),
        "endpoint": transition.endpoint,
        "attempt": transition.attempt,
        "outcome": transition.outcome,
        "waited": round(transition.waited, 3),
        "seconds": round(transition.seconds, 3),
        "held_by": transition.held_by,
        "waits": {held_by: round(seconds, 3) for held_by, seconds in transition.waits},
    }
    if usage is not None:
        said |= {"input": usage.all_input, "cached": usage.cached, "output": usage.output}
    return {name: value for name, value in said.items() if value not in ("", 0, None, {})}


def configure_logging(*, json: bool, level: Level = "info", stream: TextIO | None = None) -> None:
    """Sets how structlog's lines look in this process: JSON objects, or aligned text for people, on stderr.

    Values whose key names a secret are never written.
    """
    out = sys.stderr if stream is None else stream
    renderer: Processor
    if json:
        renderer = structlog.processors.JSONRenderer()
    else:
        colours = out.isatty()
        renderer = structlog.dev.ConsoleRenderer(
            colors=colours, exception_formatter=structlog.dev.plain_traceback, pad_event_to=20
        )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            *([] if json else [escape_controls]),
            *([structlog.processors.dict_tracebacks] if json else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )


def hide_secrets(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """A processor that blots out values whose key names a secret."""
    for key in event:
        if key.lower() in SECRET_KEYS:
            event[key] = "(hidden)"
    return event


def escape_controls(logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
    """A processor that keeps a line one line, and a terminal as it is, whatever names and messages say."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = "".join(char if char.isprintable() else repr(char)[1:-1] for char in value)
    return event
