"""Failures of Anthropic's API, split by blame from status and structured words, never from prose.

An error is `{"type": "error", "error": {"type", "message", "details": {"error_code"}}}`, as an answer's body or, in a
stream that began with 200, as an event. What the words come to is the table of `orchestrator.dialects.failures`; what
is Anthropic's own:

| word                                               | error                                                |
|----------------------------------------------------|------------------------------------------------------|
| `*_spend_limit_reached`, `*_billing_unavailable`   | Refused, the endpoint's fault, though often in a 429 |
| `billing_error`                                    | Refused, the endpoint's fault                        |
| `organization_on_hold`                             | Refused, the endpoint's fault, though in a 400       |
| `rate_limit_error`                                 | Throttled                                            |
| `overloaded_error`                                 | Overloaded                                           |

A credit balance that is too low comes as a plain `invalid_request_error`; only prose tells it apart, so it is taken as
the request's fault and refused. The same is true of a prompt that is too long for the model.

Which limit a 429 is about, no word says. It is taken to be about those of which the headers say that 0 is left; else
about the limit of input tokens, if less of it is left than the request may need, since input counts when a request
comes and is refused whole. The `tokens` group is read only here: it shows whichever token limit is tightest (a
workspace's, or input and output together) and names none. A `ramp_limit_exceeded` is about none of them, but about how
fast their use grows, so it is answered like too much concurrency.

Sources: the Claude API reference, "Errors" and "Rate limits"; the types of its Python SDK.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from agents.errors import ModelError, Refused
from agents.messages import Usage
from orchestrator.backends.headers import parse_number, parse_reset, read_retry_after, time_to_room
from orchestrator.backends.place import Place
from orchestrator.dialects.chat_wire import NotJSON, loads
from orchestrator.dialects.failures import Facts, error_of, facts_of
from orchestrator.dialects.text import scrub
from orchestrator.policy.feedback import LimitKind, Reading

_NO_MONEY = ("_spend_limit_reached", "_billing_unavailable")
_ON_HOLD = "organization_on_hold"
_RAMP = "ramp_limit_exceeded"
_ROUNDED = 1000


def error_from_response(
    status: int,
    body: bytes,
    place: Place,
    headers: Mapping[str, str],
    readings: Sequence[Reading],
    now: float,
    needed: float = 0.0,
) -> ModelError:
    """The error of an answer that is not 200. Header names are in lower case, `now` is the time of day in seconds.

    `needed` is how many input tokens the request may have had.
    """
    try:
        facts = read_facts(loads(body))
    except NotJSON:
        facts = Facts(text=body.decode("utf-8", "replace"))
    wait = read_retry_after(headers, now)
    exhausted: frozenset[LimitKind] = frozenset()
    if status == 429:
        tightest = _tightest(headers, now)
        if _RAMP not in facts.words:
            exhausted = exhausted_limits([*readings, tightest], needed)
        if wait is None:
            wait = time_to_room([*readings, tightest] if "total_tokens" in exhausted else readings, exhausted)
    return _error(status, facts, f"{place.host} answered {status}", place, wait, exhausted)


def exhausted_limits(readings: Sequence[Reading], needed: float) -> frozenset[LimitKind]:
    """The limits that a 429 is about, the most certain ones only. What is left is rounded to thousands."""
    for least in (0.0, needed):
        kinds = frozenset(reading.kind for reading in readings if _short(reading, least))
        named = kinds - {"total_tokens"} or kinds
        if named:
            return named
    return frozenset()


def _short(reading: Reading, needed: float) -> bool:
    if reading.remaining is None or (needed and reading.kind not in ("input_tokens", "total_tokens")):
        return False
    rounded = _ROUNDED / 2 if needed and reading.remaining % _ROUNDED == 0 else 0.0
    return reading.remaining <= needed + rounded


def error_from_event(value: Any, place: Place, usage: Usage | None, partial: str) -> ModelError:
    """The error that an `error` event stands for, with what had come before it."""
    facts = read_facts(value)
    error = _error(facts.meant(), facts, f"{place.host} broke off with an error", place, None, frozenset())
    error.usage = usage
    error.partial = partial
    return error


def read_facts(value: Any) -> Facts:
    """What is structured in an error; its `error_code`, where there is one, is its most telling word."""
    facts = facts_of(value)
    inside = value.get("error", value) if isinstance(value, Mapping) else None
    details = inside.get("details") if isinstance(inside, Mapping) else None
    code = details.get("error_code") if isinstance(details, Mapping) else None
    if not (isinstance(code, str) and code):
        return facts
    word = scrub(code).lower()[:100]
    return structs.replace(facts, code=word, words=facts.words | {word})


def _error(
    status: int | None,
    facts: Facts,
    said: str,
    place: Place,
    retry_after: float | None,
    exhausted: frozenset[LimitKind],
) -> ModelError:
    code = facts.code
    message = f"{said} ({place.quote(code)})" if code else said
    if facts.text.strip():
        message = f"{message}: {place.quote(facts.text)}"
    if any(word.endswith(_NO_MONEY) or word == _ON_HOLD for word in facts.words):
        return Refused(message, status=status, code=code, endpoint_fault=True)
    return error_of(status, facts, message, retry_after=retry_after, exhausted=frozenset(exhausted))


def _tightest(headers: Mapping[str, str], now: float) -> Reading:
    """The `tokens` group, as tokens in all."""
    remaining = parse_number(headers.get("anthropic-ratelimit-tokens-remaining"))
    reset = parse_reset(headers.get("anthropic-ratelimit-tokens-reset"), now)
    return Reading("total_tokens", remaining=remaining, reset=reset)
