"""Where the configuration is looked for, and what its relative paths are relative to."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from orchestrator.config.problems import ConfigError, Problem
from orchestrator.config.schema import Config

VARIABLE: Final = "HEADRACE_CONFIG"
FILE: Final = "headrace.toml"


def places(environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The files looked for, in this order, where neither an option nor the environment names one."""
    return Path(FILE), _home(environ, "XDG_CONFIG_HOME", ".config") / "headrace" / FILE, Path("/etc/headrace") / FILE


def find_config(explicit: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The file to load: `explicit`, else what the environment names, else the first that is there; None if none is.

    A file that was named is not looked for: loading it says what is wrong with it.
    """
    if explicit is not None:
        return explicit
    if named := environ.get(VARIABLE):
        return Path(named)
    return next((place for place in places(environ) if place.is_file()), None)


def require_config(explicit: Path | None = None, environ: Mapping[str, str] = os.environ) -> Path:
    """`find_config`, where there has to be one. Raises `ConfigError`, which names all places."""
    found = find_config(explicit, environ)
    if found is None:
        looked = ", ".join(map(str, places(environ)))
        message = f"there is none: neither --config nor ${VARIABLE} names one, and none of these is there: {looked}"
        raise ConfigError([Problem("", f"{message}; `headrace init` writes one")])
    return found


def data_dir(config: Config, environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which the daemon keeps what must outlive it. It need not be there yet."""
    if config.daemon.data_dir is not None:
        return beside(config, config.daemon.data_dir)
    return _home(environ, "XDG_STATE_HOME", ".local/state") / "headrace"


def beside(config: Config, path: str) -> Path:
    """A path in the file: relative to the file's folder, `~` is the home folder."""
    return folder(config) / Path(path).expanduser()


def folder(config: Config) -> Path:
    """The folder of the file; without a file, the working directory."""
    return Path(config.source).parent if config.source else Path.cwd()


def _home(environ: Mapping[str, str], variable: str, default: str) -> Path:
    given = environ.get(variable, "")
    # the XDG rules: a relative path there is to be ignored
    return Path(given) if given.startswith("/") else Path(environ.get("HOME") or Path.home()) / default
