"""Cells that are calls of a Python function, `module:function`, which gets the cell and returns its result.

It may be asynchronous, on trio; only that way can it be run in virtual time, where hours of waiting cost nothing.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from bench.experiment.cells import Cell
from bench.experiment.outcome import Outcome, broken, read_result
from bench.experiment.spec import SpecError


class FunctionRunner:
    """Calls a function once for each cell. `SpecError` where there is no such function."""

    def __init__(self, name: str, folder: Path, *, threads: bool) -> None:
        self._function = _found(name, folder)
        self._threads = threads

    def check(self, cell: Cell) -> None:
        """A function takes any cell."""

    async def run(self, cell: Cell) -> Outcome:
        """What it returns, as an outcome; an exception means that the cell is broken."""
        try:
            if inspect.iscoroutinefunction(self._function):
                result = await self._function(cell)
            elif self._threads:
                result = await trio.to_thread.run_sync(self._function, cell, abandon_on_cancel=True)
            else:
                result = self._function(cell)
        except Exception as error:
            return broken(f"{type(error).__name__}: {error}")
        return read_result(result)


def _found(name: str, folder: Path) -> Callable[[Cell], Any]:
    module_name, _, function_name = name.partition(":")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise SpecError(f"call = {name!r}: {module_name} cannot be imported: {error}") from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise SpecError(f"call = {name!r}: {module_name} has no function {function_name}")
    found: Callable[[Cell], Any] = function
    return found
