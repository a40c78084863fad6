"""What was sent before this process began: limits that are given it go on where they stood.

A provider's windows do not know that we were gone. So each limit's log takes in what an earlier process sent within
its span, and its pacer is moved on as if it had let that go at the time. Where nobody knows exactly when something was
counted, the latest time that it can have been is taken: that gives room back too late rather than too soon.
"""

from collections.abc import Iterable

from msgspec import Struct

from orchestrator.policy.limits import LimitSet
from orchestrator.policy.window import Window


class Sent(Struct, frozen=True):
    """What was sent in a little time. `stamp` is the latest time, on the owner's clock, at which it can have counted.

    `input` (with `cached`, the part of it that was read from a cache) and `output` are as reported, `held_*` as they
    were held at dispatch, for limits that count at admission and take nothing back.
    """

    stamp: float
    calls: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    held_input: int = 0
    held_output: int = 0


def restore(limits: LimitSet, span: float, sent: Iterable[Sent], now: float) -> None:
    """Books what was sent in all limits of that span; for limits that have let nothing go yet."""
    before = sorted(sent, key=lambda one: one.stamp)
    for window in limits.windows:
        if window.span == span:
            _restore(window, before, now)


def _restore(window: Window, before: Iterable[Sent], now: float) -> None:
    tat = min(window.tat, now - window.span)
    for one in before:
        amount = _amount(window, one)
        if not amount:
            continue
        stamp = min(one.stamp, now)
        window.log(amount, stamp, now)
        tat = max(tat, stamp) + amount * window.pace
    window.tat = max(tat, now)


def _amount(window: Window, sent: Sent) -> int:
    """What the limit counts of it, as `Lease` would have had it in the end."""
    input = sent.input - sent.cached if window.cached_free else sent.input
    output = sent.output
    if window.keeps:
        input, output = max(input, sent.held_input), max(output, sent.held_output)
    takes_output = window.per_output or window.per_paced
    return window.unit * sent.calls + window.per_input * input + takes_output * output
