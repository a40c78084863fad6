"""Scrapes of a daemon, and what they show."""

from collections.abc import Mapping
from contextlib import aclosing

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.daemon.serving import Serving

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(daemon: Serving) -> str:
    """One scrape, as Prometheus has it."""
    async with httpx2.AsyncClient() as client:
        return (await client.get(f"{daemon.url}/metrics")).text


async def ended(daemon: Serving, run: str) -> None:
    """Returns when the run has ended."""
    async with aclosing(daemon.client.events(run)) as events:
        async for _ in events:
            pass


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(text: str, name: str, **labels: str) -> float:
    return samples(text)[f"headrace_{name}", frozenset(labels.items())]
