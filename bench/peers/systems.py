"""The systems that are measured: what stands between the jobs' clients and the provider, with its settings.

The peers have the best simple settings that were found by trying, and know what they could only know in the best case:
the limits to the digit, and, where they share a bucket, each other.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, structs

from bench.peers.work import LARGE, SMALL, Item, Limits, Plan
from bench.processes import HEADRACE, running

SHARED: Final = "shared bucket"
SPLIT: Final = "split buckets"
RETRY: Final = "retry on 429"
OURS: Final = "headrace"
TOLD: Final = "headrace, told"
SYSTEMS: Final = {"shared": SHARED, "split": SPLIT, "retry": RETRY, "headrace": OURS, "told": TOLD}
"""What the command calls them, and the report."""

CONNECTIONS: Final = 8
SHARE: Final = 0.9
BURST: Final = 1.0
BACKOFF: Final = 0.5
LONGEST: Final = 8.0


class System(Struct, frozen=True, kw_only=True):
    """One way to the provider. `gateway` is the URL of a gateway that runs already, whose upstream must be the provider
    at `port` (0: any free one); `ours` starts Headrace's, `told` of the
    provider's shorter window.
    """

    name: str
    settings: str
    plans: Callable[[str, list[Item]], list[Plan]]
    ours: bool = False
    told: bool = False
    gateway: str | None = None
    port: int = 0


def known_systems(limits: Limits, *, within: float, connections: int = CONNECTIONS) -> dict[str, System]:
    """The systems that need nothing from elsewhere, by the command's name for them."""

    def bucket(url: str, items: list[Item], part: float) -> Plan:
        plan = retry(url, items)
        return structs.replace(
            plan, manner="bucket", rpm=limits.rpm * part, tpm=limits.tpm * part, share=SHARE, burst=BURST
        )

    def retry(url: str, items: list[Item]) -> Plan:
        return Plan(
            url=url,
            manner="retry",
            items=items,
            connections=connections,
            backoff=BACKOFF,
            longest=LONGEST,
            within=within,
            seed=limits.seed,
        )

    def ours(name: str, how: str, *, told: bool) -> System:
        return System(
            name=name,
            settings=f"{how}; a process per job, all calls at once, the job named by a header",
            plans=lambda url, items: unbounded(url, items, {"X-Headrace-Job": "{job}"}, within, limits.seed),
            ours=True,
            told=told,
        )

    pace = f"at {SHARE:.0%} of the limits, bursts of {BURST:g} s, {connections} calls open per job"
    again = f"pauses as the server asks, and up to {BACKOFF:g} s * 2^n, at most {LONGEST:g} s, more"
    return {
        "shared": System(
            name=SHARED,
            settings=f"both jobs in one process with one leaky bucket {pace}; repeats 429s",
            plans=lambda url, items: [bucket(url, items, 1.0)],
        ),
        "split": System(
            name=SPLIT,
            settings="a process per job, each with a leaky bucket of half the limits; otherwise the same",
            plans=lambda url, items: [bucket(url, part, 0.5) for part in by_job(items).values()],
        ),
        "retry": System(
            name=RETRY,
            settings=f"a process per job, {connections} calls open; {again}",
            plans=lambda url, items: [retry(url, part) for part in by_job(items).values()],
        ),
        "headrace": ours(OURS, "daemon with rpm, tpm and counted, all else by default", told=False),
        "told": ours(TOLD, "the same, and the provider's shorter window as further limits", told=True),
    }


def gateway_system(url: str, port: int, headers: Mapping[str, str], *, within: float, seed: int = 0) -> System:
    """A gateway that runs already, before the provider at `port`; `{job}` in a header's value is the job's name."""
    return System(
        name=url,
        settings=f"runs already, upstream at port {port}; clients as headrace's, repeating what is refused",
        plans=lambda reached, items: unbounded(reached, items, headers, within, seed),
        gateway=url.rstrip("/"),
        port=port,
    )


def unbounded(url: str, items: list[Item], headers: Mapping[str, str], within: float, seed: int) -> list[Plan]:
    """Clients without limits of their own: all calls at once, a process per job; they repeat like any SDK."""
    return [
        Plan(
            url=url,
            manner="retry",
            items=part,
            connections=None,
            headers={job: {name: value.replace("{job}", job) for name, value in headers.items()}},
            backoff=BACKOFF,
            longest=LONGEST,
            within=within,
            seed=seed,
        )
        for job, part in by_job(items).items()
    ]


def by_job(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Each job's calls."""
    return {job: [item for item in items if item.job == job] for job in (SMALL, LARGE)}


@contextmanager
def provider(limits: Limits, port: int = 0) -> Iterator[tuple[str, int]]:
    """A provider inside the block: its base URL and the port at which it tells its counts. Raises `NotStarted`."""
    arguments = ["-m", "bench.peers.provider", msgspec.json.encode(limits).decode(), str(port)]
    with running(arguments, r"serves (http://\S+ and counts at \d+) \.", Path.cwd()) as said:
        url, _, told = said.partition(" and counts at ")
        yield url, int(told)


@contextmanager
def headrace(upstream: str, limits: Limits, *, told: bool) -> Iterator[str]:
    """The daemon before `upstream`, told of the limits; the base URL of its gateway. Raises `NotStarted`."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        Path(folder, "headrace.toml").write_text(configuration(upstream, limits, told=told))
        command = [*HEADRACE, "serve", "--config", f"{folder}/headrace.toml", "--data-dir", f"{folder}/data"]
        quiet = ["--port", "0", "--drain-seconds", "0", "--log-level", "warning"]
        with running([*command, *quiet], r"serves (http://[^\s,]+)", Path(folder)) as url:
            yield url.rstrip("/") + "/v1"


def configuration(upstream: str, limits: Limits, *, told: bool) -> str:
    """The daemon's: a minute's limits and nothing else, and if it is `told`, the provider's shorter window as well."""
    lines = [
        "[backends.upstream]",
        'kind = "openai"',
        f'base_url = "{upstream}"',
        f"rpm = {limits.rpm}",
        f"tpm = {limits.tpm}",
        f'counted = "{limits.counted}"',
    ]
    if told and limits.window is not None:
        shorter = ", ".join(
            f'{{ kind = "{kind}", amount = {amount * limits.window / 60}, per = {limits.window} }}'
            for kind, amount in (("requests", limits.rpm), ("total_tokens", limits.tpm))
        )
        lines.append(f"limits = [{shorter}]")
    return "\n".join(lines) + "\n"
