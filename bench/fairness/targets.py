"""What Headrace is held to on the paper's suites, checked against what was measured."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from bench.fairness.measure import Row
from bench.fairness.systems import HEADRACE


class Verdict(Struct, frozen=True, kw_only=True):
    """One target: `measured` against `bound`, which it may not pass upwards, or downwards where `at_least`."""

    suite: str
    policy: str
    figure: str
    measured: float
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


_Figure = tuple[str, str, str, Callable[[Row], float | None], float]

WITHIN: Final = f"{HEADRACE}-within-50"

_UPPER: Final[tuple[_Figure, ...]] = (
    ("real", HEADRACE, "max", lambda row: row.max, 310.0),
    ("real", HEADRACE, "mean", lambda row: row.mean, 193.0),
    ("real", HEADRACE, "variance", lambda row: row.variance, 3600.0),
    ("overload", HEADRACE, "max while both are backlogged", lambda row: row.backlogged_max, 10.0),
    ("overload", WITHIN, "max while both are backlogged", lambda row: row.backlogged_max, 34.0),
    ("overload", WITHIN, "mean while both are backlogged", lambda row: row.backlogged_mean, 13.0),
    ("overload-multi", HEADRACE, "max", lambda row: row.max, 65.0),
    ("overload-multi", HEADRACE, "mean", lambda row: row.mean, 45.0),
    ("on_off_less", HEADRACE, "first token of client 0, s", lambda row: row.first_token.get("0"), 1.5),
    ("proportional", HEADRACE, "first token of client 0, s", lambda row: row.first_token.get("0"), 1.5),
    ("proportional", HEADRACE, "first token of client 1, s", lambda row: row.first_token.get("1"), 1.5),
)

_LEAST_REAL: Final = 770.0
_OF_FCFS: Final = 0.98


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """The targets for which there is a row."""
    by_key = {(row.suite, row.policy): row for row in rows}
    found = []
    for suite, policy, figure, of, bound in _UPPER:
        row = by_key.get((suite, policy))
        measured = None if row is None else of(row)
        if measured is not None:
            found.append(Verdict(suite=suite, policy=policy, figure=figure, measured=measured, bound=bound))
    for row in rows:
        if row.policy != HEADRACE:
            continue
        least = {"tokens/s": _LEAST_REAL} if row.suite == "real" else {}
        fcfs = by_key.get((row.suite, "fcfs"))
        if fcfs is not None:
            least[f"tokens/s, {_OF_FCFS:.0%} of FCFS'"] = _OF_FCFS * fcfs.tokens_per_second
        for figure, bound in least.items():
            found.append(
                Verdict(
                    suite=row.suite,
                    policy=HEADRACE,
                    figure=figure,
                    measured=row.tokens_per_second,
                    bound=bound,
                    at_least=True,
                )
            )
    return found
