"""The functions of `[tools.NAME]`, imported."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from agents.errors import InvalidLimits
from agents.tools import InvalidTool, Tool
from orchestrator.config.agent_tables import ToolTable
from orchestrator.config.problems import no_such


def import_tool(name: str, table: ToolTable, folder: Path) -> Tool:
    """The tool, its function imported from the environment or else from `folder`. Raises `InvalidLimits`.

    A function that is a `Tool` already keeps what it says of itself and the table does not.
    """
    found = _find(table.function, folder)
    own = found if isinstance(found, Tool) else None
    function = own.function if own is not None else found
    if not callable(function):
        raise InvalidLimits("function", f"{table.function} is no function")
    try:
        return _make(name, table, function, own)
    except InvalidTool as error:
        raise InvalidLimits("function", error.message) from None


def _make(name: str, table: ToolTable, function: Callable[..., object], own: Tool | None) -> Tool:
    if own is None:
        own_concurrency = own_timeout = own_description = None
    else:
        own_concurrency = None if own.limiter is None else int(own.limiter.total_tokens)
        own_timeout, own_description = own.timeout, own.spec.description
    return Tool(
        function,
        name=name,
        description=own_description if table.description is None else table.description,
        timeout=own_timeout if table.timeout is None else table.timeout,
        concurrency=own_concurrency if table.concurrency is None else table.concurrency,
        idempotent=table.idempotent or (own is not None and own.idempotent),
        read_only=table.read_only or (own is not None and own.read_only),
        grace=table.grace,
    )


def _find(reference: str, folder: Path) -> object:
    """What `package.module:name` stands for. Importing runs the module, so anything may be raised there."""
    module_name, _, names = reference.partition(":")
    # last, so that a file beside the configuration never takes the place of an installed module
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    importlib.invalidate_caches()
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            message = f"there is no module {error.name!r}, neither installed nor in {folder}"
        else:
            message = f"module {module_name!r} cannot be imported: {error}"
        raise InvalidLimits("function", message) from None
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidLimits("function", f"module {module_name!r} cannot be imported: {what}") from error
    for name in names.split("."):
        if not hasattr(found, name):
            public = (
                sorted(known for known in vars(found) if not known.startswith("_"))
                if hasattr(found, "__dict__")
                else []
            )
            raise InvalidLimits("function", f"in module {module_name!r} {no_such('name', name, public)}")
        found = getattr(found, name)
    return found
