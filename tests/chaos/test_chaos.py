"""Drawn schedules of faults in virtual time: nothing that must hold is ever broken, and whatever breaks it is found.

`python -m tests.chaos FROM:TO --jobs N` plays as many as one likes, `python -m tests.chaos SEED` one of them again.
"""

import pytest

from tests.chaos.plants import PLANTS
from tests.chaos.play import play

SCHEDULES = 2_000
PARTS = 40
ENOUGH = 200
"""A planted fault must be found within so many schedules."""

LATER = {"a rate may be zero": 1_200}
"""Faults that need more to come together: where to begin."""


@pytest.mark.parametrize("part", range(PARTS))
def test_whatever_goes_wrong_what_must_hold_holds(part: int) -> None:
    """Every call ends once, everything held is given back, no run is lost, no budget is overshot, every log folds."""
    for seed in range(part, SCHEDULES, PARTS):
        verdict = play(seed)
        assert not verdict.violations, str(verdict)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str) -> None:
    """The harness would have found it: with the fault in one place some schedule breaks what must hold."""
    first = LATER.get(name, 0)
    with PLANTS[name]():
        assert any(play(seed).violations for seed in range(first, first + ENOUGH))


@pytest.mark.parametrize("seed", [3, 29, 72])
def test_a_seed_plays_the_same_again(seed: int) -> None:
    """The same seed comes to the same, so that what failed once can be looked at."""
    name = "a slot is kept after a 429"
    with PLANTS[name]():
        assert play(seed) == play(seed)
