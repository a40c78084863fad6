"""One schedule of faults, all of it drawn from a seed: who wants what, and what goes wrong when."""

import math
import random
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

HEALED = 240.0
"""From then on nothing goes wrong any more. In seconds, like all times."""

PROVIDER = (
    "well",
    "well",
    "well",
    "refused",
    "500",
    "529",
    "503 and a time",
    "429",
    "429 and a time",
    "429 of a limit",
    "silent",
    "cut",
    "drip",
    "garbage",
    "no usage",
)
TOOLS = ("ok", "ok", "ok", "error", "slow", "hangs", "stubborn", "raises", "asks", "asks", "again", "delegates")
STORE = ("locked", "full", "slow", "unsure", "late")
TENANTS = ("blue", "red", "poor")


class Spell(Struct, frozen=True):
    """What something does from a time on."""

    at: float
    does: str


class RunPlan(Struct, frozen=True):
    """A run: `steps` times it uses a tool, then it answers. `cancel` is when somebody takes it away, if anybody does.

    `awaited`: whoever asks for it waits for its result, as the worker of a job does, and asks again where none came.
    Whoever does not wait for that leaves where no answer came within `patience`, and asks again.
    """

    run: str
    at: float
    tenant: str
    priority: str
    steps: int
    tools: tuple[str, ...]
    cancel: float
    expires_in: float | None
    tokens: int | None
    awaited: bool
    patience: float


class CallPlan(Struct, frozen=True):
    """A client's call. It leaves after `patience`, and wants no answer after `deadline`."""

    key: str
    at: float
    tenant: str
    priority: int
    stream: bool
    restartable: bool
    patience: float
    deadline: float


class Schedule(Struct, frozen=True):
    """Everything that happens.

    `kills` are when the daemon dies, and whether it is asked to end before that. `people` is what they say to what they
    are asked, one after the other.
    """

    seed: int
    endpoints: tuple[tuple[Spell, ...], ...]
    store: tuple[tuple[float, float, str], ...]
    clock: tuple[tuple[float, float], ...]
    kills: tuple[tuple[float, bool], ...]
    reloads: tuple[float, ...]
    runs: tuple[RunPlan, ...]
    calls: tuple[CallPlan, ...]
    step: float
    attempts: int
    rpm: float
    slots: int
    budget: int
    people: tuple[str, ...]


def schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(seed)
    kills = sorted(rng.uniform(1, HEALED) for _ in range(rng.choice([0, 0, 1, 2])))
    return Schedule(
        seed=seed,
        endpoints=tuple(_spells(rng) for _ in range(rng.choice([1, 2, 3]))),
        store=tuple(_trouble(rng) for _ in range(rng.choice([0, 0, 1, 3]))),
        clock=tuple((rng.uniform(0, HEALED), rng.choice([-600.0, -1.0, 1.0, 3_600.0, 86_400.0])) for _ in _few(rng)),
        kills=tuple((at, rng.random() < 0.4) for at in kills),
        reloads=tuple(rng.uniform(0, HEALED) for _ in _few(rng)),
        runs=tuple(_run(rng, number) for number in range(rng.randint(1, 6))),
        calls=_calls(rng),
        step=rng.choice([0.01, 0.2, 1.0]),
        attempts=rng.choice([1, 2, 6]),
        rpm=rng.choice([6.0, 30.0, 600.0, math.inf]),
        slots=rng.choice([1, 2, 8]),
        budget=rng.choice([1_000, 6_000, 12_000, 100_000]),
        people=tuple(rng.choice(["approved", "denied", "nothing"]) for _ in range(8)),
    )


def _few(rng: random.Random) -> range:
    return range(rng.choice([0, 0, 1, 2]))


def _spells(rng: random.Random) -> tuple[Spell, ...]:
    at, spells = 0.0, []
    while at < HEALED:
        spells.append(Spell(at, rng.choice(PROVIDER)))
        at += rng.expovariate(1 / 30.0)
    return tuple(spells)


def _trouble(rng: random.Random) -> tuple[float, float, str]:
    begin = rng.uniform(0, HEALED - 1)
    return begin, min(HEALED, begin + rng.expovariate(1 / 10.0)), rng.choice(STORE)


def _run(rng: random.Random, number: int) -> RunPlan:
    steps = rng.choice([0, 1, 1, 2, 3])
    return RunPlan(
        run=f"run-{number}",
        at=rng.uniform(0, HEALED * 0.8),
        tenant=rng.choice(TENANTS),
        priority=rng.choice(["interactive", "standard", "batch"]),
        steps=steps,
        tools=tuple(rng.choice(TOOLS) for _ in range(max(steps, 1))),
        cancel=rng.choice([math.inf, math.inf, math.inf, rng.uniform(0, HEALED)]),
        expires_in=rng.choice([None, None, None, rng.uniform(1, HEALED)]),
        tokens=rng.choice([None, None, 4_500, 12_000]),
        awaited=rng.random() < 0.3,
        patience=rng.choice([math.inf, math.inf, 0.0, 1.0]),
    )


def _calls(rng: random.Random) -> tuple[CallPlan, ...]:
    """A few here and there, or a flood of many at the same time."""
    if rng.random() < 0.9:
        return tuple(_call(rng, number) for number in range(rng.randint(0, 6)))
    at, calls = rng.uniform(0, HEALED), [_call(rng, number) for number in range(60)]
    return tuple(replace(call, at=at, priority=1, tenant=rng.choice(TENANTS[:2])) for call in calls)


def _call(rng: random.Random, number: int) -> CallPlan:
    return CallPlan(
        key=f"call-{number}",
        at=rng.uniform(0, HEALED),
        tenant=rng.choice(TENANTS),
        priority=rng.choice([0, 1, 2]),
        stream=rng.random() < 0.5,
        restartable=rng.random() < 0.5,
        patience=rng.choice([math.inf, math.inf, 0.1, 3.0, 20.0]),
        deadline=rng.choice([math.inf, math.inf, 2.0, 30.0]),
    )


def now_of(spells: Sequence[Spell], now: float) -> str:
    """What it does at that time."""
    if now >= HEALED:
        return "well"
    return next(spell.does for spell in reversed(spells) if spell.at <= now)
