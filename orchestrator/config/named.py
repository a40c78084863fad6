"""Things of Python's that a configuration names as `package.module:name`: installed, or in a file beside it."""

import importlib
import re
import sys
from pathlib import Path
from typing import Final

from agents.errors import InvalidLimits
from orchestrator.config.problems import no_such

_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_named(reference: str, field: str) -> None:
    """Raises `InvalidLimits`, which names the field, for what cannot be a name."""
    if not _REFERENCE.fullmatch(reference):
        raise InvalidLimits(field, f'must look like "package.module:name", not {reference!r}')


def find_named(reference: str, folder: Path, field: str) -> object:
    """What `package.module:name` stands for. Importing runs the module, so anything may be raised there.

    Raises `InvalidLimits`, which names the field.
    """
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
        raise InvalidLimits(field, message) from None
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidLimits(field, f"module {module_name!r} cannot be imported: {what}") from error
    for name in names.split("."):
        if not hasattr(found, name):
            public = (
                sorted(known for known in vars(found) if not known.startswith("_"))
                if hasattr(found, "__dict__")
                else []
            )
            raise InvalidLimits(field, f"in module {module_name!r} {no_such('name', name, public)}")
        found = getattr(found, name)
    return found
