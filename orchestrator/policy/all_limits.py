"""What a call does to all the limits that hold for it: looks, takes and settles, each in one go.

These run for every call and every limit, so they are written out over the windows' own fields: a method for each limit
would cost more than its arithmetic. `window` tells what the fields mean, and has the slow ways beside these fast ones.
"""

from collections.abc import Sequence

from orchestrator.policy.window import MARGIN, NEVER, Window

MARGIN_SQUARED = MARGIN * MARGIN


def obstacle_among(
    windows: Sequence[Window], input: int, bound: int, variance: int, now: float
) -> tuple[Window, float] | None:
    """The limit that a call of these sizes waits for longest, and until when; None if it fits in all."""
    latest = 0.0
    obstacle: Window | None = None
    for window in windows:
        need = window.unit + window.per_input * input + window.per_output * bound
        more = variance * window.per_input
        room = window.amount - window.used - window.held - need
        if (
            room >= 0
            and room * room >= MARGIN_SQUARED * (window.variance + more)
            and window.tat <= now + window.tolerance
            and not window.unusual
        ):
            continue
        until = window.short_until(need, more, now)
        if until > latest:
            latest = until
            obstacle = window
    return None if obstacle is None else (obstacle, latest)


def hold_in_all(
    windows: Sequence[Window], input: int, predicted: int, bound: int, variance: int, now: float
) -> list[int]:
    """Takes what a call that is dispatched now needs of each limit; answers the amounts."""
    amounts: list[int] = []
    for window in windows:
        amount = window.unit + window.per_input * input + window.per_output * bound
        amounts.append(amount)
        window.held += amount
        window.variance += variance * window.per_input
        if window.paced:
            tat = window.tat
            window.tat = (tat if tat > now else now) + (amount + window.per_paced * predicted) * window.pace
    return amounts


def settle_in_all(
    windows: Sequence[Window],
    amounts: Sequence[int],
    *,
    input: int,
    cached: int,
    output: int,
    variance: int,
    stamp: float,
    now: float,
) -> None:
    """Books a call of which everything became known at once, and whose amounts were all still held."""
    for window, held in zip(windows, amounts, strict=True):
        amount = window.unit + window.per_input * input + window.per_output * output
        if window.cached_free:
            amount -= cached
        if amount < held and window.keeps:
            amount = held
        window.held -= held
        window.variance -= variance * window.per_input
        window.look_until = window.told = NEVER
        if amount != held:
            window.tat += (amount - held) * window.pace
        slot = int(stamp / window.width) + 1
        if slot == window.newest:
            window.slots[slot] += amount
            window.used += amount
        else:
            window.log(amount, stamp, now)
