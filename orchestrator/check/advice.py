"""Lines for the configuration that an answer shows to be right."""

import json
from collections.abc import Mapping, Sequence

from orchestrator.backends.base import Backend
from orchestrator.backends.openai.backend import OpenAIBackend
from orchestrator.check import judges
from orchestrator.check.answer import Answer
from orchestrator.check.report import LimitSeen, Setting
from orchestrator.policy.feedback import LimitKind, Reading

_MINUTE = 60.0
_DAY = 86400.0

_A_MINUTE: Mapping[LimitKind, str] = {
    "requests": "rpm",
    "total_tokens": "tpm",
    "input_tokens": "input_tpm",
    "output_tokens": "output_tpm",
}
_A_DAY: Mapping[LimitKind, str] = {"requests": "rpd", "total_tokens": "tpd"}


def line(name: str, value: object) -> str:
    """One line of TOML for a string, a number or a boolean."""
    return f"{name} = {json.dumps(value)}"


def settings(backend: Backend | None, answers: Mapping[str, Sequence[Answer]]) -> tuple[Setting, ...]:
    """What the answers call for beside what the endpoint has already."""
    if not isinstance(backend, OpenAIBackend):
        return ()
    found = []
    config = backend.config
    if "long_again" in answers and not config.reports_cached:
        judgement = judges.reports_cached(answers)
        if judgement.state == "ok":
            found.append(Setting(line("reports_cached", True), judgement.says))
    if "story" in answers and not config.include_usage and judges.reports_usage(answers).state == "no":
        found.append(Setting(line("include_usage", True), "without it the server reports no tokens"))
    if "story" in answers and judges.two_at_once(answers).state == "no":
        found.append(Setting(line("concurrency", 1), "one call at a time is worked on"))
    return tuple(found)


def limit_seen(endpoint: str, reading: Reading) -> LimitSeen:
    """A limit as its headers tell of it, with the line that states it."""
    span = span_of(reading)
    return LimitSeen(
        kind=reading.kind,
        endpoint=endpoint,
        limit=reading.limit,
        remaining=reading.remaining,
        reset=reading.reset,
        span=span,
        line=_limit_line(reading, span),
    )


def span_of(reading: Reading) -> float | None:
    """A minute or a day, by how long the limit takes to fill up again; None where the headers don't say.

    Headers name no span. A limit that refills steadily is full after `span * used / limit` seconds, one of fixed
    windows after at most its span; so a reset far later than a minute's can only be a day's.
    """
    if reading.limit is None or reading.reset is None or reading.remaining is None:
        return None
    used = reading.limit - reading.remaining
    if used <= 0 or reading.limit <= 0:
        return None
    steady = reading.reset * reading.limit / used
    return _DAY if reading.reset > 2 * _MINUTE or (reading.reset > 10 and steady > 600 * _MINUTE) else _MINUTE


def _limit_line(reading: Reading, span: float | None) -> str:
    if reading.limit is None:
        return ""
    amount = int(reading.limit) if reading.limit == int(reading.limit) else reading.limit
    if span != _DAY:
        return line(_A_MINUTE[reading.kind], amount)
    if reading.kind in _A_DAY:
        return line(_A_DAY[reading.kind], amount)
    return f'limits = [{{ kind = "{reading.kind}", amount = {amount}, per = "day" }}]'
