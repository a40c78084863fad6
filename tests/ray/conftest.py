"""One Ray cluster for all tests of this folder, since each costs seconds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ray_local import Cluster, local_cluster
from tests.daemon.process import ROOT
from tests.ray.deeds import FOLDER
from tests.ray.ray_cluster import require_ray


@pytest.fixture(scope="session")
def deeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the effects of the cluster's tools are."""
    return tmp_path_factory.mktemp("deeds")


@pytest.fixture(scope="session")
def two_nodes(deeds: Path) -> Iterator[Cluster]:
    """A cluster of two nodes. A test that kills one adds another."""
    require_ray()
    with local_cluster(PYTHONPATH=str(ROOT), **{FOLDER: str(deeds)}) as cluster:
        yield cluster
