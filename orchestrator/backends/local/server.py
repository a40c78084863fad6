"""The child process of `local.py`: llama.cpp's own HTTP server, held until its parent lets go of it.

It talks with its parent over three pipes. The first line of stdin is a JSON object of settings, each an attribute
path of `xllamacpp.CommonParams` (`cpuparams.n_threads`) with its value; stdin then stays open for as long as the
parent lives. One JSON line on stdout, `{"address": ...}`, says that the model is loaded and the port open. Everything
else that anyone prints goes to stderr.

Only the standard library and xllamacpp are imported, so that the file runs by its path alone.
"""

import importlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any, NoReturn

EXIT_BAD_SETTINGS = 2
EXIT_NOT_LOADED = 3


def main() -> NoReturn:
    """Serves until stdin ends or a signal comes."""
    report = _keep_stdout_for_the_parent()
    settings: Mapping[str, Any] = json.loads(_first_line())
    # The parent's death must be seen while the model loads as well. PR_SET_PDEATHSIG would not do: it follows the
    # thread that forked, and trio forks in worker threads, which end when idle.
    threading.Thread(target=_exit_with_the_parent, name="parent-watch", daemon=True).start()
    server = _load(settings)
    report.write(json.dumps({"address": server.listening_address}) + "\n")
    report.flush()
    while True:
        threading.Event().wait()


def _keep_stdout_for_the_parent() -> IO[str]:
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return report


def _first_line() -> bytes:
    """One line straight from the descriptor: a buffered reader could hold the end of stdin back from the watch."""
    line = bytearray()
    while not line.endswith(b"\n"):
        chunk = os.read(0, 65536)
        if not chunk:
            os._exit(0)
        line += chunk
    return bytes(line)


def _exit_with_the_parent() -> NoReturn:
    while os.read(0, 4096):
        pass
    os._exit(0)


def _load(settings: Mapping[str, Any]) -> Any:
    """Blocks until the model is loaded and the port is open."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    for path, value in settings.items():
        _set(params, path, value)
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        _fail(EXIT_NOT_LOADED, f"llama.cpp could not start: {error}")


def _set(params: object, path: str, value: object) -> None:
    *parents, name = path.split(".")
    target = params
    for parent in parents:
        target = getattr(target, parent, None)
    if not hasattr(target, name):
        _fail(EXIT_BAD_SETTINGS, f"the installed xllamacpp has no setting {path!r}")
    setattr(target, name, value)


def _fail(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    os._exit(code)


if __name__ == "__main__":
    main()
