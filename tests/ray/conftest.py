"""One Ray cluster for all tests of this folder, since each costs seconds."""

from collections.abc import Iterator

import pytest

from bench.ray_local import Cluster, local_cluster
from tests.ray.ray_cluster import require_ray


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[Cluster]:
    """A cluster of two nodes. A test that kills one adds another."""
    require_ray()
    with local_cluster() as cluster:
        yield cluster
