"""Room kept free on a local engine, so that a tenant who comes late is served soon.

What waits inside an engine can no longer be ordered: a light tenant's call that comes when all slots are taken waits
for a whole answer of somebody else. Two rules keep an engine slightly under-committed, for tenants *at or above their
share* only (their part of the slots by weight, among the tenants that have calls or had some within
`newcomer_seconds`):

- such a tenant gets no further call while `at_share` calls have no first token yet, although the endpoint would take
  one more (`InFlightSpec.first_token` bounds everybody): prefill is what delays the others' first tokens;
- while a tenant became active within `newcomer_seconds`, the last `kept` part of the slots, and of the tokens that may
  be in flight, is left to tenants below their share.

Both stop nobody else: the next tenant in order goes.

The defaults were found on the real trace of Sheng et al. (OSDI 2024) with `headrace-bench fairness`: 20 replicates on
its model of an engine with a KV cache of 10,000 tokens, and 64 slots, of which memory lets about 28 be used. Medians of
the service difference (greatest, mean), and tokens a second; FCFS inside the engine makes 782:

| tokens in flight / KV cache, `first_token`, `at_share`, `kept` | max | mean | tokens/s |
|---|---|---|---|
| 1.35, 4, 3, 0.25 of the slots only (6 replicates)                | 365 | 223 | 781 |
| 1.15, 4, 3, 0.25 of the slots only (6 replicates)                | 349 | 206 | 770 |
| 2.00, 2, 3, 0.25 of the slots only (6 replicates)                | 355 | 217 | 775 |
| 2.00, 3, 1, 0.25 of the slots only (6 replicates)                | 320 | 210 | 778 |
| 1.35, 4, 3, 0.25 (6 replicates)                                  | 290 | 199 | 772 |
| 1.35, 3, 1, 0.25                                                 | 286 | 194 | 770 |
| 1.40, 3, 1, 0.25                                                 | 292 | 196 | 771 |
| 1.35, 4, 1, 0.25, the default                                    | 287 | 195 | 771 |
| 1.45, 4, 1, 0.30                                                 | 290 | 194 | 771 |
| 1.50, 4, 1, 0.35                                                 | 287 | 195 | 769 |

All of these lie on one curve. What decides is the suite of eight overloaded clients: its mean is 42 with 3 calls
without a first token, and 24 with 4.

So the knee is where those at their share may have about as many tokens in flight as the cache holds (0.75 * 1.35), and
those below it a third more. Tried and no better: newcomers for 300 s (max 281, mean 198, 764 tokens/s); the share
counted in tokens as well (mean 200 at 758), or of the calls in flight instead of the slots (mean 192 at 755); a
credit of one call (max 306, mean 202).

Known limits: the share counts calls, not tokens, so a tenant of long calls holds more of the engine than its share of
slots says. With a single active tenant nothing is kept, as nobody is below their share. The knee is that of one engine.
"""

import math
from collections.abc import Mapping

from msgspec import Struct

from orchestrator.policy.checks import require
from orchestrator.policy.ticket import Ticket


class HeadroomConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`at_share` in calls without a first token, `kept` as a part of all slots. Raises `InvalidLimits`."""

    at_share: int = 1
    newcomer_seconds: float = 60.0
    kept: float = 0.25

    def __post_init__(self) -> None:
        require("headroom.at_share", self.at_share, at_least=1)
        require("headroom.newcomer_seconds", self.newcomer_seconds, at_most=86_400)
        require("headroom.kept", self.kept, at_most=0.9)


class Room(Struct, frozen=True, gc=False):
    """An engine at a moment: `in_flight` of `slots` calls are live, `awaiting` of them without a first token, and take
    `tokens` of the `most_tokens` that may be in flight (infinite where that is not bounded).
    """

    slots: int
    in_flight: int
    awaiting: int
    tokens: int = 0
    most_tokens: float = math.inf


class Headroom:
    """The rules above for one endpoint. Times are on the owner's clock.

    Every `queued` is followed by `unqueued`, every `started` by `ended`. `weights` are the tenants' (default 1).
    """

    __slots__ = ("_config", "_live", "_newcomer_until", "_queued", "_recent", "_weights")

    def __init__(self, config: HeadroomConfig, weights: Mapping[str, float]) -> None:
        self._config = config
        self._weights = weights
        self._queued: dict[str, int] = {}
        self._live: dict[str, int] = {}
        self._recent: dict[str, float] = {}
        self._newcomer_until = -math.inf

    def reweigh(self, weights: Mapping[str, float]) -> None:
        """Takes on other weights."""
        self._weights = weights

    def queued(self, tenant: str, now: float) -> None:
        """A call of the tenant waits from now on; a tenant that had none becomes active."""
        if tenant not in self._queued and tenant not in self._live:
            self._newcomer_until = self._recent[tenant] = now + self._config.newcomer_seconds
        self._queued[tenant] = self._queued.get(tenant, 0) + 1

    def unqueued(self, tenant: str) -> None:
        """A call of the tenant waits no more: it is sent, or gone."""
        _decrement(self._queued, tenant)

    def started(self, tenant: str) -> None:
        """A call of the tenant is in flight."""
        self._live[tenant] = self._live.get(tenant, 0) + 1

    def ended(self, tenant: str) -> None:
        """A call of the tenant is in flight no more."""
        _decrement(self._live, tenant)

    def keeps_back(self, ticket: Ticket, now: float, room: Room) -> float:
        """0 if the call may start; else the time to look again, infinite where a call has to progress first."""
        prefill_full = room.awaiting >= self._config.at_share
        newcomers = now < self._newcomer_until and self._in_last_part(ticket, room)
        if not (prefill_full or newcomers) or self._below_share(ticket.tenant, room.slots, now):
            return 0.0
        return math.inf if prefill_full else self._newcomer_until

    def _in_last_part(self, ticket: Ticket, room: Room) -> bool:
        """Whether the call would take of the slots or the tokens that are kept."""
        kept = self._config.kept
        if room.slots - room.in_flight <= math.ceil(kept * room.slots):
            return True
        tokens = room.tokens + ticket.whole_input + ticket.whole_output
        return tokens > (1.0 - kept) * room.most_tokens

    def _below_share(self, tenant: str, slots: int, now: float) -> bool:
        for name in [name for name, until in self._recent.items() if until <= now]:
            del self._recent[name]
        active = self._queued.keys() | self._live.keys() | self._recent.keys()
        if len(active) <= 1:
            return True
        weights = self._weights
        total = sum(weights.get(name, 1.0) for name in active)
        return self._live.get(tenant, 0) < slots * weights.get(tenant, 1.0) / total

    def __repr__(self) -> str:
        return f"<Headroom queued={self._queued} live={self._live}>"


def _decrement(counts: dict[str, int], tenant: str) -> None:
    left = counts[tenant] - 1
    if left:
        counts[tenant] = left
    else:
        del counts[tenant]
