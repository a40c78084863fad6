"""Which priority goes next: strict order with a minimum share, so that nothing starves.

Strict priority alone is the best-known complaint about priority queues: a busy high priority starves the rest.
Here each priority k carries a debt, in service units. While k has an eligible call, a dispatch of service q
elsewhere adds `share * q` to it, and a dispatch of its own takes `(1 - share) * q`. The lowest priority with a debt
above 0 goes next, else the highest that has an eligible call. While all are backlogged every lower one then gets
`share` of the service, exactly and in the long run, and the highest gets the rest.

Three rules keep debts honest at the edges:

- An empty priority keeps no claim (a debt above 0 becomes 0) but goes on paying back: its negative debt rises with
  service elsewhere, up to 0. If emptying forgave it, a priority with one call at a time would be due again after
  every single dispatch elsewhere, and get half of the service instead of its share.
- Service that a priority gets when it has no claim (nobody above it has a call, or all of those are held by limits)
  costs at most that one call: otherwise a night of batch work would be held against it for a day.
- A refund gives back no more than a debt of 0, for the same reason: what was not paid is not returned.

Predictions are corrected here as well, so the share is one of real service. What is in flight may still turn out
different, so over a short time the share is met only up to the misprediction in flight.
"""

from collections.abc import Iterator


class Debts:
    """The debts of priorities 0 (highest) to count - 1. Which of them have an eligible call is told from outside."""

    __slots__ = ("_debts", "_eligible", "_lowest_first", "_own", "_share")

    def __init__(self, share: float, count: int) -> None:
        self._share = share
        self._own = 1.0 - share
        self._debts = [0.0] * count
        self._eligible = [False] * count
        self._lowest_first = tuple(reversed(range(count)))

    @property
    def share(self) -> float:
        """The minimum share of each lower priority, from 0 to 1."""
        return self._share

    @property
    def debts(self) -> tuple[float, ...]:
        """The debt of each priority in service units."""
        return tuple(self._debts)

    def filled(self, priority: int) -> None:
        """The priority has an eligible call from now on."""
        self._eligible[priority] = True

    def emptied(self, priority: int) -> None:
        """The priority has no eligible call any more: its claim ends, what it owes stays."""
        self._eligible[priority] = False
        if self._debts[priority] > 0.0:
            self._debts[priority] = 0.0

    def due(self) -> int:
        """The priority that goes next, -1 if none has an eligible call."""
        eligible = self._eligible
        debts = self._debts
        best = -1
        for priority in self._lowest_first:
            if eligible[priority]:
                if debts[priority] > 0.0:
                    return priority
                best = priority
        return best

    def order(self) -> Iterator[int]:
        """All priorities with an eligible call: the one that is due, then the one due without it, and so on."""
        eligible = self._eligible
        left = [priority for priority in self._lowest_first if eligible[priority]]
        while left:
            chosen = next((priority for priority in left if self._debts[priority] > 0.0), left[-1])
            left.remove(chosen)
            yield chosen

    def dispatched(self, priority: int, charge: float) -> None:
        """A call of this priority starts and is charged `charge`."""
        debts = self._debts
        mine = debts[priority]
        self._elsewhere(priority, charge)
        debts[priority] = (mine if mine > 0.0 else 0.0) - self._own * charge

    def corrected(self, priority: int, change: float) -> None:
        """A call in flight turned out to cost `change` more (or less) than was booked."""
        debts = self._debts
        mine = debts[priority]
        self._elsewhere(priority, change)
        corrected = mine - self._own * change
        debts[priority] = min(corrected, max(mine, 0.0)) if change < 0.0 else corrected

    def _elsewhere(self, priority: int, service: float) -> None:
        debts = self._debts
        eligible = self._eligible
        grown = self._share * service
        for other in self._lowest_first:
            if other != priority:
                debt = debts[other] + grown
                debts[other] = debt if eligible[other] or debt < 0.0 else 0.0
