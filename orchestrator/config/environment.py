"""Whether what a configuration names is there: keys, tools, weights. Nothing connects or starts."""

import datetime
import os
from collections.abc import Mapping

from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.local.config import NotInstalled, find_weights
from orchestrator.config.build import build_backends
from orchestrator.config.catalogue import build_catalogue
from orchestrator.config.mcp_servers import mcp_servers
from orchestrator.config.problems import ConfigError, Problem, show_path
from orchestrator.config.schema import Config


def require_all(config: Config, environ: Mapping[str, str] = os.environ) -> None:
    """Raises `ConfigError` with everything that would keep a daemon from starting with this configuration here."""
    problems: list[Problem] = []
    try:
        plans = build_backends(config, environ)
    except ConfigError as error:
        plans = []
        problems += error.problems
    try:
        build_catalogue(config, datetime.date.today(), environ=environ)
    except ConfigError as error:
        problems += error.problems
    try:
        mcp_servers(config, environ)
    except ConfigError as error:
        problems += error.problems
    for plan in plans:
        for endpoint in plan.endpoints:
            if isinstance(endpoint.backend, LocalBackend):
                try:
                    find_weights(endpoint.backend.config)
                except NotInstalled as error:
                    problems.append(Problem(show_path(("backends", plan.owner.name)), error.message))
    if problems:
        raise ConfigError(problems, config.source)
