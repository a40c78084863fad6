"""Where the public traces are: a folder named by the environment, or one of a few beside the project."""

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "HEADRACE_TRACES"
_ROOT: Final = Path(__file__).resolve().parents[2]
PLACES: Final = ("traces", "../traces", "../shared/traces")


def find_traces() -> Path | None:
    """The folder with traces: `HEADRACE_TRACES` if that is set, else the first of `PLACES` that there is."""
    named = os.environ.get(VARIABLE)
    folders = [Path(named)] if named else [_ROOT / place for place in PLACES]
    return next((folder for folder in folders if folder.is_dir()), None)


def find_trace(name: str) -> Path | None:
    """A trace's file by its name, None where it is not."""
    folder = find_traces()
    path = None if folder is None else folder / name
    return path if path is not None and path.is_file() else None


def missing(name: str) -> str:
    """What to say where a trace is not there."""
    return f"the trace {name} is not there; {VARIABLE} names the folder that has it"
