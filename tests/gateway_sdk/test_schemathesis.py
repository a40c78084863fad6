"""Requests made from the daemon's own description, good and bad, against the daemon itself.

Bounded and always the same. What is not asked: that whatever fits the schemas is accepted (a name may be too long, a
model unknown: the daemon says so), and streams without an end.
"""

from collections.abc import Iterator

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from orchestrator.api.app import all_routes
from orchestrator.api.openapi import make_document
from orchestrator.daemon.daemon import Daemon
from tests.api.surface_rig import make_services
from tests.daemon.serving import config
from tests.gateway_sdk.threaded import daemon_in_thread

DOCUMENT = make_document([route.operation for route in all_routes(make_services())])
ENDLESS = r"/events$"
LINES = r"/api/jobs/\{job\}/inputs$"
LOG = r"/api/sessions$"
"""Takes lines of JSON, which schemathesis cannot make."""

MAY_FAIL = frozenset({502, 503, 504, 507, 529})
"""What a provider, a full disk or a drain may bring about; 500 is nobody's but ours."""

schema = (
    schemathesis.openapi.from_dict(DOCUMENT)
    .exclude(path_regex=ENDLESS)
    .exclude(path_regex=LINES)
    .exclude(path_regex=LOG, method="POST")
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, str]]:
    """A daemon whose model answers at once."""
    text = '[backends.sim]\nkind = "simulated"\nspeed = 1000000\n\n[models."*"]\nbackends = ["sim"]\n'
    with daemon_in_thread(config(tmp_path_factory.mktemp("daemon"), text)) as both:
        yield both


@schema.parametrize()
@settings(
    max_examples=3,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_described(case: schemathesis.Case, served: tuple[Daemon, str]) -> None:
    """No request that the description suggests breaks the daemon, and every answer is one that it describes."""
    response = case.call(base_url=served[1], timeout=20)
    unasked = [checks.not_a_server_error, checks.CHECKS.get_one("positive_data_acceptance")]
    case.validate_response(response, excluded_checks=unasked)
    assert response.status_code < 500 or response.status_code in MAY_FAIL


def test_the_description_is_the_daemons_own_and_it_still_serves(served: tuple[Daemon, str]) -> None:
    """What was tested is what the daemon says of itself, and after all that it holds nothing and is alive."""
    daemon, url = served
    assert httpx2.get(f"{url}/api/openapi.json", trust_env=False).json()["paths"].keys() == DOCUMENT["paths"].keys()
    assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
    assert sum(len(owner._open) for owner in daemon.owners.by_name.values()) == 0
