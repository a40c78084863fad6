"""The books of one limit: a sliding log, a pacer, and a gate.

**Sliding log.** A limit of L per span P is kept if no P seconds contain more than L as the *provider* counts it. When
it counts a call is unknown, except that it is after the request was written and before its response headers came.
So the amount of a call is *held* from dispatch until its headers (or its end) tell, and then logged with the latest
time at which it can have been counted, its stamp; it leaves the log P seconds after that. Take any P seconds and the
call in them that was dispatched last: every other call counted in them was then still held or in the log, and all
of them together were within L. So the limit holds exactly, whatever the delays, for amounts that are upper bounds.
Entries share 1200 slots per span, each standing at its slot's *end*; this costs 1/1200 of the limit and never errs.

**Margin.** Input is an estimate with standard deviation sigma. The unsettled estimates' errors are independent, so
their sum has the root of the summed variances, and four times that is added to what a call needs.

**Pacer.** A sliding log alone locks into one burst per span, repeated for ever. The pacer is the generic cell rate
algorithm (ITU-T I.371, as virtual scheduling): a call conforms if its theoretical arrival time is at most `tolerance`
ahead of now, then that time moves on by amount * P/L. A call's own size is not in the condition, so a large call
conforms whenever a small one does; what was reserved and not used moves the time back at settlement. Spans over five
minutes are not paced: a day's limit is meant to be usable within an hour. Output that counts as it is produced is paced
by its prediction, at 97 % of the limit: it comes seconds after the dispatch that caused it, so at the full rate the
window would swing around the limit, and the swings would be refused.

**Slowing.** Many providers enforce a minute's limit over windows of 1 to 10 s as well, and do not say so. A pacer at
the full rate then stays at the edge of such a window, where a third of all tries are refused although the minute has
room. So where a 429 names a limit whose tolerance has been halved to its least, a second, the limit is paced at 98 % of
what it was, at most once a second; after t minutes without another, 1 % * t^2 of the limit has come back. Simulated
(`tests/owner/simulation.py`: 30,000 tokens/min, sliding windows, 0.3 s of jitter), refusals as part of the tries, and
use of the limit, from the sixth minute on:

| window | largest call, part of it | without           | with             | the window given as a limit of its own |
|--------|--------------------------|-------------------|------------------|----------------------------------------|
| 10 s   | 1 %                      | 23 %, used 99 %   | 0.1 %, used 96 % | none, used 96 %                        |
| 10 s   | 4 %                      | 27 %, used 93 %   | 0.6 %, used 91 % | none, used 92 %                        |
| 1 s    | 10 %                     | 51 %, used 92 %   | 0.2 %, used 75 % | none, used 66 %                        |
| 1 s    | 40 %                     | 54 %, used 65 %   | 2.8 %, used 47 % | none, used 48 %                        |

What is not used does not fit: a window has room for whole calls only, and holds the bound of each until it has ended.
Where the windows are known, `LimitSpec(per=10)` beside the minute's limit is better, since it is exact.

**Gate.** A 429 that names this limit closes it until the time the provider asked for, and marks its room as used.

Known limits: a provider that counts a call more than `WRITE_GRACE` seconds after it was written, and more than one
span before it answers, may see more than L. Costs: a look, a reservation, a stamp and a settlement are O(1), except
that the time until room comes walks the slots, once per change that could bring it forward.
"""

import math
from bisect import insort

from orchestrator.policy.foreign import Foreign
from orchestrator.policy.limitspec import LimitSpec

SLOTS = 1200
PACED_SPAN = 300.0
MARGIN = 4.0
PRODUCED_FULL = 0.99
PRODUCED_PACE = 0.97
LEAST_BURST = 1.0
LEAST_SHARE = 0.25
SLOWING = 0.02
RECOVERY = 0.01
FOREIGN_LOOKS = 60
INF = math.inf
NEVER = -math.inf


class Window:
    """One limit's state. Amounts are in its unit (requests or tokens), times on the owner's clock in seconds.

    What a call takes is linear in its sizes: `unit + per_input * input + per_output * bound`; `per_paced` stands for
    output that counts only as it is produced: the pacer charges its prediction, the log nothing.
    """

    __slots__ = (
        "_look_need",
        "_next_expiry",
        "_order",
        "amount",
        "cached_free",
        "foreign",
        "gate",
        "halved_at",
        "held",
        "keeps",
        "look_until",
        "name",
        "newest",
        "pace",
        "paced",
        "per_input",
        "per_output",
        "per_paced",
        "reset_at",
        "share",
        "slots",
        "slowed_to",
        "span",
        "spec",
        "tat",
        "told",
        "tolerance",
        "unit",
        "unusual",
        "used",
        "variance",
        "width",
    )

    def __init__(self, spec: LimitSpec, now: float) -> None:
        self.span = spec.per
        self.width = spec.per / SLOTS
        self.held = 0
        self.used = 0
        self.variance = 0
        self.slots: dict[int, int] = {}
        self._order: list[int] = []
        self.newest = -1
        self._next_expiry = INF
        self._look_need = 0.0
        self.look_until = NEVER
        self.told = NEVER
        self.tat = now
        self.halved_at = NEVER
        self.gate = NEVER
        self.reset_at = NEVER
        self.foreign: Foreign | None = None
        self.configure(spec)

    def configure(self, spec: LimitSpec) -> None:
        """Takes on another amount or way of counting, and keeps the log; kind and span must be the same."""
        self.spec = spec
        self.name = spec.name
        self.amount = float(spec.amount)
        self.unit = int(spec.kind == "requests")
        self.per_input = int(spec.kind in ("input_tokens", "total_tokens"))
        takes_output = spec.kind in ("output_tokens", "total_tokens")
        self.per_paced = int(takes_output and spec.counted == "as_produced")
        self.per_output = int(takes_output and spec.counted != "as_produced")
        self.keeps = spec.counted == "at_admission"
        self.cached_free = spec.cached_free
        self.paced = spec.per <= PACED_SPAN
        self.tolerance = min(float(spec.burst_seconds), self.span)
        self.share = self.slowed_to = 1.0
        self.unusual = bool(self.per_paced) or self.foreign is not None
        self._set_pace()
        self.look_until = NEVER

    def _set_pace(self) -> None:
        self.pace = self.span / (self.amount * self.share * (PRODUCED_PACE if self.per_paced else 1.0))

    # Looking

    def short_until(self, need: float, variance: int, now: float) -> float:
        """0.0 if `need` fits now; else the time to look again, infinite where only live calls are in the way."""
        if now >= self._next_expiry:
            self._expire(now)
        taken: float = self.used + self.held
        foreign = self.foreign
        if foreign is not None:
            taken += foreign.ahead(now)
        limit = self.amount
        variance += self.variance
        if variance and need < limit:
            # a call that fits an empty window fits it with any margin, or it would wait for ever
            need = min(need + MARGIN * math.sqrt(variance), limit)
        over = taken + need - limit
        if self.per_paced and taken >= PRODUCED_FULL * limit:
            over = max(over, taken - PRODUCED_FULL * limit, 1.0)
        until = 0.0
        if over > 0:
            if now < self.look_until and need >= self._look_need:
                until = self.look_until
            else:
                until = self._room_at(over)
                self._look_need = need
                self.look_until = until
            if until > self.told:
                self.told = until
            if foreign is not None:
                until = min(until, now + self.span / FOREIGN_LOOKS)
        if self.paced:
            ready = self._conforms_at(now)
            if now < ready and until < ready:
                until = ready
        if now < self.gate and until < self.gate:
            until = self.gate
        return until

    def _conforms_at(self, now: float) -> float:
        """From when on the pacer lets a call go."""
        if self.share < 1.0:
            self._recover(now)
        return self.tat - self.tolerance

    def _room_at(self, over: float) -> float:
        """When the oldest slots that hold `over` between them have left."""
        slots = self.slots
        for slot in self._order:
            over -= slots[slot]
            if over <= 0:
                return slot * self.width + self.span
        return INF

    # Booking

    def log(self, amount: int, stamp: float, now: float) -> bool:
        """Counts `amount` as of `stamp`, not at all if that is a span ago. True if it leaves before a time told."""
        if now >= self._next_expiry:
            self._expire(now)
        slot = int(stamp / self.width) + 1
        leaves = slot * self.width + self.span
        if leaves > now:
            slots = self.slots
            if slot in slots:
                slots[slot] += amount
            else:
                slots[slot] = amount
                order = self._order
                if not order or slot > order[-1]:
                    order.append(slot)
                    self.newest = slot
                else:
                    insort(order, slot)
                if leaves < self._next_expiry:
                    self._next_expiry = leaves
            self.used += amount
        if leaves < self.look_until or amount < 0:
            self.look_until = NEVER
        if leaves >= self.told:
            return False
        self.told = NEVER
        return True

    def stamp(self, amount: int, stamp: float, now: float) -> bool:
        """Moves what was held for a call into the log; True if room comes before a time told."""
        self.held -= amount
        return self.log(amount, stamp, now)

    def correct(self, delta: int, stamp: float | None) -> None:
        """Changes what a call takes by `delta`: in the log at its stamp, if it is still there, or while it is held."""
        if stamp is None:
            self.held += delta
        else:
            slot = int(stamp / self.width) + 1
            slots = self.slots
            if slot in slots:
                slots[slot] += delta
                self.used += delta
        self.tat += delta * self.pace
        self.look_until = NEVER

    def known(self, variance: int) -> None:
        """An estimate of this variance has been settled."""
        self.variance -= variance
        self.look_until = NEVER

    def _expire(self, now: float) -> None:
        slots, order, width, span = self.slots, self._order, self.width, self.span
        gone = 0
        for slot in order:
            if slot * width + span > now:
                break
            self.used -= slots.pop(slot)
            gone += 1
        del order[:gone]
        if order:
            self._next_expiry = order[0] * width + span
        else:
            self._next_expiry = INF
            self.newest = -1

    # What the provider says

    def taken(self, now: float) -> int:
        """Logged and held by us."""
        if now >= self._next_expiry:
            self._expire(now)
        return self.used + self.held

    def withheld(self, now: float) -> float:
        """The part of the configured limit that is not ours to use: others use it, or the provider took it away."""
        foreign = 0.0 if self.foreign is None else self.foreign.amount(now)
        return min(1.0, max(0.0, 1.0 - (self.amount * self.share - foreign) / self.spec.amount))

    def read(self, limit: float | None, remaining: float | None, reset: float | None, now: float) -> None:
        """Takes in what the provider reports of this limit; a larger limit than configured is not used."""
        if limit is not None and 0 < limit < self.amount:
            self.amount = float(limit)
            self._set_pace()
            self.look_until = NEVER
        if reset is not None:
            self.reset_at = now + reset
        if remaining is None:
            return
        # of a configured share of a larger limit, others take only what leaves less than the share
        missing = self.amount - remaining - self.taken(now)
        if self.foreign is None:
            if missing <= 0:
                return
            self.foreign = Foreign(self.span)
            self.unusual = True
        self.foreign.read(missing, now)

    def exhausted(self, retry_after: float | None, now: float) -> None:
        """The provider says that this limit is used up: no room, and none is looked for until it said so."""
        if self.foreign is None:
            self.foreign = Foreign(self.span)
            self.unusual = True
        room = self.amount - self.taken(now) - self.foreign.amount(now)
        self.foreign.all_gone(room, now)
        if retry_after is not None:
            again = now + retry_after
        elif self.reset_at > now:
            again = self.reset_at
        else:
            again = now + self.span / FOREIGN_LOOKS
        self.gate = max(self.gate, again)

    def halve_burst(self, now: float) -> None:
        """Sends more evenly; once per tolerance, since the refusals of one burst come together."""
        if self.paced and now >= self.halved_at + self.tolerance:
            self.tolerance = max(min(self.tolerance, LEAST_BURST), self.tolerance / 2)
            self.halved_at = now

    def slow_down(self, now: float) -> None:
        """Sends 2 % less, and by and by as much as before; at most once a second, as for `halve_burst`."""
        if self.paced and now >= self.halved_at + LEAST_BURST:
            self._recover(now)
            self.share = self.slowed_to = max(LEAST_SHARE, self.share * (1 - SLOWING))
            self.halved_at = now
            self._set_pace()

    def _recover(self, now: float) -> None:
        minutes = (now - self.halved_at) / 60
        self.share = min(1.0, self.slowed_to + RECOVERY * minutes * minutes)
        self._set_pace()

    def __repr__(self) -> str:
        return f"<Window {self.name} used={self.used} held={self.held} of {self.amount:g}>"
