"""pass@k and pass^k: whether one of k tries succeeds, and whether all of k do. Unbiased, from n tries of which c did.

pass@k is Chen et al. 2021, "Evaluating Large Language Models Trained on Code"; pass^k Yao et al. 2024, "tau-bench".
Putting c / n to the power of k instead would be biased, most where n is small.
"""

from math import comb


def pass_at(k: int, tries: int, successes: int) -> float:
    """The chance that k tries drawn from these, without putting back, hold a success. ValueError if there are no k."""
    _check(k, tries, successes)
    return 1 - comb(tries - successes, k) / comb(tries, k)


def pass_all(k: int, tries: int, successes: int) -> float:
    """The chance that k tries drawn from these, without putting back, are successes all. ValueError as above."""
    _check(k, tries, successes)
    return comb(successes, k) / comb(tries, k)


def _check(k: int, tries: int, successes: int) -> None:
    if not 1 <= k <= tries:
        raise ValueError(f"k is {k}, but there were {tries} tries: k is between 1 and their number")
    if not 0 <= successes <= tries:
        raise ValueError(f"{successes} successes of {tries} tries: between 0 and their number")
