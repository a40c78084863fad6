"""What came of each system, from what its clients and its provider saw."""

from collections.abc import Sequence

from msgspec import Struct, structs

from bench.peers.provider import Counts
from bench.peers.work import LARGE, SMALL, Item, Limits, Told


class JobResult(Struct, frozen=True):
    """One job. `ended` is when its last answer came, None if not all came; `half` when half of its calls were answered.

    `tokens` are those of its answers.
    """

    name: str
    calls: int
    answered: int
    tokens: int
    half: float | None
    ended: float | None


class SystemResult(Struct, frozen=True):
    """One system. Seconds from the jobs' common start; tokens are input and output.

    `goodput` is answered tokens a second until the last answer, at `last`, and `use` that as a part of the token limit.
    `refused` are the provider's 429s, `by_limit` those by the limit that was exhausted, and `seen` the 429s that the
    clients saw: fewer where a gateway keeps them to itself. `attempts` are requests that reached the provider, `wasted`
    the tokens that it worked without a client having an answer for them. `errors` are other failed attempts of the
    clients, `unanswered` the calls without an answer in the end.

    `jain` is Jain's index of the tokens that each job had when the first one ended: 1 is even, 0.5 all for one; None
    where neither ended. The ratios are to the first system of the run, and None where there is nothing to divide by.
    """

    name: str
    settings: str
    jobs: list[JobResult]
    goodput: float
    use: float
    last: float
    attempts: int
    refused: int
    by_limit: dict[str, int]
    seen: int
    wasted: int
    errors: int
    unanswered: int
    jain: float | None
    goodput_ratio: float | None = None
    last_ratio: float | None = None


class PeersReport(Struct, frozen=True):
    """A run. `floor` is the seconds that all of its tokens take at the token limit, which no system that never
    overshoots can be faster than, unless the provider lets a minute's amount through at once.
    """

    seed: int
    limits: Limits
    small: int
    large: int
    floor: float | None
    systems: list[SystemResult]


def result(
    name: str, settings: str, items: Sequence[Item], told: Sequence[Told], counts: Counts, limits: Limits
) -> SystemResult:
    """One system's figures."""
    done = sorted((one for client in told for one in client.answered), key=lambda one: one.at)
    tokens = sum(one.tokens for one in done)
    last = done[-1].at if done else 0.0
    goodput = tokens / last if last else 0.0
    jobs = [_job(job, items, told) for job in (SMALL, LARGE)]
    return SystemResult(
        name=name,
        settings=settings,
        jobs=jobs,
        goodput=round(goodput, 1),
        use=round(goodput * 60 / limits.tpm, 4),
        last=round(last, 2),
        attempts=counts.arrived,
        refused=sum(counts.throttled.values()),
        by_limit=counts.throttled,
        seen=sum(client.refused for client in told),
        wasted=counts.tokens - tokens,
        errors=sum(client.errors for client in told),
        unanswered=len(items) - len(done),
        jain=_evenness(jobs, told),
    )


def _job(name: str, items: Sequence[Item], told: Sequence[Told]) -> JobResult:
    calls = sum(item.job == name for item in items)
    done = sorted((one for client in told for one in client.answered if one.job == name), key=lambda one: one.at)
    return JobResult(
        name,
        calls,
        len(done),
        sum(one.tokens for one in done),
        half=round(done[(calls + 1) // 2 - 1].at, 2) if len(done) >= (calls + 1) // 2 else None,
        ended=round(done[-1].at, 2) if len(done) == calls else None,
    )


def _evenness(jobs: Sequence[JobResult], told: Sequence[Told]) -> float | None:
    ends = [job.ended for job in jobs if job.ended is not None]
    if not ends:
        return None
    first = min(ends)
    had = [
        sum(one.tokens for client in told for one in client.answered if one.job == job.name and one.at <= first + 0.01)
        for job in jobs
    ]
    return round(jain(had), 4)


def jain(amounts: Sequence[float]) -> float:
    """(sum x)^2 / (n * sum x^2): Jain, Chiu and Hawe, "A quantitative measure of fairness" (1984). Not all may be 0."""
    return sum(amounts) ** 2 / (len(amounts) * sum(x * x for x in amounts))


def report(limits: Limits, items: Sequence[Item], results: Sequence[SystemResult]) -> PeersReport:
    """The whole, with every system held against the first one."""
    base = results[0]

    def against(one: SystemResult) -> SystemResult:
        return structs.replace(
            one, goodput_ratio=_ratio(one.goodput, base.goodput), last_ratio=_ratio(one.last, base.last)
        )

    whole = [sum(job.tokens for job in one.jobs) for one in results if not one.unanswered]
    counts = [sum(item.job == job for item in items) for job in (SMALL, LARGE)]
    return PeersReport(
        limits.seed,
        limits,
        counts[0],
        counts[1],
        round(whole[0] * 60 / limits.tpm, 1) if whole else None,
        [against(one) for one in results],
    )


def _ratio(value: float, base: float) -> float | None:
    return round(value / base, 3) if base else None
