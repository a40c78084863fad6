"""Placeholders: `{task}` is a name, `{task.prompt}` a field of it; also `{seed}`, `{repeat}` and `{python}`.

Other braces are left as they are, so that JSON needs no escapes.
"""

import re
import sys
from collections.abc import Mapping
from typing import Final

from bench.experiment.cells import Cell
from bench.experiment.spec import Fields, SpecError

_PLACE: Final = re.compile(r"\{(task|system|model|environment)(?:\.(\w+))?\}|\{(seed|repeat|python)\}")


def filled(text: str, cell: Cell) -> str:
    """The text with a cell's values. `SpecError` where it names a field that the cell has not."""
    fields = _fields(cell)
    plain = {"seed": str(cell.seed), "repeat": str(cell.repeat), "python": sys.executable}

    def value(match: re.Match[str]) -> str:
        factor, field, other = match.groups()
        if other:
            return plain[other]
        name, values = fields[factor]
        if field is None:
            return name
        if field not in values:
            raise SpecError(f"{match[0]} is asked for, but {factor} {name!r} has no {field!r}")
        return str(values[field])

    return _PLACE.sub(value, text)


def variables(cell: Cell) -> dict[str, str]:
    """The environment variables that a cell's task, system, model and environment set, in this order."""
    found: dict[str, str] = {}
    for _, values in _fields(cell).values():
        own = values.get("env")
        if isinstance(own, dict):
            found.update(own)
    return found


def _fields(cell: Cell) -> Mapping[str, tuple[str, Fields]]:
    return {
        "task": (cell.task, cell.task_fields),
        "system": (cell.system, cell.system_fields),
        "model": (cell.model, cell.model_fields),
        "environment": (cell.environment, cell.environment_fields),
    }
