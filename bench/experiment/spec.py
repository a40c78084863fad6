"""What an experiment file says, decoded and checked before anything runs."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from bench.experiment.verdict import Question

Factor = Literal["system", "model", "environment"]
Fields: TypeAlias = dict[str, str | int | float | bool | dict[str, str]]
"""What is said of one task, system, model or environment. `env` is a table of environment variables."""

SUCCESS: Final = "success"
MOST_CELLS: Final = 1_000_000
_NAME: Final = re.compile(r"[\w.:/@+-]{1,100}")
_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?) ?%")


def _one_arm() -> dict[str, Fields]:
    return {"default": {}}


class SpecError(Exception):
    """The experiment file cannot be used: one sentence that says where, what is wrong, and what would be right."""


class Compare(Struct, frozen=True, forbid_unknown_fields=True):
    """Which factor's arms are held against which one of them."""

    by: Factor
    baseline: str


class Measure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of each cell, or its success. `margin` is the smallest difference that matters: in the measure's own
    unit, or as "5 %" of the baseline's mean. Without one an interval is told and no verdict."""

    name: str
    better: Literal["", "more", "less"] = ""
    margin: float | str | None = None

    def question(self, error: float) -> Question:
        """What is asked about it. ValueError where the margin makes no sense."""
        amount, relative = _margin(self.margin)
        return Question(
            more_is_better=self.better != "less",
            margin=amount,
            relative=relative or (amount is None and self.name != SUCCESS),
            bounded=self.name == SUCCESS and not relative,
            error=error,
        )


class DaemonRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each cell is a run on a daemon. Placeholders are put in; `expect` is a pattern that a right answer holds."""

    prompt: str
    expect: str
    url: str = "http://127.0.0.1:8700"
    agent: str = ""
    model: str = ""
    system: str = ""
    tenant: str = "default"
    rounds: int | None = None


class Spec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experiment: every task under every system, model and environment, `repeats` times.

    `error` is the allowed chance that the whole experiment says better or worse where nothing differs; it is shared
    among its verdicts and its `looks`: how often its tasks or repeats may be looked at, the first time included.
    `at_once` cells run together, each at most `timeout` seconds; `k` are those of pass@k and pass^k.
    """

    name: str
    compare: Compare
    tasks: dict[str, Fields]
    systems: dict[str, Fields] = field(default_factory=_one_arm)
    models: dict[str, Fields] = field(default_factory=_one_arm)
    environments: dict[str, Fields] = field(default_factory=_one_arm)
    measures: tuple[Measure, ...] = (Measure(name=SUCCESS),)
    command: tuple[str, ...] = ()
    call: str = ""
    daemon: DaemonRun | None = None
    clock: Literal["real", "virtual"] = "real"
    repeats: int = 5
    seed: int = 0
    looks: int = 1
    error: float = 0.05
    at_once: int = 1
    timeout: float = 600.0
    k: tuple[int, ...] = ()

    def arms(self, factor: Factor | Literal["task"]) -> Mapping[str, Fields]:
        """What there is of a factor, by name."""
        return {
            "task": self.tasks,
            "system": self.systems,
            "model": self.models,
            "environment": self.environments,
        }[factor]

    @property
    def others(self) -> tuple[str, ...]:
        """The arms that are held against the baseline."""
        return tuple(name for name in self.arms(self.compare.by) if name != self.compare.baseline)

    @property
    def verdicts(self) -> int:
        """How many verdicts it comes to, each of which may be wrong."""
        return len(self.others) * sum(measure.margin is not None for measure in self.measures)

    @property
    def error_each(self) -> float:
        """What each verdict may have of `error`, so that all of them together keep it (Bonferroni)."""
        return self.error / (max(1, self.verdicts) * self.looks)


def read_spec(path: Path) -> Spec:
    """Reads and checks an experiment file. `SpecError` for whatever is wrong with it."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {_reason(error)}") from None
    try:
        document = tomllib.loads(text)
        _read_tasks(document, path.parent)
        spec = msgspec.convert(document, Spec)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is no TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise SpecError(f"{path}: {_first_small(str(error))}") from None
    problem = _problem(spec)
    if problem:
        raise SpecError(f"{path}: {problem}")
    return spec


def _read_tasks(document: dict[str, Any], folder: Path) -> None:
    """Puts the lines of `tasks_file`, JSON objects with a `name`, in the place of `tasks`."""
    name = document.pop("tasks_file", None)
    if name is None:
        return
    if not isinstance(name, str) or "tasks" in document:
        raise SpecError("tasks_file is the name of a file of JSON Lines, given instead of [tasks]")
    tasks: dict[str, Any] = {}
    path = folder / name
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} cannot be read: {_reason(error)}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
            task = fields.pop("name")
        except (msgspec.MsgspecError, KeyError):
            raise SpecError(f"{path}, line {number}: is no JSON object with a name") from None
        if not isinstance(task, str) or task in tasks:
            raise SpecError(f"{path}, line {number}: its name is no text that occurs once")
        tasks[task] = fields
    document["tasks"] = tasks


def _problem(spec: Spec) -> str:
    """What is wrong in a file that is well formed, in words, or nothing."""
    factors: tuple[Factor | Literal["task"], ...] = ("task", "system", "model", "environment")
    cells = spec.repeats
    for factor in factors:
        arms = spec.arms(factor)
        cells *= len(arms)
        bad = [name for name in arms if not _NAME.fullmatch(name)]
        if bad:
            return f"{bad[0]!r} is no name of a {factor}: up to 100 letters, digits and any of . : / @ + - _"
        if not arms:
            return f"there is no {factor}: one at least"
    ways = [way for way in (spec.command, spec.call, spec.daemon) if way]
    compared = spec.arms(spec.compare.by)
    checks = (
        (len(ways) != 1, "one of command, call and [daemon] says what a cell runs"),
        (bool(spec.call) and spec.call.count(":") != 1, f"call = {spec.call!r} is not module:function"),
        (spec.clock == "virtual" and not spec.call, "clock = 'virtual' is for call only: nothing else knows of it"),
        (spec.compare.baseline not in compared, f"the baseline is one of: {', '.join(compared)}"),
        (len(compared) < 2, f"compare.by = {spec.compare.by!r} compares nothing: it has one arm, two at least"),
        (not 1 <= spec.repeats <= 10_000, "repeats is between 1 and 10,000"),
        (not 1 <= spec.at_once <= 1_000, "at_once is between 1 and 1,000"),
        (not 1 <= spec.looks <= 100, "looks is between 1 and 100"),
        (not 0 < spec.error <= 0.5, "error is more than 0 and at most 0.5"),
        (not 0 < spec.timeout <= 1e6, "timeout is more than 0 seconds, and at most 1,000,000"),
        (any(not 1 <= k <= spec.repeats for k in spec.k), f"every k is between 1 and repeats, which is {spec.repeats}"),
        (cells > MOST_CELLS, f"{cells:,} cells are too many: {MOST_CELLS:,} at most"),
        (len({measure.name for measure in spec.measures}) < len(spec.measures), "a measure is there twice"),
    )
    return next((words for wrong, words in checks if wrong), "") or _measure_problem(spec)


def _measure_problem(spec: Spec) -> str:
    for measure in spec.measures:
        if measure.name == SUCCESS and measure.better == "less":
            return "more success is better, not less"
        if measure.name != SUCCESS and not measure.better:
            return f"measure {measure.name!r} needs better = 'more' or better = 'less'"
        try:
            question = measure.question(spec.error_each)
        except ValueError as error:
            return f"measure {measure.name!r}: {error}"
        if question.bounded and (question.margin or 0.0) >= 1:
            return "the margin of success is a share, for example 0.05 for 5 points of 100"
    return ""


def _margin(given: float | str | None) -> tuple[float | None, bool]:
    """Amount, and whether it is a share of the baseline."""
    relative = isinstance(given, str)
    if given is None:
        return None, False
    if isinstance(given, str):
        match = _PERCENT.fullmatch(given)
        if match is None:
            raise ValueError(f'margin = "{given}" is neither a number nor a share such as "5 %"')
        given = float(match[1]) / 100
    if not 0 < given < float("inf"):
        raise ValueError("a margin is more than 0: how large a difference must be to matter")
    return given, relative


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"


def _first_small(words: str) -> str:
    return words[:1].lower() + words[1:]
