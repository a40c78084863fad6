"""Schedules played and judged."""

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import structlog
from msgspec import Struct

from bench.virtual import in_virtual_time
from tests.chaos.invariants import violations
from tests.chaos.schedule import schedule
from tests.chaos.world import World


class Verdict(Struct, frozen=True):
    """What a seed came to."""

    seed: int
    violations: tuple[str, ...]

    def __str__(self) -> str:
        said = "\n".join(f"  {one}" for one in self.violations)
        return (
            f"seed {self.seed}: {len(self.violations)} violations\n{said}\n  again: python -m tests.chaos {self.seed}"
        )


def play(seed: int) -> Verdict:
    """One schedule from its seed; the same seed does the same."""

    async def scenario() -> list[str]:
        world = World(schedule(seed))
        try:
            await world.play()
        except BaseException as error:
            return [f"it broke off: {error!r}", *_causes(error)]
        try:
            return await violations(world)
        except Exception as error:
            return [f"what it came to cannot be looked at: {error!r}"]

    with _silence():
        return Verdict(seed, tuple(in_virtual_time(scenario, seed=seed)))


@contextmanager
def _silence() -> Iterator[None]:
    """Nobody reads what thousands of daemons in trouble have to say."""
    before = structlog.get_config()
    structlog.configure(processors=[_drop])
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(logger: object, method: str, event: MutableMapping[str, Any]) -> NoReturn:
    raise structlog.DropEvent


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [f"{type(error).__name__}: {error}"]
