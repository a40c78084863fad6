"""The sign-flip test: whether paired differences could as well have had the other sign.

Where two arms do not differ, a task's difference is as likely to be d as -d, whatever its distribution. So among all
ways to give the differences signs, the one that happened is nothing special: the test keeps its error rate with any
number of tasks and any distribution, which neither a bootstrap nor a t-test does.
"""

from collections.abc import Sequence
from math import ceil, log2
from random import Random
from typing import Final

EXACT: Final = 14
"""Up to so many differences every way to give them signs is looked at."""
FLIPS: Final = 4_999
"""Beyond that, so many ways drawn at random, or more for a smaller error."""
MOST_FLIPS: Final = 99_999
_CHUNK: Final = 7


def flip_test(differences: Sequence[float], random: Random, error: float = 0.05) -> float:
    """The two-sided p value of "no difference", fine enough to be held against `error`.

    Differences that are 0 say nothing and change nothing.
    """
    real = [abs(each) for each in differences if each]
    if not real:
        return 1.0
    # Sums in different orders differ in their last bits; those as good as equal count as equal.
    seen = abs(sum(differences)) - 1e-9 * sum(real)
    tables = [_signed_sums(real[at : at + _CHUNK]) for at in range(0, len(real), _CHUNK)]
    if len(real) <= EXACT:
        first, second = tables[0], tables[1] if len(tables) > 1 else [0.0]
        extreme = sum(abs(a + b) >= seen for a in first for b in second)
        return extreme / (len(first) * len(second))
    flips = min(MOST_FLIPS, max(FLIPS, ceil(20 / error)))
    columns = [random.choices(table, k=flips) for table in tables]
    extreme = sum(abs(sum(parts)) >= seen for parts in zip(*columns, strict=True))
    return (1 + extreme) / (1 + flips)


def fewest_tasks(error: float) -> int:
    """With how many tasks the test can reject at all: all differences of one sign have p = 2 / 2^n."""
    return ceil(1 + log2(1 / error) - 1e-9)


def _signed_sums(amounts: Sequence[float]) -> list[float]:
    sums = [0.0]
    for amount in amounts:
        sums = [part + signed for part in sums for signed in (amount, -amount)]
    return sums
