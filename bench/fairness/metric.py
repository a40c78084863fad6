"""How unevenly clients were served: the measure of the VTC paper's artifact, to the letter.

Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), artifact `Ying1123/VTC-artifact`, revision plots.
Service is input + 2 * output tokens, and counts as given evenly between a request's first and last token. At 19 ticks
windows of 60 s are looked at; the first begins 28.5 s after the start, the last ends at 601.5 s. In each, every client
falls short of the best served one by at most so much, and of what it asked for by at most so much; the lesser of the
two is its difference, and the tick's figure is the sum over the clients, per second. Reported are the greatest tick,
their mean and their variance. Requests that were turned away neither ask for anything nor are served.

Known limits of the measure. Demand is what arrives in the window, so a client that is served what it asked for a minute
ago counts as served too much, and a policy that serves everybody in turn does not reach 0.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

SPAN: Final = 600.0
WINDOW: Final = 60.0
WARM_UP: Final = 30.0
PARTS: Final = 20
TICKS: Final = tuple((SPAN - WARM_UP) / PARTS * part + WARM_UP for part in range(1, PARTS))
"""The middles of the windows, in seconds."""


class Outcome(Struct, frozen=True, kw_only=True, gc=False):
    """One request: when it came, and when its first and last token did. Seconds; NaN for what did not happen."""

    client: str
    at: float
    input: int
    output: int
    first: float = math.nan
    end: float = math.nan

    @property
    def service(self) -> float:
        return self.input + 2.0 * self.output

    @property
    def served(self) -> bool:
        return not math.isnan(self.end)


class Unevenness(Struct, frozen=True):
    """Service per second. All NaN where no tick counted."""

    max: float
    mean: float
    variance: float


def unevenness(outcomes: Iterable[Outcome], counts: Callable[[float, float], bool] | None = None) -> Unevenness:
    """The measure. With `counts` only ticks whose window, from a beginning to an end, it agrees to."""
    served = [outcome for outcome in outcomes if outcome.served]
    windows = [(tick - WINDOW / 2, tick + WINDOW / 2) for tick in TICKS]
    figures = [_tick(served, *window) for window in windows if counts is None or counts(*window)]
    if not figures:
        return Unevenness(math.nan, math.nan, math.nan)
    mean = sum(figures) / len(figures)
    return Unevenness(max(figures), mean, sum((figure - mean) ** 2 for figure in figures) / len(figures))


def backlogged(outcomes: Sequence[Outcome]) -> Callable[[float, float], bool]:
    """Whether every client had a request waiting for its first token at every moment of a window."""
    stretches: dict[str, list[tuple[float, float]]] = {}
    for outcome in sorted((outcome for outcome in outcomes if outcome.served), key=lambda outcome: outcome.at):
        own = stretches.setdefault(outcome.client, [])
        if own and outcome.at <= own[-1][1]:
            own[-1] = own[-1][0], max(own[-1][1], outcome.first)
        else:
            own.append((outcome.at, outcome.first))

    def throughout(begin: float, end: float) -> bool:
        return all(any(since <= begin and end <= until for since, until in own) for own in stretches.values())

    return throughout


def _tick(served: Sequence[Outcome], begin: float, end: float) -> float:
    got: dict[str, float] = {}
    asked: dict[str, float] = {}
    for outcome in served:
        client, service = outcome.client, outcome.service
        if begin <= outcome.at <= end:
            asked[client] = asked.get(client, 0.0) + service
        length = outcome.end - outcome.first
        if length >= 1e-5 and outcome.end >= 1.0:
            overlap = max(0.0, min(end, outcome.end) - max(begin, outcome.first))
            got[client] = got.get(client, 0.0) + service * overlap / length
    best = max(got.values(), default=0.0)
    differences = (
        min(best - got.get(client, 0.0), abs(asked.get(client, 0.0) - got.get(client, 0.0)))
        for client in got.keys() | asked.keys()
    )
    # fsum, as the order of a set differs from process to process
    return math.fsum(differences) / WINDOW
