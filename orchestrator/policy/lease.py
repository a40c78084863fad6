"""What one live call holds in its sets of limits, from its dispatch until it is settled, exactly once.

A lease is *held* until the response headers, or the call's end, tell when the provider can have counted it at the
latest: `min(headers, written + WRITE_GRACE)`. From then on its amounts age; before, they never do. What is in flight is
released only by `settle`. Every method may be called again, in any order, and after the settlement, without effect.
"""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

from orchestrator.policy.all_limits import settle_in_all
from orchestrator.policy.window import Window

WRITE_GRACE = 1.0
"""Seconds after which a request that is written has been counted, whether or not headers have come."""


class Room(Protocol):
    """Where a lease gives back what it held in flight."""

    in_flight_calls: int
    tokens_in_flight: int
    awaiting_first_token: int


class Lease:
    """Made by `LimitSet.reserve`. Amounts in tokens, times on the owner's clock in seconds.

    Methods that can free room, or set the time at which room comes, answer whether they did: then calls blocked by a
    limit of these sets should be looked at again.
    """

    __slots__ = (
        "_amounts",
        "_awaiting",
        "_bound",
        "_cached",
        "_input",
        "_output",
        "_predicted",
        "_produced",
        "_rooms",
        "_stamp",
        "_streamed",
        "_variance",
        "_windows",
        "_written",
        "released",
    )

    def __init__(
        self,
        rooms: Sequence[Room],
        windows: Sequence[Window],
        amounts: list[int],
        sizes: tuple[int, int, int],
        variance: int,
        produced: bool,
    ) -> None:
        """`sizes` are input, predicted output and the bound of the output; `amounts` go with `windows`."""
        self._rooms = rooms
        self._windows = windows
        self._amounts = amounts
        self._input, self._predicted, self._bound = sizes
        self._output = self._predicted
        self._cached = 0
        self._variance = variance
        self._produced = produced
        self._streamed = 0.0
        self._written: float | None = None
        self._stamp: float | None = None
        self._awaiting = True
        self.released = False

    def written(self, now: float) -> None:
        """The whole request is on the wire: from now on the provider may count it."""
        if self._written is None and not self.released:
            self._written = now

    def headers(self, now: float) -> bool:
        """Response headers came: the provider has counted the call by now."""
        if self._stamp is not None or self.released:
            return False
        return self._log(self._latest(now), now)

    def first_token(self, now: float) -> bool:
        """The first token came."""
        if not self._awaiting or self.released:
            return False
        self._awaiting = False
        for room in self._rooms:
            room.awaiting_first_token -= 1
        return True

    def streamed(self, tokens: float, now: float) -> None:
        """So many tokens *more* have come. Logged where output counts as produced; in flight beyond the prediction."""
        if self.released or tokens <= 0:
            return
        before = ceil(self._streamed)
        self._streamed += tokens
        after = ceil(self._streamed)
        if after > self._output:
            for room in self._rooms:
                room.tokens_in_flight += after - self._output
            self._output = after
        if self._produced:
            for window in self._windows:
                if window.per_paced:
                    window.log(after - before, now, now)

    def input_known(self, tokens: float, now: float, *, cached: float = 0.0) -> bool:
        """The provider reported the input: `tokens` in all, `cached` of them read from its cache."""
        whole, cached = ceil(tokens), ceil(cached)
        if self.released or (not self._variance and whole == self._input and cached == self._cached):
            return False
        self._know_input(whole, cached)
        self._correct()
        return True

    def settle(
        self,
        *,
        input: float | None,
        output: float | None,
        now: float,
        worked: bool = True,
        cached: float = 0.0,
        answered: float | None = None,
    ) -> bool:
        """The call is over. `answered` is when response headers came, if `headers` did not tell before.

        None keeps what was reserved; `worked=False` returns the tokens, never the request. A provider that counts at
        admission keeps the tokens of a call that it refused, too; there only those of a call that was never written
        return.
        """
        if self.released:
            return False
        self.released = True
        if self._stamp is None and worked and input is not None and output is not None and not self._produced:
            self._settle_at_once(ceil(input), ceil(cached), ceil(output), self._latest(answered or now), now)
        else:
            self._settle_by_steps(input, cached, output, worked, now)
            if self._stamp is None:
                self._log(self._latest(answered or now), now)
        for room in self._rooms:
            room.in_flight_calls -= 1
            room.tokens_in_flight -= self._input + self._output
            if self._awaiting:
                room.awaiting_first_token -= 1
        return True

    def _settle_at_once(self, input: int, cached: int, output: int, stamp: float, now: float) -> None:
        self._stamp = stamp
        settle_in_all(
            self._windows,
            self._amounts,
            input=input,
            cached=cached,
            output=output,
            variance=self._variance,
            stamp=stamp,
            now=now,
        )

    def _settle_by_steps(
        self, input: float | None, cached: float, output: float | None, worked: bool, now: float
    ) -> None:
        if worked:
            if input is not None:
                self._know_input(ceil(input), ceil(cached))
            if self._produced:
                self._settle_produced(ceil(self._streamed if output is None else output), now)
            if output is not None:
                self._bound = ceil(output)
            self._correct()
        else:
            self._return_tokens()
        if self._variance:
            self._forget_variance()

    def _latest(self, answered: float) -> float:
        """The latest time at which the provider can have counted the call."""
        if self._written is not None and self._written + WRITE_GRACE < answered:
            return self._written + WRITE_GRACE
        return answered

    def _log(self, stamp: float, now: float) -> bool:
        self._stamp = stamp
        sooner = False
        for window, amount in zip(self._windows, self._amounts, strict=True):
            if amount and window.stamp(amount, stamp, now):
                sooner = True
        return sooner

    def _know_input(self, whole: int, cached: int) -> None:
        if self._variance:
            self._forget_variance()
        for room in self._rooms:
            room.tokens_in_flight += whole - self._input
        self._input = whole
        self._cached = cached

    def _forget_variance(self) -> None:
        for window in self._windows:
            if window.per_input:
                window.known(self._variance)
        self._variance = 0

    def _correct(self) -> None:
        """Brings every window to what is known by now."""
        amounts = self._amounts
        for i, window in enumerate(self._windows):
            counted = self._input - self._cached if window.cached_free else self._input
            delta = window.unit + window.per_input * counted + window.per_output * self._bound - amounts[i]
            if delta > 0 or (delta and not window.keeps):
                amounts[i] += delta
                window.correct(delta, self._stamp)

    def _settle_produced(self, output: int, now: float) -> None:
        off = output - ceil(self._streamed)
        for window in self._windows:
            if window.per_paced:
                if off:
                    window.log(off, now, now)
                window.tat += (output - self._predicted) * window.pace

    def _return_tokens(self) -> None:
        seen = self._written is not None
        for i, window in enumerate(self._windows):
            if window.keeps and seen:
                continue
            if window.per_paced:
                window.tat -= self._predicted * window.pace
            delta = window.unit - self._amounts[i]
            if delta:
                self._amounts[i] += delta
                window.correct(delta, self._stamp)
