"""A daemon with the real local model."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.backends.local.config import LocalConfig, NotInstalled, find_weights
from orchestrator.daemon.daemon import Daemon
from tests.daemon.serving import config
from tests.gateway_sdk.threaded import daemon_in_thread

CONFIG = '[backends.local]\nkind = "local"\nslots = 2\nconcurrency = 2\n\n[models.small]\nbackends = ["local"]\n'


@contextmanager
def local_daemon(folder: Path) -> Iterator[tuple[Daemon, str]]:
    """The daemon and its URL. Without the model's packages tests are skipped; where `CI` is set that is a failure."""
    try:
        find_weights(LocalConfig())
    except NotInstalled as error:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(error.message)
    with daemon_in_thread(config(folder, CONFIG)) as both:
        yield both
