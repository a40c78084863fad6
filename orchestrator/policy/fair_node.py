"""One flow's books: its counter, and what the fairness bound needs to know of it.

The bound (derived in `fairness.py`) is kept as peaks, each taken for as long as the flow is remembered, so it holds for
any interval: the largest charge; the most that calls in flight were found to cost beyond their charge since the
flow's last dispatch; and for refunds the largest one times the most calls in flight.
"""


class Node:
    """A child's side: its counter in service units per weight, and what the fairness bound needs to know of it."""

    __slots__ = (
        "booked",
        "counter",
        "entry",
        "excess",
        "excess_peak",
        "largest",
        "lead",
        "live",
        "live_peak",
        "mark",
        "name",
        "open",
        "order",
        "queued",
        "refund_peak",
        "scale",
    )

    def __init__(self, name: str, weight: float) -> None:
        self.name = name
        self.scale = 1.0 / weight
        self.counter = 0.0
        self.entry: tuple[float, int, Node] | None = None
        self.order = 0
        self.queued = 0
        self.live = 0
        self.open = 0.0  # charges of calls in flight, in service units
        self.booked = 0.0  # all service ever booked
        self.mark: float | None = None  # `booked` at the last measurement, None if not eligible ever since
        self.lead = 0.0
        self.largest = 0.0
        self.excess = 0.0
        self.excess_peak = 0.0
        self.refund_peak = 0.0
        self.live_peak = 0

    def __lt__(self, other: "Node") -> bool:
        """Heaps compare nodes only where two entries of one node tie, and then any answer will do."""
        return False

    @property
    def weight(self) -> float:
        return 1.0 / self.scale

    def dispatched(self, charge: float) -> None:
        """Books a call that starts."""
        self.counter += charge * self.scale
        self.booked += charge
        self.open += charge
        self.live += 1
        self.excess = 0.0
        if charge > self.largest:
            self.largest = charge
        if self.live > self.live_peak:
            self.live_peak = self.live

    def corrected(self, change: float) -> None:
        """Books service of a call in flight beyond (`change` above 0) or short of what was charged."""
        self.counter += change * self.scale
        self.booked += change
        self.open += change
        if change > 0.0:
            self.excess += change
            if self.excess > self.excess_peak:
                self.excess_peak = self.excess
        elif -change > self.refund_peak:
            self.refund_peak = -change

    def settled(self, change: float, charge: float) -> None:
        """A call ended that cost `charge` in all, `change` of it not booked before."""
        if change:
            self.corrected(change)
        self.live -= 1
        # an exact 0 with nothing in flight keeps rounding errors from adding up
        self.open = self.open - charge if self.live else 0.0

    def reweigh(self, weight: float) -> None:
        """Changes the weight; calls in flight are booked anew, so that their refund matches their charge."""
        scale = 1.0 / weight
        self.counter += self.open * (scale - self.scale)
        self.scale = scale
        self.mark = None

    def bound_term(self) -> float:
        """This child's part of the bound: largest charge, under-prediction and over-prediction, per weight."""
        return (self.largest + self.excess_peak + self.refund_peak * self.live_peak) * self.scale
