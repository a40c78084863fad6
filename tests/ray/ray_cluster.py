"""The cluster that tests share, or the reason why there is none.

Where Ray is not installed, tests that need it are skipped and say so; under CI they fail instead, so that nobody takes
a green run without a cluster for one with it.
"""

import importlib.util
import os

import pytest


def require_ray() -> None:
    """Skips the test where Ray is not installed; fails it under CI."""
    if importlib.util.find_spec("ray") is None:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail("CI must test the pool on a Ray cluster: Ray is not installed")
        pytest.skip("Ray is not installed")
