"""Intervals: Wilson's for proportions of clustered trials, and the cluster bootstrap for everything else.

A task is a cluster: its repeats resemble one another, so a hundred repeats of one task say little about other tasks.
All intervals are about tasks like those at hand, not only about these.
"""

from collections.abc import Callable, Sequence
from math import ceil, fsum, sqrt
from random import Random
from statistics import NormalDist, fmean, variance
from typing import Final, TypeVar

T = TypeVar("T")

RESAMPLES: Final = 1_999
"""Resamples of a bootstrap, one less than a round number so that its percentiles fall on resamples."""
MOST_RESAMPLES: Final = 9_999
_NORMAL: Final = NormalDist()


def wilson(successes: float, trials: float, error: float = 0.05) -> tuple[float, float]:
    """The interval of a proportion that misses with a chance of `error` (Wilson 1927). Neither need be whole."""
    if trials <= 0:
        return 0.0, 1.0
    z = _NORMAL.inv_cdf(1 - error / 2)
    share = successes / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = max(0.0, middle - half) if successes > 0 else 0.0
    return low, min(1.0, middle + half) if successes < trials else 1.0


def effective_trials(shares: Sequence[float], trials: Sequence[int]) -> float:
    """How many independent trials the clusters amount to: the number of trials over their design effect.

    `shares` are the clusters' shares of successes, equally weighted; `trials` how many each had. It lies between the
    number of clusters and the number of trials (as in Korn and Graubard 1998, who put it into an exact interval).
    """
    clusters = len(shares)
    share = fmean(shares)
    between = variance(shares) / clusters if clusters > 1 else 0.0
    if between == 0.0:
        return float(clusters)
    return min(float(sum(trials)), max(float(clusters), share * (1 - share) / between))


def proportion(shares: Sequence[float], trials: Sequence[int], error: float = 0.05) -> tuple[float, float]:
    """Wilson's interval of the mean share of clusters, over as many trials as they amount to."""
    if not shares:
        return 0.0, 1.0
    amount = effective_trials(shares, trials)
    return wilson(fmean(shares) * amount, amount, error)


def bootstrap(
    clusters: Sequence[T], statistic: Callable[[Sequence[T]], float], random: Random, error: float = 0.05
) -> tuple[float, float]:
    """The interval of a statistic over clusters that are resampled whole, by expanded percentiles.

    Plain percentiles are too narrow where clusters are few. These are moved outward as Student's distribution and the
    unbiased variance would move a normal interval (Hesterberg 2015, "What teachers should know about the bootstrap").
    """
    size = len(clusters)
    if size < 2:
        raise ValueError("a bootstrap needs two clusters at least")
    tail = _NORMAL.cdf(-sqrt(size / (size - 1)) * student(1 - error / 2, size - 1))
    resamples = min(MOST_RESAMPLES, max(RESAMPLES, ceil(5 / tail)))
    found = sorted(statistic(random.choices(clusters, k=size)) for _ in range(resamples))
    place = max(0, int(tail * (resamples + 1)) - 1)
    return found[place], found[resamples - 1 - place]


def student(level: float, freedom: int) -> float:
    """Student's quantile, by its expansion around the normal one (Abramowitz and Stegun 26.7.5); exact enough from
    five degrees of freedom on."""
    z = _NORMAL.inv_cdf(level)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def z_of(level: float) -> float:
    """The standard normal quantile."""
    return _NORMAL.inv_cdf(level)
