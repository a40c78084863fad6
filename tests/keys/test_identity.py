"""Who asks, by the headers of a request, over the whole surface."""

import json
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import ASGIApp

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.api.app import make_app
from orchestrator.api.errors import Forbidden, Unauthorized
from orchestrator.api.identity import EVERYBODY, Client, Identity
from orchestrator.keys import KeyRing, NewKey
from tests.api.surface_rig import ask, make_services

NOW = 1_700_000_000.0


class Keyed:
    """A surface that knows a tenant's key, an admin's, and one that was revoked."""

    def __init__(self, **services: Any) -> None:
        ring, self.acme = KeyRing().add("acme", NOW)
        ring, self.ops = ring.add("ops", NOW, role="admin")
        ring, self.batch = ring.add("acme", NOW, highest_priority="batch")
        ring, self.ended = ring.add("acme", NOW)
        self.ring, _ = ring.revoke(self.ended.record.id, NOW)
        self.identify = Identity(lambda: self.ring, lambda: NOW)
        self.app: ASGIApp = make_app(make_services(identify=self.identify, **services))

    def client(self, **headers: str) -> Client:
        return self.identify(Headers({name.replace("_", "-"): value for name, value in headers.items()}))


def bearer(key: NewKey) -> dict[str, str]:
    return {"authorization": f"Bearer {key.text}"}


def test_without_keys_everybody_may_do_everything() -> None:
    """Whatever an SDK sends as a key is passed over, and a header names the tenant."""
    identify = Identity(KeyRing, lambda: NOW)
    assert identify({}) == EVERYBODY
    assert identify({"authorization": "Bearer sk-anything", "x-api-key": "x"}) == EVERYBODY
    assert identify({"x-headrace-tenant": "web"}) == Client(tenant="web", admin=True)
    with pytest.raises(InvalidLimits, match="tenant"):
        identify({"x-headrace-tenant": "a b"})


def test_a_key_is_found_where_both_sdks_put_it() -> None:
    """As a bearer token in any case of the word, or as `x-api-key`; another scheme before it is passed over."""
    keyed = Keyed()
    text = keyed.acme.text
    expected = Client(tenant="acme", key=keyed.acme.record.id)
    assert keyed.client(authorization=f"Bearer {text}") == expected
    assert keyed.client(authorization=f"bearer   {text} ") == expected
    assert keyed.client(x_api_key=text) == expected
    assert keyed.client(authorization="Basic eDp5", x_api_key=text) == expected
    assert keyed.client(authorization=f"Bearer {keyed.ops.text}").admin
    assert keyed.client(x_api_key=keyed.batch.text).highest_priority is Priority.BATCH


def test_a_key_that_does_not_hold_is_not_told_what_is_wrong_with_it() -> None:
    """Unknown, mistyped, revoked: one message for all, and none that repeats the key."""
    keyed = Keyed()
    said = set()
    for wrong in (keyed.ended.text, keyed.acme.text[:-1] + "x", keyed.acme.text[:-2] + "00", "sk-1234", "hr-0"):
        with pytest.raises(Unauthorized) as error:
            keyed.client(authorization=f"Bearer {wrong}")
        assert wrong not in error.value.message
        said.add(error.value.message)
    assert len(said) == 1
    with pytest.raises(Unauthorized, match="a key is needed"):
        keyed.client()


def test_a_tenant_acts_for_itself_and_an_admin_for_all() -> None:
    """A tenant's key that names another tenant is refused; an admin's names any; unnamed is the key's own."""
    keyed = Keyed()
    assert keyed.client(x_api_key=keyed.acme.text, x_headrace_tenant="acme").tenant == "acme"
    assert keyed.client(x_api_key=keyed.acme.text, x_headrace_tenant="default").tenant == "acme"
    with pytest.raises(Forbidden, match="for tenant acme"):
        keyed.client(x_api_key=keyed.acme.text, x_headrace_tenant="web")
    assert keyed.client(x_api_key=keyed.ops.text, x_headrace_tenant="web").tenant == "web"
    assert keyed.client(x_api_key=keyed.ops.text).tenant == "ops"
    assert keyed.client(x_api_key=keyed.ops.text).tenant_for("acme") == "acme"


async def test_everything_but_health_asks_for_a_key() -> None:
    """Every path answers 401 without one, also those that are not there; alive, ready and the page do not."""
    keyed = Keyed()
    for path in (
        "/metrics",
        "/api/runs",
        "/api/jobs",
        "/api/queue",
        "/api/openapi.json",
        "/nowhere",
        "/healthz/",
        "/page/x",
    ):
        answer = await ask(keyed.app, "GET", path)
        assert (path, answer.status, answer.error["kind"]) == (path, 401, "unauthorized")
        assert answer.header("www-authenticate") == 'Bearer realm="headrace"'
    for path in ("/healthz", "/readyz", "/", "/page/main.js"):
        assert (await ask(keyed.app, "GET", path)).status == 200
    assert (await ask(keyed.app, "GET", "/nowhere", headers=bearer(keyed.acme))).status == 404


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/chat/completions", ("invalid_request_error", "invalid_api_key")),
        ("/v1/messages", ("authentication_error",)),
        ("/v1/models", ("invalid_api_key",)),
    ],
)
async def test_programs_are_refused_in_their_own_dialect(path: str, words: tuple[str, ...]) -> None:
    """A 401 under /v1 has the shape from which the program's SDK makes its error about authentication."""
    keyed = Keyed()
    answer = await ask(keyed.app, "POST", path, b"{}", {"authorization": "Bearer sk-wrong"})
    assert answer.status == 401
    text = answer.body.decode()
    for word in words:
        assert f'"{word}"' in text
    assert "sk-wrong" not in text


async def test_metrics_are_for_admins_unless_they_are_open() -> None:
    """They name every tenant: a tenant's key gets 403; opened by the configuration they ask for nothing."""
    keyed = Keyed()
    assert (await ask(keyed.app, "GET", "/metrics", headers=bearer(keyed.acme))).status == 403
    assert (await ask(keyed.app, "GET", "/metrics", headers=bearer(keyed.ops))).status == 200
    assert (await ask(Keyed(open_metrics=True).app, "GET", "/metrics")).status == 200


async def test_a_revoked_key_is_refused_from_the_next_request_on() -> None:
    """Nothing remembers that it was good."""
    keyed = Keyed()
    assert (await ask(keyed.app, "GET", "/api/capabilities", headers=bearer(keyed.acme))).status == 200
    keyed.ring, _ = keyed.ring.revoke(keyed.acme.record.id, NOW)
    refused = await ask(keyed.app, "GET", "/api/capabilities", headers=bearer(keyed.acme))
    assert (refused.status, json.loads(refused.body)["error"]["kind"]) == (401, "unauthorized")
