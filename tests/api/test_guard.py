"""Who may ask: names of this machine, pages of this daemon, HTTP/1."""

import pytest

from orchestrator.api.app import make_app
from orchestrator.api.surface import HttpConfig, is_loopback
from tests.api.surface_rig import Exchange, ask, make_services


def app_at(host: str = "127.0.0.1", **config):
    return make_app(make_services(), HttpConfig(host=host, **config))


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8700", "LOCALHOST", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8700", "127.9.9.9"],
)
async def test_names_of_this_machine_are_answered(host):
    """Every way to name this machine gets in."""
    answer = await ask(app_at(), "GET", "/healthz", headers={"host": host})
    assert answer.status == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/queue", "/nowhere"])
@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]:8700", "[evil"]
)
async def test_a_name_that_was_made_to_point_here_is_refused(host, path):
    """On loopback, a request for any other name is DNS rebinding, whatever it asks for."""
    answer = await ask(app_at(), "GET", path, headers={"host": host})
    assert (answer.status, answer.error["kind"]) == (403, "foreign_host")


async def test_two_host_headers_are_refused():
    """A request that names two hosts names none."""
    exchange = Exchange(app_at(), "GET", "/healthz")
    exchange.scope["headers"].append((b"host", b"127.0.0.1"))
    assert (await exchange.run()).status == 403


async def test_a_name_that_is_allowed_is_answered():
    """A proxy's name can be configured."""
    app = app_at(allowed_hosts=("models.example",))
    assert (await ask(app, "GET", "/healthz", headers={"host": "models.example:443"})).status == 200


async def test_another_address_asks_for_no_name():
    """Who listens for other machines is asked under names that it cannot know."""
    answer = await ask(app_at("0.0.0.0"), "GET", "/healthz", headers={"host": "models.example"})
    assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:3000"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_a_foreign_page_may_not_use_the_daemon(headers, method):
    """A browser's request from another origin is refused before anything is done, preflights too."""
    answer = await ask(app_at(), method, "/api/calls", headers=headers)
    assert (answer.status, answer.error["kind"]) == (403, "foreign_origin")
    assert answer.header("access-control-allow-origin") is None


@pytest.mark.parametrize(
    "headers", [{"origin": "http://localhost:8700"}, {"sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}, {}]
)
async def test_the_daemons_own_page_and_programs_may(headers):
    """What comes from the daemon's own origin, or from no page at all, is served."""
    answer = await ask(app_at(), "GET", "/api/queue", headers={"host": "localhost:8700", **headers})
    assert answer.status == 200


async def test_other_versions_of_http_are_refused():
    """HTTP/2 is not spoken."""
    exchange = Exchange(app_at(), "GET", "/healthz")
    exchange.scope["http_version"] = "2"
    assert (await exchange.run()).status == 505


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("example.org", False),
    ],
)
def test_what_loopback_is(host, loopback):
    """Only addresses that no other machine can reach count."""
    assert is_loopback(host) is loopback
