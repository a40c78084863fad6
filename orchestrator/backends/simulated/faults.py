"""Which faults strike which call: scripted by number and time, random by a seeded chance.

The chance of rule r for call n depends on (seed, r, n) alone, so a run with the same arrivals repeats exactly and an
added rule does not change what the others do.
"""

import random

from orchestrator.backends.simulated.config import FaultKind, FaultRule

CallFaults = dict[FaultKind, FaultRule]
"""The faults of one call: for each kind the first rule that fired."""


class Faults:
    """The script, and the draw."""

    def __init__(self, rules: tuple[FaultRule, ...], seed: int) -> None:
        self._calls = [(i, rule) for i, rule in enumerate(rules) if rule.fault != "refuse"]
        self._connects = [(i, rule) for i, rule in enumerate(rules) if rule.fault == "refuse"]
        self._seed = seed

    def of_call(self, number: int, now: float) -> CallFaults:
        """What strikes the call of that number (from 1) at that time."""
        faults: CallFaults = {}
        for index, rule in self._calls:
            if rule.fault not in faults and self._fires(index, rule, number, now):
                faults[rule.fault] = rule
        return faults

    def refuses(self, number: int, now: float) -> bool:
        """True if the connection of that number (from 1) is refused."""
        return any(self._fires(index, rule, number, now) for index, rule in self._connects)

    def outages(self) -> list[tuple[float, float]]:
        """The windows in which nobody listens at all, in order: `refuse` rules with no condition but the time."""
        return sorted((rule.start, rule.end) for _, rule in self._connects if rule.probability == 1.0 and not rule.nth)

    def _fires(self, index: int, rule: FaultRule, number: int, now: float) -> bool:
        if not rule.start <= now < rule.end or (rule.nth and number not in rule.nth):
            return False
        if rule.probability >= 1.0:
            return True
        chance = random.Random(f"{self._seed}/{index}/{number}").random()
        return chance < rule.probability
