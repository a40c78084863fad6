"""The published bound on the spread between siblings: random arrivals, sizes, predictions, departures and parks."""

import random
from collections import defaultdict
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.policy.fairness import FairConfig, FairQueue
from orchestrator.policy.ticket import Ticket

W_OUT = 2.0
Path = tuple[str, ...]


class Flight:
    """A call in flight with its fate: what it will stream, and how much it has."""

    def __init__(self, ticket: Ticket, input: float, predicted: float, actual: float) -> None:
        self.ticket = ticket
        self.input = input
        self.predicted = predicted
        self.actual = actual
        self.streamed = 0.0


class Ledger:
    """What one flow got and what its bound is made of, counted without the queue's help."""

    def __init__(self) -> None:
        self.booked = 0.0
        self.delivered = 0.0
        self.largest = 0.0
        self.credit = 0.0
        self.flying: list[Flight] = []
        self.excess = self.short = self.output = 0.0

    def measure(self) -> None:
        """Keeps the peaks over time of what is in flight."""
        self.excess = max(self.excess, W_OUT * sum(max(f.actual - f.predicted, 0.0) for f in self.flying))
        self.short = max(self.short, W_OUT * sum(max(f.predicted - f.actual, 0.0) for f in self.flying))
        self.output = max(self.output, W_OUT * sum(max(f.predicted, f.actual) for f in self.flying))

    def booked_term(self) -> float:
        return self.largest + self.excess + self.short

    def delivered_term(self) -> float:
        return self.largest + self.output + self.short


class World:
    """Random steps on a queue; always starts the head. Ledgers by path (tenant) and (tenant, job)."""

    def __init__(self, rng: random.Random, weights: dict[str, float], slots: int) -> None:
        self.rng = rng
        self.weights = weights
        self.slots = slots
        self.queue = FairQueue(FairConfig(weights=weights))
        self.ledgers: dict[Path, Ledger] = defaultdict(Ledger)
        self.queued: list[Ticket] = []
        self.flying: list[Flight] = []
        self.parked: set[str] = set()
        self.seq = 0

    def weight(self, path: Path) -> float:
        return self.weights[path[0]] if len(path) == 1 else 1.0

    def paths(self, ticket: Ticket) -> tuple[Path, Path]:
        return (ticket.tenant,), (ticket.tenant, ticket.job)

    def active(self) -> set[Path]:
        return {path for ticket in self.queued if ticket.tenant not in self.parked for path in self.paths(ticket)}

    def step(self) -> None:
        before = self.active()
        roll = self.rng.random()
        if roll < 0.3 or not self.queued:
            self.arrive()
        elif roll < 0.6 and len(self.flying) < self.slots:
            self.dispatch()
        elif roll < 0.75 and self.flying:
            self.stream()
        elif roll < 0.93 and self.flying:
            self.end()
        elif roll < 0.96:
            ticket = self.queued.pop(self.rng.randrange(len(self.queued)))
            self.queue.discard(ticket)
        elif roll < 0.98:
            self.parked.add(tenant := self.rng.choice(list(self.weights)))
            self.queue.park(tenant)
        else:
            self.parked.discard(tenant := self.rng.choice(list(self.weights)))
            self.queue.unpark(tenant)
        for path in self.active() - before:
            ledger = self.ledgers[path]
            ledger.credit = max(ledger.credit, self.queue.credit / self.weight(path))

    def arrive(self) -> None:
        for _ in range(self.rng.choice([1, 1, 1, 10])):
            self.seq += 1
            ticket = Ticket(seq=self.seq, tenant=self.rng.choice(list(self.weights)), job=self.rng.choice("xy"))
            self.queued.append(ticket)
            self.queue.push(ticket, 0.0)

    def dispatch(self) -> None:
        ticket = self.queue.head()
        if ticket is None:
            return
        rng = self.rng
        flight = Flight(ticket, rng.uniform(1, 100), rng.uniform(1, 100), rng.choice([1.0, 50.0, rng.uniform(1, 1000)]))
        charge = flight.input + W_OUT * flight.predicted
        self.queue.start(ticket, charge)
        self.queued.remove(ticket)
        self.flying.append(flight)
        for path in self.paths(ticket):
            ledger = self.ledgers[path]
            ledger.booked += charge
            ledger.delivered += flight.input
            ledger.largest = max(ledger.largest, charge)
            ledger.flying.append(flight)
            ledger.measure()

    def stream(self) -> None:
        flight = self.rng.choice(self.flying)
        self.produce(flight, self.rng.uniform(0.0, flight.actual - flight.streamed))

    def produce(self, flight: Flight, tokens: float) -> None:
        before = max(flight.streamed - flight.predicted, 0.0)
        flight.streamed += tokens
        more = W_OUT * (max(flight.streamed - flight.predicted, 0.0) - before)
        self.queue.charge(flight.ticket, more)
        for path in self.paths(flight.ticket):
            self.ledgers[path].booked += more
            self.ledgers[path].delivered += W_OUT * tokens

    def end(self) -> None:
        flight = self.flying.pop(self.rng.randrange(len(self.flying)))
        self.produce(flight, flight.actual - flight.streamed)
        actual = flight.input + W_OUT * flight.actual
        for path in self.paths(flight.ticket):
            ledger = self.ledgers[path]
            ledger.booked += actual - flight.ticket.charge
            ledger.flying.remove(flight)
        self.queue.settle(flight.ticket, actual)


class Pair:
    """Two siblings: the least and greatest difference of service since both became eligible."""

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.start: float | None = None
        self.worst = 0.0

    def see(self, both: bool, difference: float) -> None:
        if not both:
            self.start = None
            return
        if self.start is None:
            self.start = self.low = self.high = difference
        self.low = min(self.low, difference)
        self.high = max(self.high, difference)
        self.worst = max(self.worst, self.high - self.low)


def play(seed: int, weights: dict[str, float], slots: int, steps: int) -> tuple[World, float, float]:
    """Returns the greatest spread as part of its bound, for service booked and for service delivered."""
    world = World(random.Random(seed), weights, slots)
    paths: list[Path] = [(name,) for name in weights]
    pairs = list(combinations(paths, 2)) + [((name, "x"), (name, "y")) for name in weights]
    booked = {pair: Pair() for pair in pairs}
    delivered = {pair: Pair() for pair in pairs}
    for _ in range(steps):
        world.step()
        active = world.active()
        for pair in pairs:
            f, g = (world.ledgers[path] for path in pair)
            wf, wg = (world.weight(path) for path in pair)
            both = pair[0] in active and pair[1] in active
            booked[pair].see(both, f.booked / wf - g.booked / wg)
            delivered[pair].see(both, f.delivered / wf - g.delivered / wg)
    parts: list[tuple[float, float]] = [(0.0, 0.0)]
    for pair in pairs:
        f, g = (world.ledgers[path] for path in pair)
        wf, wg = (world.weight(path) for path in pair)
        credit = max(f.credit, g.credit)
        if f.largest and g.largest:
            parts.append(
                (
                    booked[pair].worst / (f.booked_term() / wf + g.booked_term() / wg + credit),
                    delivered[pair].worst / (f.delivered_term() / wf + g.delivered_term() / wg + credit),
                )
            )
    return world, max(part[0] for part in parts), max(part[1] for part in parts)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=2, max_size=4),
    slots=st.integers(1, 12),
)
def test_spread_stays_within_the_bound(seed: int, weights: list[float], slots: int):
    """Siblings eligible throughout never differ by more than the bound, in service booked and in service delivered."""
    _, booked, delivered = play(seed, {f"t{i}": weight for i, weight in enumerate(weights)}, slots, 400)
    assert booked <= 1.0
    assert delivered <= 1.0


def test_the_exported_spread_stays_within_the_exported_bound():
    """What the queue itself reports of spread and bound agrees: often a real spread, never one beyond the bound."""
    for seed in range(6):
        world = World(random.Random(seed), {"a": 1.0, "b": 2.0, "c": 0.5}, slots=6)
        seen = 0
        for step in range(600):
            world.step()
            if step % 20 == 0:
                spread, bound = world.queue.spread_and_bound()
                assert spread <= bound
                seen += spread > 0.0
        assert seen > 3


def test_spread_and_bound_are_zero_without_siblings():
    """A lone tenant has nobody to differ from."""
    queue = FairQueue(FairConfig())
    assert queue.spread_and_bound() == (0.0, 0.0)
    for seq in range(3):
        queue.push(Ticket(seq=seq, tenant="only"), 0.0)
    queue.spread_and_bound()
    ticket = queue.head()
    assert ticket is not None
    queue.start(ticket, 5.0)
    assert queue.spread_and_bound() == (0.0, 0.0)
