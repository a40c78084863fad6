"""Schedules played and judged."""

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
        return await violations(world)

    return Verdict(seed, tuple(in_virtual_time(scenario, seed=seed)))


def _causes(error: BaseException) -> list[str]:
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in _causes(inner)]
    return [f"{type(error).__name__}: {error}"]
