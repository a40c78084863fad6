"""What a job says while it works: retries for everybody, every step of every call for who asks, JSON for programs.

Lines are handed to whoever draws the progress (`say`), so that they stand above a live bar and never inside it.
"""

import io
from collections.abc import Callable

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from orchestrator.instruments.log import Level, LogHook, configure_logging

Say = Callable[[str], None]

TERSE_BURST = 3
"""Lines about retries of one kind in ten seconds: enough to see that something is the matter, and what."""


def open_log(say: Say, *, verbose: bool, json: bool, colours: bool = False) -> LogHook:
    """A hook that logs calls through `say`.

    By default: one line for people per retry, few of a kind. Calls that fail for good are left out, since the job
    reports them as failed items. `verbose` logs every transition, `json` writes warnings (or all of it) as objects.
    """
    if verbose or json:
        level: Level = "debug" if verbose else "warning"
        configure_logging(json=json, level=level, stream=SayStream(say, colours=colours))
        return LogHook(structlog.get_logger(), level)
    hook = LogHook(_terse_logger(say), "warning", burst=TERSE_BURST)
    hook.wants = frozenset({"retrying"})
    return hook


class SayStream(io.StringIO):
    """A text stream that hands on whole lines."""

    def __init__(self, say: Say, *, colours: bool = False) -> None:
        super().__init__()
        self._say = say
        self._colours = colours
        self._begun = ""

    def isatty(self) -> bool:
        return self._colours

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._say(line)
        return len(text)


def _terse_logger(say: Say) -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(SayStream(say)),
        processors=[_terse],
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
    )
    return logger


def _terse(logger: WrappedLogger, name: str, event: EventDict) -> str:
    more = f"; {event['suppressed']:,} more not shown" if "suppressed" in event else ""
    return (
        f"headrace: {event['endpoint']}: {str(event['outcome']).replace('_', ' ')}, "
        f"tried again in {event.get('seconds', 0):.1f} s (item {event['run']}, attempt {event['attempt']}){more}"
    )
