"""The cells of an experiment: which there are, in which order they run, and with which seed each.

A block is one repeat of one task where only the compared arms differ. Its cells run next to one another, in an order
drawn for each block, so that whatever drifts in the meantime drifts for every arm alike; and they have one seed, so
that chance which the seed decides is the same for every arm.
"""

from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from random import Random

import msgspec
from msgspec import Struct

from bench.experiment.spec import Fields, Spec


class Cell(Struct, frozen=True, kw_only=True):
    """One execution: a task under a system, a model and an environment, for the `repeat`-th time, from 0."""

    task: str
    system: str
    model: str
    environment: str
    repeat: int
    seed: int
    task_fields: Fields = {}
    system_fields: Fields = {}
    model_fields: Fields = {}
    environment_fields: Fields = {}

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        return self.task, self.system, self.model, self.environment, self.repeat

    @property
    def name(self) -> str:
        return " x ".join((self.task, self.system, self.model, self.environment)) + f" #{self.repeat + 1}"


def cells(spec: Spec) -> Iterator[Cell]:
    """All cells in the order in which they run: repeats one after another, their blocks and the arms in those mixed."""
    random = Random(f"{spec.seed} order")
    others = [arms for factor, arms in _factors(spec) if factor != spec.compare.by]
    names = [factor for factor, _ in _factors(spec) if factor != spec.compare.by]
    for repeat in range(spec.repeats):
        blocks = list(product(*others))
        random.shuffle(blocks)
        for block in blocks:
            fixed = dict(zip(names, block, strict=True))
            arms = list(spec.arms(spec.compare.by))
            random.shuffle(arms)
            for arm in arms:
                yield _cell(spec, {**fixed, spec.compare.by: arm}, repeat, _seed(spec.seed, block, repeat))


def fingerprint(spec: Spec, cell: Cell) -> str:
    """What a cell's result depends on, besides chance: where this is the same, so is what was measured."""
    how = (spec.command, spec.call, spec.daemon, spec.clock, spec.timeout)
    return sha256(msgspec.json.encode((how, cell), order="deterministic")).hexdigest()[:16]


def _factors(spec: Spec) -> tuple[tuple[str, list[str]], ...]:
    return (
        ("task", list(spec.tasks)),
        ("system", list(spec.systems)),
        ("model", list(spec.models)),
        ("environment", list(spec.environments)),
    )


def _cell(spec: Spec, at: dict[str, str], repeat: int, seed: int) -> Cell:
    return Cell(
        task=at["task"],
        system=at["system"],
        model=at["model"],
        environment=at["environment"],
        repeat=repeat,
        seed=seed,
        task_fields=spec.tasks[at["task"]],
        system_fields=spec.systems[at["system"]],
        model_fields=spec.models[at["model"]],
        environment_fields=spec.environments[at["environment"]],
    )


def _seed(seed: int, block: tuple[str, ...], repeat: int) -> int:
    """31 bits, the same for a block in any file where it is called the same."""
    digest = sha256(msgspec.json.encode((seed, block, repeat))).digest()
    return int.from_bytes(digest[:4]) >> 1
